"""The 200 recorded tau-bench airline runs, people planted in them: recorded, redacted, frozen, and replayed exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airline import KEY, World, make_client, numbered, play, private_values_in, record, redacted, replay
from answered_here import answering

from freezeframe import seams
from freezeframe_redaction import Redactor, load_policy
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.fixture import load_fixture, write_fixture
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.run import build_run

pytestmark = pytest.mark.long  # imports the SDK


def check(runs: list[tuple[int, dict[str, Any]]], folder: Path) -> int:
    """Record, redact, freeze and replay the runs; return how many steps were served."""
    recorded, url = record(runs)
    redactor = Redactor(load_policy("strict"), KEY)
    served = 0
    try:
        for played in recorded:
            run = build_run(redacted(played, redactor))
            # The entry point is made in a function of the test, and each tool takes its next result from the test's world.
            assert [gap.kind for gap in run.gaps if "changes the variable world" not in gap.text] == [GapKind.ENTRY_UNREACHABLE]
            directory = folder / str(played.number)
            write_fixture(freeze(run), directory)
            assert private_values_in(directory, played.who) == []
            fixture = load_fixture(directory)
            report, world = replay(fixture, played, url)
            assert report.divergences == (), played.number
            assert {item.how for item in report.served} <= {
                "exact",
                "relaxed",
            }  # relaxed: a name that redaction saw in one span only
            assert len(report.served) == report.steps == len(fixture.askable)
            assert world.touched == 0
            served += report.steps
    finally:
        seams.uninstall()
    return served


def test_a_changed_policy_text_is_named_at_the_first_model_call(tmp_path: Path) -> None:
    (played,), url = record(numbered(3, 4))
    fixture = freeze(build_run(redacted(played, Redactor(load_policy("strict"), KEY))))
    changed = json.loads(json.dumps(played.trajectory))
    changed[0]["content"] = changed[0]["content"].replace("Airline", "Railway")
    session = ReplaySession(fixture)
    with make_client(url) as client, answering(session), pytest.raises(ReplayMiss, match="diverged at step 1"):
        play(World(url=url, client=client), changed)
    kinds = [item.kind for item in session.report().divergences]
    assert kinds == [DivergenceKind.INPUT_CHANGED, DivergenceKind.REQUEST_CHANGED]


BATCHES = [(0, 6), *(pytest.param((first, first + 25), marks=pytest.mark.soak) for first in range(0, 200, 25))]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("batch", BATCHES)
def test_airline_runs_replay_exactly(batch: tuple[int, int]) -> None:
    recorded, url = record(numbered(*batch))
    try:
        for played in recorded:
            report, world = replay(freeze(build_run(played.spans)), played, url)
            assert report.divergences == (), played.number
            assert {item.how for item in report.served} == {"exact"}
            assert len(report.served) == report.steps
            assert world.touched == 0
    finally:
        seams.uninstall()


@pytest.mark.timeout(900)  # redaction of whole histories, on a busy machine
@pytest.mark.parametrize("batch", BATCHES)
def test_airline_runs_replay_exactly_after_redaction(batch: tuple[int, int], tmp_path: Path) -> None:
    assert check(numbered(*batch), tmp_path) > 10 * (batch[1] - batch[0])
