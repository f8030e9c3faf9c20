"""The pages of a replay: its progress, its findings, and the program's place at each call. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from freezeframe_replay.engine.compare import Difference
from freezeframe_replay.engine.standstill import MAX_KEPT
from freezeframe_replay.report.outline import outline_fixture
from freezeframe_replay.report.render import cost_sum, counted
from freezeframe_replay.report.report_text import report_text, unquoted
from freezeframe_replay.report.spent import Spent, spent_on
from freezeframe_replay.report.tagged import call_text, error_text, outcome_text
from freezeframe_replay.web.markup import render
from freezeframe_replay.web.step_pages import body_text
from freezeframe_schemas.divergence import Divergence, Made, Report, StackFrame
from freezeframe_schemas.errors import FreezeframeError
from freezeframe_schemas.exchange import Exchange, Kind
from freezeframe_schemas.fixture import Fixture, Step
from freezeframe_schemas.verdict import headline, verdict

_MARKS: Final = {"exact": "good", "relaxed": "good", "live": "muted"}
_LEFT: Final = frozenset({"missed", "live"})
"""The kinds of answers to a call that is not in the recording."""
_NEAR: Final = 12
"""Calls before and after one that its page names."""
_MEANS: Final = {
    "exact": "as recorded",
    "relaxed": "as recorded, asked at another place",
    "live": "made for real",
    "missed": "not in the recording",
    "stopped": "stopped here",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A recorded step next to the call of the replay that it answered, or that was made in its place."""

    step: int | None = None
    kind: str = ""
    name: str = ""
    detail: str = ""
    changed: bool = False
    """True if its answer was changed before the replay."""
    made: Sequence[Made] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Entry of a replay in a list."""

    number: int
    run_id: str
    started_at: str
    """In ISO 8601."""
    is_fork: bool
    live: bool
    word: str
    """Its state in a word."""
    agrees: bool
    """True if it agrees with the recording."""
    has_ended: bool

    @property
    def started(self) -> dt.datetime:
        """Return when it began."""
        return dt.datetime.fromisoformat(self.started_at)


@dataclass(slots=True, kw_only=True)
class Replay:
    """One replay: waiting, running, or ended with a report or an error."""

    number: int
    run_id: str
    """The run that it re-enacts, or from which its fork was made."""
    fixture: Fixture
    folder: Path
    """Folder of the code."""
    code: str = ""
    """Its commit there, next to the recorded one; empty if one of them is unknown."""
    started: dt.datetime
    is_fork: bool = False
    changed: int | None = None
    """The step whose answer was changed."""
    served: int = 0
    """Steps answered so far."""
    report: Report | None = None
    error: FreezeframeError | None = None
    live: bool = False
    """True if model calls without a recorded answer may be made for real."""
    made_live: Mapping[int, Step] = field(default_factory=dict[int, Step])
    """Live calls, by the number of the call in the report."""
    spent: Spent | None = None
    """Cost of those calls; None if unknown."""
    kept: Fixture | None = None
    """The run that a replay with live answers became."""
    not_kept: str = ""
    """Reason for a missing one."""

    @property
    def noted(self) -> Noted:
        """Return its entry in a list."""
        return Noted(
            number=self.number,
            run_id=self.run_id,
            started_at=self.started.isoformat(),
            is_fork=self.is_fork,
            live=self.live,
            word=self.word,
            agrees=self.agrees,
            has_ended=self.has_ended,
        )

    @property
    def has_ended(self) -> bool:
        """Return whether nothing more will change."""
        return self.report is not None or self.error is not None

    @property
    def word(self) -> str:
        if self.report is not None:
            return verdict(self.report).value
        return "running" if self.error is None else "no result"

    @property
    def agrees(self) -> bool:
        return self.report is not None and verdict(self.report).agrees


def running_page(replay: Replay, *, now: dt.datetime, token: str) -> str:
    """Return the page of a replay in progress. It reloads itself once there is more to show."""
    return render(
        "replaying.html",
        replay=replay,
        steps=len(replay.fixture.askable),
        seconds=int((now - replay.started).total_seconds()),
        token=token,
    )


def likely_cost(fixture: Fixture, *, after: int = 0, but: Collection[int] = ()) -> str:
    """Return the cost of the recorded model calls after a step: about the cost of making them for real."""
    steps = [step for step in fixture.steps if step.number > after and step.number not in but]
    calls = sum(step.exchange.kind is Kind.MODEL for step in steps)
    spent = spent_on(steps)
    cost = cost_sum(spent.usd, calls=calls, unknown=spent.unknown)
    return f"{counted(calls, 'model call')} (cost: {cost})" if calls else "no model call"


def replay_page(replay: Replay, report: Report, *, token: str = "", may_go_live: bool = False) -> str:
    """Return the page of a replay's findings.

    With a token, a form offers to run the new code of changed tools. If it `may_go_live`, another one offers to
    continue with the live model at the divergence.
    """
    outcome = "" if report.outcome is None else outcome_text(report.outcome)
    rows = aligned(replay.fixture, report, changed=replay.changed)
    places = {id(made): number for number, made in enumerate(report.made, 1)}

    def place(made: Made) -> int:
        return places[id(made)]

    left = next((index for index, row in enumerate(rows) if any(made.how in _LEFT for made in row.made)), len(rows))
    return render(
        "replay.html",
        replay=replay,
        report=report,
        edits=replay.fixture.edits if replay.is_fork else (),
        expects=("identical", "changed") if replay.is_fork and replay.agrees else ("changed", "identical"),
        headline=headline(report),
        divergences=[_divergence(item) for item in report.divergences],
        rows=rows,
        inside=sum(step.inside is not None for step in replay.fixture.steps),
        left=left,
        place=place,
        marks=_MARKS,
        means=_MEANS,
        # if our own exception ended the program, the divergence above has said so
        outcome="" if outcome.startswith("raised ReplayMiss") else outcome,
        text=report_text(report),
        warnings=[line for line in report.warnings if not replay.code or replay.code not in line],
        token=token if may_go_live and _asks_model(report) else "",
        token_to_run=token if report.changed_code else "",
        likely=likely_cost(replay.fixture, but=[item.step for item in report.served]),
        spent=_spent(replay, report),
    )


def _asks_model(report: Report) -> bool:
    """Return whether the program made a model request that is not in the recording."""
    return any(made.how == "missed" and made.call_kind == Kind.MODEL for made in report.made)


def _spent(replay: Replay, report: Report) -> str:
    """Return the number of live calls, and their cost."""
    if not replay.live:
        return ""
    calls = sum(call.call_kind == Kind.MODEL for call in report.live)
    spent = replay.spent
    paid = "unknown" if spent is None else cost_sum(spent.usd, calls=calls, unknown=spent.unknown)
    return f"{counted(calls, 'live model call')} (cost: {paid})" if calls else "No live model call was needed"


def call_page(replay: Replay, report: Report, at: int) -> str:
    """Return the page of one call of a replay, counted from 1: the program's place, its request, and the answer."""
    last = len(report.made)
    at = min(max(at, 1), max(last, 1))
    made = report.made[at - 1] if report.made else Made(call_kind="", name="no call", how="missed")
    before = report.made[at - 2] if at > 1 else None
    recorded = (step for step in replay.fixture.steps if step.number == made.step)
    step = replay.made_live.get(at) or next(recorded, None)
    exchange = None if step is None else step.exchange
    first = max(min(at - _NEAR, last - 2 * _NEAR), 1)
    near = list(enumerate(report.made, 1))[first - 1 : first + 2 * _NEAR]
    return render(
        "call.html",
        replay=replay,
        made=made,
        at=at,
        last=last,
        near=near,
        frames=_frames(made, before),
        asked=_request_text(made, exchange),
        answer="" if exchange is None else _answer(exchange),
        marks=_MARKS,
        means=_MEANS,
        most=MAX_KEPT,
    )


