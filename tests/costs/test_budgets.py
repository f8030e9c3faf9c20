"""What each path costs stays what the table says, in counts; and these counts see ten milliseconds of work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import budgets
from counting import counted

TABLE: Final = budgets.read_table()
ROWS: Final = budgets.rows(TABLE)
count: Final = cache(budgets.count)
_LEAST_OF_10_MS: Final = {"calls": 50_000, "instructions": 300_000}
"""What ten milliseconds of Python take of either, at least: half of what a loop of nothing but calls takes on a fast core, and
what freezeframe's own code takes on a slow one."""
_PROVED: Final = ("collector", "store", "host")
"""First words of the paths that `make test` counts."""


def paths(*words: str) -> list[str]:
    """Return the rows whose path begins with one of these words."""
    return [path for path in ROWS if path.partition(".")[0] in words]


def compare(path: str) -> None:
    """Fail if the path does not cost what the table says."""
    if budgets.minor_version() != TABLE["counted_with"]["python"]:
        pytest.skip(f"counted with Python {TABLE['counted_with']['python']}, and each counts otherwise")
    found = count(budgets.PROGRAMS[path.partition(".")[0]])
    lines = budgets.differences(path, ROWS[path], found.get(path, {}))
    assert not lines, "\n".join([*lines, budgets.advice(path, TABLE)])


@pytest.mark.long
@pytest.mark.proof
@pytest.mark.parametrize("path", paths(*_PROVED))
def test_a_stored_span_and_the_hosts_own_work_cost_what_the_table_says(path: str) -> None:
    compare(path)


@pytest.mark.long
@pytest.mark.parametrize("path", paths("capture", "request"))
def test_a_captured_call_costs_what_the_table_says(path: str) -> None:
    compare(path)


@pytest.mark.long
@pytest.mark.parametrize("path", paths("command", "start"))
def test_a_command_or_the_start_of_a_service_costs_what_the_table_says(path: str) -> None:
    compare(path)


@pytest.mark.long
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, marks=[pytest.mark.proof] if word in _PROVED else [])  # beside the tests for which it was counted
        for program, word in {program: word for word, program in budgets.PROGRAMS.items()}.items()
    ],
)
def test_each_path_that_is_counted_has_a_row(program: str) -> None:
    words = [word for word, its in budgets.PROGRAMS.items() if its == program]
    assert set(count(program)) == set(paths(*words))


@pytest.mark.parametrize("path", [path for path in ROWS if not path.startswith("host")])
def test_ten_milliseconds_of_python_are_more_than_a_row_leaves_open(path: str) -> None:
    open_to = {name: ROWS[path][name] * budgets.SLACK for name in _LEAST_OF_10_MS if name in ROWS[path]}
    assert "instructions" in open_to
    assert all(number < _LEAST_OF_10_MS[name] for name, number in open_to.items())


def test_each_row_has_a_reason() -> None:
    assert [path for path, row in TABLE["paths"].items() if not row["because"].strip()] == []


@pytest.mark.parametrize("now", [99, 101, 0])
def test_a_small_count_is_exact_and_a_large_one_may_differ_by_three_hundredths(now: int) -> None:
    assert budgets.differences("a", {"passes": 9}, {"passes": 10}) == ["a: passes grew from 9 to 10 (+11.1%)"]
    assert (budgets.differences("a", {"calls": 100}, {"calls": now}) == []) is (now > 0)


def _loop() -> object:
    return sum(number for number in range(1_000))


def _sleep() -> object:
    import time

    return time.sleep(0)


@pytest.mark.parametrize(
    ("more", "figure"),
    [
        (_loop, "instructions"),
        (lambda: [str.upper("a") for _ in range(100)], "calls"),
        (lambda: "a b".split(), "passes"),
        (_sleep, "sleeps"),
    ],
)
def test_a_loop_a_call_a_pass_and_a_sleep_each_show(more: Callable[[], object], figure: str) -> None:
    def act() -> object:
        return [len("abc") for _ in range(10)]

    plain, slower = counted(act), counted(lambda: (act(), more()))
    assert slower[figure] > plain[figure] * (1 + budgets.SLACK)
