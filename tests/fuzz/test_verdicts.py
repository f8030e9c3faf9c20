"""A fuzz of verdicts: generated agents, replayed unchanged and with one place changed. No verdict may be false."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pytest
from verdict_trials import DURATIONS, FALSE, Found, Stage, Trial, counted, made_small, open_stage, try_seeds

pytestmark = [pytest.mark.long, pytest.mark.timeout(7200)]  # starts a collector and hundreds of programs


_ONCE_RED: Final = (129, 154)
"""Each was once called diverged although nothing had changed: tasks in the order of their ends, and a deadline."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, warm_server: str) -> Iterator[Stage]:
    with open_stage(tmp_path_factory.mktemp("verdicts"), warm_server) as opened:
        yield opened


def check(stage: Stage, seeds: Sequence[int], *, by_command: int = 0) -> None:
    trials: list[Trial] = []
    for trial in try_seeds(stage, seeds, by_command=by_command):
        small = made_small(stage, trial) if trial.found in FALSE else trial
        trials.append(small)
        if small.found in FALSE:
            pytest.fail(
                f"{small}\nto see the program and try all its changes:\n"
                f"  .venv/bin/python tests/support/verdict_trials.py {trial.agent.seed}",
                pytrace=False,
            )
    counts = counted(trials)
    print(f"{len(seeds)} agents: {dict(counts)}")
    compared = counts[Found.IDENTICAL] + counts[f"{Found.NAMED}: {DURATIONS}"]
    assert compared > counts[Found.SEEN] / 4, "hardly any replay was compared to its end: nothing was tried"


def test_no_verdict_on_an_arbitrary_agent_is_false(stage: Stage) -> None:
    check(stage, _ONCE_RED)


@pytest.mark.soak
def test_no_verdict_on_five_hundred_arbitrary_agents_is_false(stage: Stage) -> None:
    check(stage, range(500), by_command=50)