def _frames(made: Made, before: Made | None) -> list[dict[str, object]]:
    """Return the frames of a call, each variable with whether it has another value than at the call before."""
    was = {_function(frame): frame.variables for frame in reversed(before.frames)} if before is not None else {}

    def variables(frame: StackFrame) -> list[tuple[str, str, str]]:
        known = was.get(_function(frame))
        news = {
            name: "" if known is None or known.get(name) == text else "changed" if name in known else "new"
            for name, text in frame.variables.items()
        }
        return [(name, text, news[name]) for name, text in frame.variables.items()]

    return [{"place": frame.place, "line": frame.line, "variables": variables(frame)} for frame in made.frames]


def _function(frame: StackFrame) -> str:
    """Return the function of a frame, without the line that it is at."""
    file, _, rest = frame.place.rpartition(":")
    return f"{file} {rest.partition(' in ')[2]}"


def _request_text(made: Made, exchange: Exchange | None) -> str:
    if made.arguments is not None:
        return call_text(made.name, made.arguments)
    if exchange is None:
        return ""
    address = f"{exchange.request.method} {exchange.request.url}"
    return f"{address}\n\n{body_text(exchange.request)[0]}".strip()


def _answer(exchange: Exchange) -> str:
    if exchange.error:
        return error_text(exchange.error) or exchange.error
    return body_text(exchange.response)[0]


def aligned(fixture: Fixture, report: Report, *, changed: int | None = None) -> list[StepRow]:
    """Return the recorded steps in order, each with the calls that it answered.

    An unanswered call is next to the step that it was compared with, if that answered no other call; else in a
    separate row, after the call before it.
    """
    made: dict[int, list[Made]] = {}
    for call in report.made:
        if call.step is not None:
            made.setdefault(call.step, []).append(call)
    near = [item.step for item in report.divergences if item.step is not None and item.step not in made]
    after: dict[int, list[Made]] = {}
    last = 0
    for call in report.made:
        if call.step is not None:
            last = call.step
        elif near:
            last = near.pop(0)
            made[last] = [call]
        else:
            after.setdefault(last, []).append(call)
    rows = [StepRow(made=[call]) for call in after.get(0, ())]
    for node in outline_fixture(fixture).nodes:
        if node.inside is None and node.step is not None:
            calls = made.get(node.step, ())
            is_changed = node.step == changed
            rows.append(
                StepRow(step=node.step, kind=node.kind, name=node.name, detail=node.detail, changed=is_changed, made=calls)
            )
            rows += [StepRow(made=[call]) for call in after.get(node.step, ())]
    return rows


def _divergence(item: Divergence) -> dict[str, object]:
    place = "" if item.step is None else f" at step {item.step}"
    facts = {
        "differed": ", ".join(item.differed),
        "agreed": ", ".join(item.agreed),
        "would have returned": unquoted(item.would_have_returned or ""),
        "note": item.note,
    }
    return {
        "title": f"{item.kind.value}{place}: {f'{item.call_kind} {item.name}'.strip()}",
        "change": Difference(
            path=item.path,
            recorded=item.whole_recorded or item.recorded or "",
            live=item.whole_live or item.live or "",
        )
        if item.recorded is not None or item.live is not None
        else None,
        "facts": {name: text for name, text in facts.items() if text},
    }
