"""Which findings hold where several overlap or touch: held against the rule, read literally."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from freezeframe_redaction.deadline import Deadline, OutOfTimeError
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.triggers.engine import resolve_overlaps

PRIORITY = {"SECRET": 0, "CARD": 1, "EMAIL": 4, "PHONE": 5}
RANKS = {"**": -2, "*": -1, "OWN": 3, **PRIORITY}
"""A claim by its text, one by its look, and a class of a policy: see `engine._rank`."""

Item = tuple[Candidate, str]


def make_item(start: int, size: int, class_: str) -> Item:
    return Candidate(start, start + size, class_), f"{class_} {start} {size}"


items = st.builds(make_item, st.integers(0, 12), st.integers(0, 5), st.sampled_from(sorted(RANKS)))
"""Dense, so that most of them overlap or touch; some are empty."""


def by_the_rule(found: list[Item]) -> list[Item]:
    """Take the candidates from the strongest on, each that overlaps none taken before it."""
    taken: list[Item] = []
    for item, name in sorted(found, key=lambda item: (RANKS[item[0].class_], item[0].start - item[0].end, item[0].start)):
        if item.start < item.end and all(item.end <= other.start or other.end <= item.start for other, _ in taken):
            taken.append((item, name))
    return sorted(taken, key=lambda item: item[0].start)


OVER_ALL = make_item(0, 12, "PHONE")
"""Makes one group of what it overlaps."""


@example(found=[OVER_ALL, make_item(0, 2, "CARD"), make_item(9, 2, "CARD"), make_item(5, 1, "EMAIL")])  # between two
@example(found=[OVER_ALL, make_item(0, 2, "CARD"), make_item(4, 4, "CARD"), make_item(6, 4, "EMAIL")])  # into the nearest
@example(found=[make_item(0, 2, "CARD"), make_item(1, 4, "CARD")])  # the longer of two
@given(found=st.lists(items, max_size=12))
def test_what_holds_is_what_the_rule_says(found: list[Item]) -> None:
    def places(settled: list[Item]) -> list[tuple[int, int, str]]:
        return [(item.start, item.end, item.class_) for item, _ in settled]

    assert places(resolve_overlaps(found, PRIORITY)) == places(by_the_rule(found))


@given(classes=st.lists(st.sampled_from(sorted({*RANKS} - {"*", "**"})), min_size=1, max_size=6), sizes=st.data())
def test_findings_that_touch_all_hold(classes: list[str], sizes: st.DataObject) -> None:
    found: list[Item] = []
    end = 0
    for class_ in classes:
        start, end = end, end + sizes.draw(st.integers(1, 3))
        found.append((Candidate(start, end, class_), class_))
    assert resolve_overlaps(sizes.draw(st.permutations(found)), PRIORITY) == found


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_the_clock_is_looked_at_once_in_64_candidates(looks: int) -> None:
    times = iter([0.0, *[0.0] * (looks - 1), 2.0])
    many: list[Item] = [(Candidate(start, start + 1, "EMAIL"), "") for start in range(64 * looks)]
    resolve_overlaps(many[: 64 * (looks - 1)], PRIORITY, Deadline(1.0, lambda: next(times)))
    times = iter([0.0, *[0.0] * (looks - 1), 2.0])
    with pytest.raises(OutOfTimeError):
        resolve_overlaps(many, PRIORITY, Deadline(1.0, lambda: next(times)))
