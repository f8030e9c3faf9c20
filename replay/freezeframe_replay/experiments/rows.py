"""Row: one run replayed with a candidate, once, and the finding, in two layers.

Structure is compared exactly (`structure`). If it is the same and the outcome is worded differently, a judge,
if given, decides about the meaning.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.engine.compare import Difference, first_difference, json_or_text
from freezeframe_replay.experiments.dataset import Dataset, Row
from freezeframe_replay.experiments.judge import Case, Judge, Judgement, ask_judge
from freezeframe_replay.experiments.structure import Aspect, Structure, compare_structure, is_refusal
from freezeframe_replay.experiments.tool_policy import ToolMode, ToolUse, tool_uses
from freezeframe_replay.process.kept import live_run, live_steps
from freezeframe_replay.process.reenact import Trial
from freezeframe_replay.report.report_text import unquoted
from freezeframe_replay.report.spent import Spent, spent_by, spent_on
from freezeframe_schemas import values
from freezeframe_schemas.divergence import Check, Divergence, DivergenceKind, Report
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import Fixture, Step
from freezeframe_schemas.verdict import EXIT_CODES as OF_A_REPLAY
from freezeframe_schemas.verdict import Verdict, headline, verdict, why_incomparable


class ExperimentVerdict(StrEnum):
    SAME = "same"
    CHANGED = "changed"
    INCOMPARABLE = "incomparable"


EXIT_CODES: Final = {
    ExperimentVerdict.SAME: OF_A_REPLAY[Verdict.IDENTICAL],
    ExperimentVerdict.CHANGED: OF_A_REPLAY[Verdict.DIVERGED],
    ExperimentVerdict.INCOMPARABLE: OF_A_REPLAY[Verdict.INCOMPARABLE],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowResult:
    """One run with the candidate."""

    name: str
    run_id: str
    finding: ExperimentVerdict
    why: str
    """The result in one line."""
    note: str = ""
    structure: Structure | None = None
    judgement: Judgement | None = None
    first: Divergence | None = None
    """The place where the replay left the recording."""
    outcome: Difference | None = None
    """The difference of the outcomes, if both are known."""
    steps: int = 0
    served: int = 0
    live_calls: int = 0
    seconds: float = 0.0
    recorded: Spent | None = None
    """Time and cost of the recorded run's calls."""
    spent: Spent | None = None
    """Time and cost of the candidate's calls; None if unknown."""
    live_usd: float | None = 0.0
    """The cost of the calls that were made for real; None if unknown."""
    repeat: int = 1
    path: tuple[str, ...] = ()
    """The calls that the program made, in order: ``model``, or the name of a tool."""
    tools: tuple[ToolUse, ...] = ()
    came_to: str | None = None
    """The candidate's outcome as tagged JSON; None if it is not known."""
    refused: bool = False
    """A provider did not answer a live call, and the run failed: nothing is known about the candidate."""
    passed: bool | None = None
    """The answer of the check; without one, true if the run ended without an error. None if the outcome is unknown."""
    reason: str = ""
    """The reason of a check that failed."""
    passed_before: bool | None = None
    """Likewise, of the run that it is compared with: the recorded one, or the one in a kept result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Settings for judging meaning."""

    judge: Judge
    records: Path
    live: bool = False


def replay_row(dataset: Dataset, row: Row, trial: Trial, *, repeat: int = 1) -> tuple[Fixture, RowResult]:
    """Return the run, and the finding of a replay of it; a judge was not asked.

    Raises:
        FixtureError: the row's fixture is damaged.
    """
    fixture = dataset.load(row)
    common: dict[str, Any] = {
        "name": row.name,
        "run_id": row.run_id,
        "note": row.note,
        "repeat": repeat,
        "recorded": spent_by(fixture),
    }
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        spans = Path(scratch, "spans.jsonl") if trial.policy.goes_live else None
        begun = time.monotonic()
        try:
            report = trial.replay(fixture, spans=spans)
        except ReplayError as error:
            why, took = error.message, round(time.monotonic() - begun, 3)
            paid = None if trial.policy.goes_live else 0.0
            return fixture, RowResult(**common, finding=ExperimentVerdict.INCOMPARABLE, why=why, seconds=took, live_usd=paid)
        common["seconds"] = round(time.monotonic() - begun, 3)
        live = _live_steps(fixture, report, spans)
    paid = None if live is None else spent_on(live)
    common |= {
        "steps": report.steps,
        "served": len(report.served),
        "live_calls": len(report.live),
        "first": report.first,
        "live_usd": None if paid is None or paid.unknown else paid.usd,
        "tools": tool_uses(fixture, report, trial.policy),
        "path": tuple("model" if made.call_kind == Kind.MODEL else made.name for made in report.made),
    }
    refused = None if live is None else next((step for step in live if is_refusal(step.exchange)), None)
    open_question = why_incomparable(report)
    if refused is not None and values.is_exception(report.outcome or ""):
        common["refused"] = True
        status = refused.exchange.response.status
        open_question = f"the provider did not answer a live call{f' (status {status})' if status else ''}, and the run failed"
    if open_question is not None:
        return fixture, RowResult(**common, finding=ExperimentVerdict.INCOMPARABLE, why=open_question)
    if not any(made.how == "missed" for made in report.made):
        if paid is not None:
            common["spent"] = spent_by(fixture, {item.step for item in report.served}) + paid
        same = report.outcome_check is Check.SAME
        common["came_to"] = fixture.entry.outcome if same else report.outcome
    result = _finding(fixture, report, common)
    fixed = [use.name for use in result.tools if use.mode is ToolMode.FIXED and use.served]
    if result.finding is ExperimentVerdict.SAME and fixed:
        result = replace(result, why=f"same path and outcome, with {', '.join(fixed)} fixed")
    return fixture, result


