"""The text of an experiment: the runs by the candidates, and the statements under them. No process is started."""

from __future__ import annotations

import re

from freezeframe_replay.experiments.experiment import Experiment, ExperimentResult
from freezeframe_replay.experiments.plan import Budget
from freezeframe_replay.experiments.rows import ExperimentVerdict, RowResult
from freezeframe_replay.experiments.statement import score
from freezeframe_replay.operations.experiment import experiment_text

MARKS = {"+": True, "-": False, "?": None}


def tried(name: str, runs: dict[str, tuple[bool, str]], *, left: int = 0, is_noise: bool = False) -> ExperimentResult:
    """Return a candidate's result. `runs`: run -> whether it passed before, and each repeat's mark."""
    cells = [
        RowResult(
            name=run,
            run_id=run * 12,
            finding=ExperimentVerdict.CHANGED,
            why="",
            repeat=at,
            passed=MARKS[mark],
            passed_before=before,
            live_calls=1,
            live_usd=0.01,
        )
        for run, (before, marks) in runs.items()
        for at, mark in enumerate(marks, 1)
    ]
    found = score(
        {run: before for run, (before, _) in runs.items()},
        {run: [MARKS[mark] for mark in marks] for run, (_, marks) in runs.items()},
        {run: [True] * len(marks) for run, (_, marks) in runs.items()},
    )
    one = tuple(cell for cell in cells if cell.repeat == 1)
    return ExperimentResult(
        dataset="set",
        candidate="the code",
        rows=one,
        cells=tuple(cells),
        name=name,
        score=found,
        left=left,
        is_noise=is_noise,
    )


def test_the_runs_are_a_table_of_passes_and_those_that_are_as_before_are_counted() -> None:
    mini = tried("mini", {"a": (False, "++-"), "b": (True, "+?-"), "c": (True, "+++"), "d": (True, "??")})
    alone = tried("noise", {"a": (False, "---"), "b": (True, "+++"), "c": (True, "+++"), "d": (True, "")}, is_noise=True)
    text = experiment_text(Experiment(dataset="set", results=(mini, alone), check="true", repeats=3), width=120)
    table = [re.split(r" {2,}", line.strip()) for line in text.splitlines()[2:7]]
    assert table == [
        ["run", "before", "mini", "noise"],
        ["a" * 12, "fails", "2 of 3", "0 of 3"],
        ["b" * 12, "passes", "1 of 2 (1 not known)", "3 of 3"],
        ["d" * 12, "passes", "not known", "not made"],
        ["1 run as before, in all repeats"],
    ]
    assert "candidate mini: fixes 1 of 1" in text
    assert "\nnoise: fixes 0 of 1" in text
    assert "mini: 11 live cells, $0.1100" in text


def test_a_stopped_experiment_says_what_is_left() -> None:
    budget = Budget(limit=1, spent=0.99)
    text = experiment_text(
        Experiment(dataset="set", results=(tried("", {"a": (True, "+")}, left=3),), budget=budget, repeats=2), width=120
    )
    assert "stopped at $0.9900: the next live cell may exceed the budget of $1. 3 cells left" in text
