"""What a search found is shown as text, wherever the stored JSON was cut."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from freezeframe_replay.sources.run_list import readable


@given(text=st.text(st.sampled_from('a’é\U0001f600\n"\\ '), max_size=12), cut=st.slices(60))
def test_a_snippet_that_is_cut_anywhere_can_be_shown_on_a_page(text: str, cut: slice) -> None:
    readable(json.dumps(text)[cut.start : cut.stop], "a").encode()


def test_a_snippet_has_no_escapes_and_says_where_it_is_cut() -> None:
    stored = json.dumps("Maria’s card \U0001f600 was\nrefused")[1:-1]
    assert readable(stored, "card") == "Maria’s card \U0001f600 was refused"
    assert readable(stored[stored.index("\\ude00") :], "card") == "…\ufffd was refused"
