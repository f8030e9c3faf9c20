"""Find within a body that a step's page shows in pages of 64 kB."""

from __future__ import annotations

import html
import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from handmade_runs import make_run, model_call

from freezeframe_replay.report.outline import outline_run
from freezeframe_replay.web.step_pages import find_words, step_page
from freezeframe_schemas.run import Run, build_run

FILLER = "nothing to see. " * 4100
"""A little more than a page."""


def run_of(question: str) -> Run:
    return build_run(make_run(model_call(question, "fine")))


def page_of(run: Run, **shown: str) -> str:
    outline = outline_run(run)
    return step_page(run, outline, next(node for node in outline.nodes if node.step == 1), shown)


@pytest.mark.parametrize(
    "words", ["zürich haupt", "ZÜRICH  HAUPT", "zürich\nhaupt"], ids=["as written", "in capitals", "across lines"]
)
@pytest.mark.parametrize("text", ["Zürich Haupt", "Zürich\nHaupt", "zürich haupt"])
def test_words_are_found_in_any_case_and_as_json_escapes_them(text: str, words: str) -> None:
    for is_ascii in (True, False):
        body = json.dumps({"q": f"see {text}bahnhof"}, ensure_ascii=is_ascii)
        ((begin, end),) = find_words(body, words)
        assert json.loads(f'"{body[begin:end]}"') == text


def test_nothing_is_found_for_no_words_and_marks_of_patterns_are_letters() -> None:
    assert not find_words("a.b", " ")
    assert find_words("a.b axb", "a.b") == [(0, 3)]


def test_each_hit_is_a_link_to_the_page_that_marks_it() -> None:
    """Also if a page ends in the middle of a hit, and however the body reads: no hit is lost, and none is in the page twice."""
    run = run_of(f"{FILLER}lost in Lyon{FILLER}<b>lost</b> in Lyon again{FILLER}")
    first = page_of(run, find="lost")
    links = re.findall(r'<a href="(\?request=[^"]+)">page', first)
    assert len(links) == first.count("<li><a") == 2
    for link in map(html.unescape, links):
        address = urlsplit(link)
        asked = {name: value for name, (value,) in parse_qs(address.query).items()}
        page = page_of(run, **asked)
        assert page.count(f'<mark id="{address.fragment}">lost</mark>') == 1
        assert "&lt;b&gt;" in page or "<b>" not in page
    assert "2 found" in first and '<mark id="request-hit-1">' in first


def test_a_hit_across_the_border_of_two_pages_is_marked_in_both() -> None:
    long = "x" * 100_000
    before = run_of(long).exchanges[0].request.body.index(long.encode())
    run = run_of("x" * (64 * 1024 - before - 4) + "YYYYYYYY" + long)
    assert '<mark id="request-hit-1">YYYY</mark></pre>' in page_of(run, find="yyyyyyyy")
    assert '<mark id="request-hit-1">YYYY</mark>xx' in page_of(run, find="yyyyyyyy", request="2")


def test_what_is_not_found_leaves_the_body_as_it_is_shown() -> None:
    run = run_of(FILLER * 2)
    page = page_of(run, find="zanzibar")
    assert "0 found" in page
    assert 'class="json"' in page and "<mark" not in page


def test_a_short_body_has_no_field() -> None:
    assert 'class="find"' not in page_of(run_of("short"))
