"""Re-enact a run: the whole of it, or up to a step."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.engine.compare import differences, json_or_text
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.local.administration import note_replay
from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.process.reenact import Trial
from freezeframe_replay.report.render import short
from freezeframe_replay.report.report_text import report_text
from freezeframe_schemas.divergence import Report, Stopped
from freezeframe_schemas.errors import FixtureError, ReplayError, StoreError
from freezeframe_schemas.fixture import Fixture, Step
from freezeframe_schemas.framework import FrameworkState
from freezeframe_schemas.verdict import Verdict, judged_to_json, verdict


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplayParameters:
    """The run, and the settings of its replay."""

    run: str
    begin: int | None = None
    """Begin in the middle, at the last framework border before this step."""
    trial: Trial = dataclasses.field(default_factory=Trial)
    spans: Path | None = None
    """File to which the replay is recorded as a run."""
    fixture: Fixture | None = None
    """The fixture that `run` names, if it is loaded already."""

    @property
    def is_plain(self) -> bool:
        """Return whether no option helps the program or lets it differ from the recording."""
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
    """Return the place where a replay stopped, or else its findings; `full`: with complete requests and answers."""
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


# -- Where a replay was stopped: the next call, and the program's frames, as text --------------------------------------
# Paths are shown from the working directory.


_LINES: Final = 40
"""Lines shown of a request, unless all are requested."""
_BEFORE: Final = 20
"""Steps shown before the stop, unless all are requested."""


def standstill_lines(report: Report, stopped: Stopped, *, width: int, full: bool = False) -> Iterator[str]:
    """Yield the place where a replay stopped: the steps before, the program's frames, the request, and its recorded answer.

    Args:
        report: of the replay.
        stopped: where it stopped.
        width: columns at which lines are cut.
        full: show complete requests and answers.
    """
    yield f"stopped before step {stopped.step} ({stopped.call_kind} {stopped.name}), run {report.run_id}"
    before = report.served if full else report.served[-_BEFORE:]
    if len(before) < len(report.served):
        yield f"  {len(report.served) - len(before)} steps replayed, then"
    for item in before:
        yield short(f"  {item.step:>4}  {report.names.get(str(item.step), '')}", width)
    if report.divergences:
        yield f"  {len(report.divergences)} divergences before it (--json shows them)"
    yield from _frames(stopped, width)
    yield "about to ask"
    if stopped.address:
        yield short(f"  {stopped.address}", width)
    yield from _body(stopped.request, width, full)
    changes = list(differences(json_or_text(stopped.recorded), json_or_text(stopped.request)))
    changes += differences(stopped.recorded_address, stopped.address, "address")
    yield "recorded: the same" if not changes else "recorded differently, in parts that do not decide"
    for item in changes:
        yield from (short(f"  {item.path}", width), short(f"  - {item.recorded}", width), short(f"  + {item.live}", width))
    yield "would be answered"
    yield from _body(stopped.answer, width, full)


def _frames(stopped: Stopped, width: int) -> Iterator[str]:
    for frame in stopped.frames:
        yield short(f"at {_here(frame.place)}", width)
        yield from (short(f"    {name} = {text}", width) for name, text in frame.variables.items())


def _body(text: str, width: int, full: bool) -> Iterator[str]:
    if not text:
        yield "  (no body)"
        return
    value = json_or_text(text)
    lines = text.splitlines() if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1).splitlines()
    shown = lines if full else lines[:_LINES]
    yield from (short(f"  {line}", width if not full else 10**6) for line in shown)
    if len(shown) < len(lines):
        yield f"  and {len(lines) - len(shown)} more lines (--full shows them)"


def _here(place: str) -> str:
    return place.removeprefix(os.path.join(os.getcwd(), ""))


# -- Begin in the middle -----------------------------------------------------------------------------------------------
# A fixture whose replay starts from a framework's recorded state, at the border before a step. Pure. The entry point
# is called as recorded and runs as usual up to the start of its graph; the graph continues from the recorded state
# instead of from its beginning. Steps that are inside the graph and before the border are left out.


def begin_at(fixture: Fixture, number: int) -> Fixture:
    """Return the fixture of a replay that begins at the last border before step `number`.

    Raises:
        ReplayError: no such step, or no state was recorded before it.
    """
    step = next((step for step in fixture.steps if step.number == number), None)
    if step is None:
        raise ReplayError(f"step {number}: no such step; run {fixture.run_id} has steps 1 to {len(fixture.steps)}")
    if not fixture.states:
        raise ReplayError(
            f"run {fixture.run_id}: no framework's state was recorded, so a replay can only begin at the beginning",
            do="record it with instrument(framework_state=True), for graphs of LangGraph and workflows of LlamaIndex",
        )
    begin = _borders_before(fixture.states, step)
    left_out = [(_opening(fixture.states, state), state.sequence) for state in begin]
    kept = tuple(
        step for step in fixture.steps if not any(first <= step.exchange.sequence < border for first, border in left_out)
    )
    return replace(fixture, begin=begin, steps=kept)


def _borders_before(states: tuple[FrameworkState, ...], step: Step) -> tuple[FrameworkState, ...]:
    """Return the last state before the step of each execution that had begun by then."""
    last: dict[int, FrameworkState] = {}
    nested = _nested(states)
    for state in states:
        if state.execution not in nested and state.sequence < step.exchange.sequence:
            last[state.execution] = state
    if not last:
        raise ReplayError(
            f"step {step.number}: it comes before the first recorded state, so a replay has to begin at the beginning"
        )
    return tuple(last[execution] for execution in sorted(last))


def _nested(states: tuple[FrameworkState, ...]) -> frozenset[int]:
    """Return the executions that began while another one was in progress, and so belong to one of its nodes."""
    spans: dict[int, tuple[int, int]] = {}
    for state in states:
        first, last = spans.get(state.execution, (state.sequence, state.sequence))
        spans[state.execution] = (min(first, state.sequence), max(last, state.sequence))
    return frozenset(
        inner
        for inner, (begun, _) in spans.items()
        if any(first < begun < last for outer, (first, last) in spans.items() if outer != inner)
    )


def _opening(states: tuple[FrameworkState, ...], of: FrameworkState) -> int:
    return min(state.sequence for state in states if state.execution == of.execution)
