"""Surrogates in the texts of a page: marked with their class, and nothing else is."""

from __future__ import annotations

import html
import json
import re

from handmade_runs import make_run
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from freezeframe_replay.web.markup import Tint, block
from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord

TEXTS = st.text("aB1 +.@<&", max_size=12)


def spans_with(listed: object) -> list[SpanRecord]:
    text = listed if isinstance(listed, str) else json.dumps(listed)
    return [make_run()[0].with_attributes({genai.REDACTION_SURROGATES: text})]


def test_a_surrogate_is_marked_where_it_is_a_word_of_its_own() -> None:
    """The longest one there; not in a longer word; its class and the rest of the text escaped."""
    tinted = Tint(spans_with({"Ann": "PERSON", "Ann Lee": "PERSON", "+44 (9)": "PHONE", "a@b.co": '<"E">'}))
    mark = '<i title="surrogate: {}">{}</i>'.format
    assert tinted("Ann Lee, Annie, <Ann>") == f"{mark('PERSON', 'Ann Lee')}, Annie, &lt;{mark('PERSON', 'Ann')}&gt;"
    assert tinted("+44 (9)x, 144 (9), +44 (9)") == f"+44 (9)x, 144 (9), +{mark('PHONE', '44 (9)')}"
    assert tinted("a@b.co") == mark("&lt;&#34;E&#34;&gt;", "a@b.co")
    assert tinted("Ann Lee", 5) == f"{mark('PERSON', 'Ann')} L …"
    assert tinted.facts == {"surrogates": '1 <"E">, 2 PERSON, 1 PHONE'}


@given(TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=3))
def test_marking_changes_no_text(text: str, listed: dict[str, str]) -> None:
    """What is left without the marks is what `block` gives."""
    shown = Tint(spans_with(listed))(text)
    assert html.unescape(re.sub("<[^>]*>", "", escape(shown))) == block(text)
    assert Tint(spans_with("[not a list"))(text) == Tint(spans_with(["Ann"]))(text) == block(text)
