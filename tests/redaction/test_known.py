"""Known surrogates and names that repeat are found as the plain pattern finds them, at a cost that does not grow with them."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from freezeframe_redaction.redacting.repeats import Repeats
from freezeframe_redaction.surrogates.known import Known

_WORDS = st.sets(
    st.text("ab+ -_(", min_size=1, max_size=5).filter(lambda word: re.search("[ab]", word)), min_size=1, max_size=6
)
_NAMES = st.sets(st.sampled_from(["Maria", "Jean-Luc", "Jean", "O'Neil", "Åsa", "李建国", "李建", "김민", "Zoë"]), min_size=1)
_TEXTS = st.lists(
    st.sampled_from(
        ["Maria", "Jean-Luc", "Jean", "O'Neil", "Åsa", "李建国先生", "김민지", "Zoë", "\n", "—", "\\", '"', "x", "é", " ", "📎"]
    )
).map("".join)


@given(_WORDS, st.text("ab+ -_(", max_size=30))
def test_known_texts_are_found_as_a_pattern_of_all_of_them_would(words: set[str], text: str) -> None:
    ordered = sorted(map(re.escape, words), key=lambda word: (-len(word), word))
    pattern = re.compile(r"(?<![^\W_])(?:" + "|".join(ordered) + r")(?![^\W_])")
    assert list(Known(words).spans(text, 0, len(text))) == [match.span() for match in pattern.finditer(text)]


@given(_NAMES, _TEXTS)
def test_many_names_are_found_where_few_are(names: set[str], text: str) -> None:
    """Few are looked for one by one before a text is read, many by what they begin with."""
    many = [f"Unheard{at}" for at in range(20)]
    found = Repeats([*names, *many]).find(text, ())
    assert found == Repeats(names).find(text, ())


@given(_NAMES, _TEXTS, st.booleans(), st.booleans())
def test_a_name_that_stands_in_a_text_may_stand_in_the_json_that_spells_it(
    names: set[str], text: str, plain: bool, nested: bool
) -> None:
    raw = json.dumps([text], ensure_ascii=plain)
    raw = json.dumps([raw], ensure_ascii=plain) if nested else raw
    standing = {text[start:end] for start, end in Repeats(names).find(text, ())}
    many = [f"Unheard{at}" for at in range(20)]
    assert standing <= set(Repeats(names).may_contain_form(raw))
    assert standing <= set(Repeats([*names, *many]).may_contain_form(raw))
