"""Triggers are given to the engine in parts, and find what the whole finds."""

from __future__ import annotations

import hyperscan
import pytest

from freezeframe_redaction.detectors import ALL
from freezeframe_redaction.triggers.engine import WORDS, lane_of, one_by_one
from freezeframe_redaction.triggers.view import scan_bytes, view_of

TEXT = b"\x1f".join(
    scan_bytes(view_of(text).text)
    for detector in ALL
    for example in detector.examples
    for text in (example.text, example.near_miss, example.text.upper())
    if text
)


def ends(expressions: list[tuple[str, int]]) -> set[tuple[int, int]]:
    """Return (id, end) of every match in the examples of all detectors."""
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[scan_bytes(expression) for expression, _ in expressions],
        ids=[id_ for _, id_ in expressions],
        elements=len(expressions),
        flags=[0] * len(expressions),
    )
    found: set[tuple[int, int]] = set()

    def hit(id_: int, start: int, end: int, flags: int, context: object) -> None:
        found.add((id_, end))

    database.scan(TEXT, match_event_handler=hit, scratch=hyperscan.Scratch(database))
    return found


@pytest.mark.long
def test_triggers_taken_apart_end_where_the_whole_ones_do() -> None:
    expressions = sorted({lane_of(trigger)[1] for detector in ALL for trigger in detector.triggers})
    whole = [expression for expression in expressions if len(one_by_one(expression)) > 1]
    parts = [(part, id_) for id_, expression in enumerate(whole) for part in one_by_one(expression)]
    assert len(whole) > 50
    assert ends(parts) == ends([(expression, id_) for id_, expression in enumerate(whole)])


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        (
            r"(?i)\b(?:mon|tues|wednes|thurs|fri)day",
            [rf"(?i)\b(?:{day})day" for day in ("mon", "tues", "wednes", "thurs", "fri")],
        ),
        ("(?:a|b|c|(?i:d|e|f|g|h)|i)!", ["(?:a)!", "(?:b)!", "(?:c)!", *(f"(?:(?i:{one}))!" for one in "defgh"), "(?:i)!"]),
        ("one|two", ["one", "two"]),
        (r"(a|b|[|)]|\||\)|c)x", [f"({one})x" for one in ("a", "b", "[|)]", r"\|", r"\)", "c")]),
    ],
)
def test_the_longest_alternation_is_taken_apart(expression: str, parts: list[str]) -> None:
    assert one_by_one(expression) == parts


@pytest.mark.parametrize(
    "expression", ["(?:a|b|c)", "(?:a|b|c|d|e)?x", "(?:a|b|c|d|e){2}", "(?s)a|b", "a(?i)b|c", r"\Qa|b\E", "(?P<n>a|b|c|d|e)"]
)
def test_what_is_short_repeated_or_of_another_kind_stays_whole(expression: str) -> None:
    assert one_by_one(expression) == [expression]


def test_a_trigger_says_its_lane_in_a_comment() -> None:
    assert lane_of("(?#digits)[0-9]{9}") == ("digits", "[0-9]{9}")
    assert lane_of("Dear ") == (WORDS, "Dear ")
