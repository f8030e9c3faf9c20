"""Plan: the order of cells, and what a budget lets begin. No process is started."""

from __future__ import annotations

from collections import Counter

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freezeframe_replay.experiments.plan import Budget, Cell, live_cells, offline_cells

KINDS = st.lists(st.booleans(), max_size=4)


@settings(max_examples=examples(100), deadline=None)
@given(KINDS, st.integers(0, 4), st.integers(1, 4))
def test_every_live_candidate_meets_every_run_in_every_repeat_once(kinds: list[bool], rows: int, repeats: int) -> None:
    cells = list(live_cells(kinds, rows, repeats))
    assert len(set(cells)) == len(cells) == sum(kinds) * rows * repeats
    assert [cell.repeat for cell in cells] == sorted(cell.repeat for cell in cells), "a repeat is whole before the next"
    assert all(cell.live for cell in cells)


@settings(max_examples=examples(100), deadline=None)
@given(KINDS, st.integers(0, 4))
def test_what_is_offline_runs_once(kinds: list[bool], rows: int) -> None:
    cells = list(offline_cells(kinds, rows))
    assert Counter(cell.place for cell in cells) == {(n, row): 1 for n, kind in enumerate(kinds) if kind for row in range(rows)}
    assert not any(cell.live for cell in cells)


COSTS = st.lists(st.tuples(st.floats(0, 10), st.floats(0, 1)), max_size=20)


@settings(max_examples=examples(200), deadline=None)
@given(COSTS, st.floats(0, 30))
def test_cells_that_cost_no_more_than_expected_never_exceed_the_budget(costs: list[tuple[float, float]], limit: float) -> None:
    """`costs`: for each cell what its recording costs, and the part of the estimate that it then costs."""
    budget = Budget(limit=limit)
    for at, (like_recorded, part) in enumerate(costs):
        cell = Cell(candidate=0, row=at, live=True)
        if budget.allows(cell, like_recorded):
            budget.begin(cell, like_recorded)
            budget.end(cell, like_recorded, part * budget.estimate(cell, like_recorded))
    assert budget.spent <= limit + 1e-9


def test_a_cell_that_was_dearer_than_its_recording_raises_the_estimate_of_the_next() -> None:
    budget = Budget(limit=10)
    first, again, other = Cell(candidate=0, row=0), Cell(candidate=0, row=0, repeat=2), Cell(candidate=0, row=1)
    assert budget.estimate(first, 1) == 2
    budget.begin(first, 1)
    budget.end(first, 1, 6)
    assert (budget.estimate(again, 1), budget.estimate(other, 0.5)) == (6, 3)
    assert not budget.allows(again, 1)
    assert budget.allows(other, 0.5)


def test_running_cells_and_those_of_unknown_cost_count_as_estimated() -> None:
    budget = Budget(limit=5)
    first, second = Cell(candidate=0, row=0), Cell(candidate=0, row=1)
    budget.begin(first, 2)
    assert not budget.allows(second, 1)
    budget.end(first, 2, None)
    assert (budget.spent, budget.unknown) == (4, 1)
    assert not budget.allows(second, 1)


def test_without_a_limit_everything_may_begin() -> None:
    assert Budget().allows(Cell(candidate=0, row=0), 1e9)
