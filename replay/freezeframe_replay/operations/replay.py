"""Re-enact a run: the whole of it, or up to a step."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.engine.begin import begin_at
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.local.administration import note_replay
from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.process.reenact import Trial
from freezeframe_replay.report.report_text import report_text
from freezeframe_replay.report.standstill import standstill_lines
from freezeframe_schemas.divergence import Report
from freezeframe_schemas.errors import FixtureError, StoreError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import Verdict, judged_to_json, verdict


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplayParameters:
    """The run, and how it is re-enacted."""

    run: str
    begin: int | None = None
    """Begin in the middle, at the last framework border before this step."""
    trial: Trial = dataclasses.field(default_factory=Trial)
    spans: Path | None = None
    """File to which the replay is recorded as a run."""
    fixture: Fixture | None = None
    """What `run` names, if it is loaded already."""

    @property
    def is_plain(self) -> bool:
        """Return whether nothing helps the program or lets it differ from the recording."""
        policy = self.trial.policy
        helped = self.trial.command or self.begin or policy.ignore or policy.live or policy.allow_tools
        return not (helped or policy.run_tools or policy.run_changed or policy.stop_before)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A replay that was carried out."""

    fixture: Fixture
    """The recording, as it was replayed."""
    report: Report
    again: str
    """The run as the next command line names it."""
    warning: str = ""


def replay(source: RunSource, parameters: ReplayParameters) -> Replayed:
    """Return the report; a plain replay that was identical is noted in the data directory's own store.

    Raises:
        FreezeframeError: the run cannot be read, or the replay could not be carried out.
    """
    fixture = parameters.fixture or _fixture(source, parameters.run)
    if parameters.begin is not None:
        fixture = begin_at(fixture, parameters.begin)
    trial = dataclasses.replace(parameters.trial, keys=parameters.trial.keys or source.keys)
    report = trial.replay(fixture, spans=parameters.spans)
    is_noted = parameters.is_plain and source.is_own and source.is_stored(parameters.run) and fixture.steps
    warning = ""
    if is_noted and verdict(report) is Verdict.IDENTICAL:
        try:
            note_replay(source.home, fixture.run_id)
        except StoreError as error:
            warning = f"not noted in the store: {error}"
    again = source.as_typed(parameters.run, report.run_id)
    return Replayed(fixture=fixture, report=report, again=again, warning=warning)


def _fixture(source: RunSource, name: str) -> Fixture:
    """Return a fixture that is only replayed: the program's process computes the keys."""
    found = source.load(name)
    return found if isinstance(found, Fixture) else freeze(found, is_keyed=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepParameters:
    """The run, and the step to stop before."""

    run: str
    step: int
    trial: Trial = dataclasses.field(default_factory=Trial)


def step(source: RunSource, parameters: StepParameters) -> Replayed:
    """Return the report of a replay that stops before the step; raises as `replay`."""
    fixture = _fixture(source, parameters.run)
    _check(fixture, parameters.step)
    policy = dataclasses.replace(parameters.trial.policy, stop_before=parameters.step)
    trial = dataclasses.replace(parameters.trial, policy=policy)
    return replay(source, ReplayParameters(run=parameters.run, trial=trial, fixture=fixture))


def _check(fixture: Fixture, number: int) -> None:
    found = next((each for each in fixture.steps if each.number == number), None)
    if found is None:
        raise FixtureError(f"step {number}: no such step; run {fixture.run_id} has steps 1 to {len(fixture.steps)}")
    if found.inside is not None:
        raise FixtureError(
            f"step {number}: it is inside step {found.inside}, which answers for it",
            do=f"stop before step {found.inside}",
        )


def replayed_json(replayed: Replayed) -> Mapping[str, Any]:
    """Return the report with its judgement."""
    return json.loads(judged_to_json(replayed.report))


def replayed_text(replayed: Replayed, width: int, *, full: bool = False) -> str:
    """Return where a replay stopped, or else what it found; `full`: with complete requests and answers."""
    report = replayed.report
    if report.stopped is None:
        return report_text(report, width=width, again=replayed.again)
    return "\n".join(standstill_lines(report, report.stopped, width=width, full=full))


REPLAY: Final = Operation(
    name="replay",
    parameters=ReplayParameters,
    compute=replay,
    to_json=replayed_json,
    to_text=replayed_text,
)
STEP: Final = Operation(name="step", parameters=StepParameters, compute=step, to_json=replayed_json, to_text=replayed_text)