def _finding(fixture: Fixture, report: Report, common: dict[str, Any]) -> RowResult:
    if verdict(report).agrees:
        return RowResult(**common, finding=ExperimentVerdict.SAME, why=headline(report))
    structure = compare_structure(fixture, report)
    common["structure"] = structure
    if structure.aspect is not Aspect.SAME:
        return RowResult(**common, finding=ExperimentVerdict.CHANGED, why=_structure_text(structure, report))
    if fixture.entry.outcome is None or report.outcome is None:
        return RowResult(
            **common, finding=ExperimentVerdict.INCOMPARABLE, why="the same path, and no outcome to compare: not recorded"
        )
    outcome = _outcome_difference(fixture, report)
    common["outcome"] = outcome
    if outcome is None:
        return RowResult(**common, finding=ExperimentVerdict.SAME, why="same path and outcome")
    return RowResult(**common, finding=ExperimentVerdict.CHANGED, why=f"a different outcome at {outcome.path}")


def judge_row(result: RowResult, fixture: Fixture, judging: Judging) -> RowResult:
    """Return the result with the judge's verdict, if the path is the same and the outcome is worded differently.

    Raises:
        ReplayError: the judge failed.
    """
    if result.outcome is None or result.came_to is None or result.finding is not ExperimentVerdict.CHANGED:
        return result
    case = Case(
        run=fixture.run_id,
        input=unquoted(fixture.entry.input or ""),
        recorded=unquoted(fixture.entry.outcome or ""),
        candidate=unquoted(result.came_to),
    )
    judgement = ask_judge(judging.judge, case, records=judging.records, live=judging.live)
    meaning = "means the same" if judgement.passed else "means something else"
    score = "" if judgement.score is None else f", {judgement.score:g}"
    why = f"judge: {meaning}{score}{f': {judgement.reason}' if judgement.reason else ''}"
    finding = ExperimentVerdict.SAME if judgement.passed else ExperimentVerdict.CHANGED
    return replace(result, judgement=judgement, finding=finding, why=why)


def _live_steps(fixture: Fixture, report: Report, spans: Path | None) -> Sequence[Step] | None:
    """Return the steps that were made for real; None if they are not known."""
    if not report.live:
        return ()
    run = None if spans is None else live_run(fixture, spans)
    live = None if run is None else live_steps(run, report)
    return None if live is None else tuple(live.values())


def _structure_text(structure: Structure, report: Report) -> str:
    place = "" if structure.step is None else f" at step {structure.step}"
    if structure.aspect is Aspect.CUT:
        first = report.first
        where = f" at {first.path}" if first is not None and first.path != "$" else ""
        return f"asks something else{place}{where}; offline, what follows is not known"
    return f"{structure.aspect.value}{place}: {structure.recorded} > {structure.candidate}"


def _outcome_difference(fixture: Fixture, report: Report) -> Difference | None:
    changed = next((item for item in report.divergences if item.kind is DivergenceKind.OUTCOME_CHANGED), None)
    if changed is not None:
        return Difference(path=changed.path, recorded=changed.recorded or "", live=changed.live or "")
    recorded = fixture.entry.outcome
    if recorded is None or report.outcome is None or report.outcome_check is Check.SAME:
        return None
    return first_difference(_comparable(recorded), _comparable(report.outcome))


def _comparable(text: str) -> Any:
    """Keep class and text of an exception, and the items yielded before it; its attributes may hold addresses and times."""
    value = json_or_text(text)
    if isinstance(value, dict) and value.get(values.TAG) == "exception":
        return {"raised": value.get("class"), "text": value.get("text"), "yields": value.get("yields")}
    return value
