"""Experiment: a dataset replayed with a candidate, row by row, each with a verdict in two layers.

Structure is compared exactly (`structure`). If it is the same and the outcome is worded differently, a judge,
if given, decides about the meaning.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.engine.compare import Difference, first_difference, json_or_text
from freezeframe_replay.experiments.dataset import Dataset, Row
from freezeframe_replay.experiments.judge import Case, Judge, Judgement, ask_judge
from freezeframe_replay.experiments.structure import Aspect, Structure, compare_structure
from freezeframe_replay.process.kept import live_run, live_steps
from freezeframe_replay.process.reenact import Trial
from freezeframe_replay.report.render import counted
from freezeframe_replay.report.report_text import unquoted
from freezeframe_replay.report.spent import Spent, spent_by, spent_on
from freezeframe_schemas import values
from freezeframe_schemas.divergence import Check, Divergence, DivergenceKind, Report
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import EXIT_CODES as OF_A_REPLAY
from freezeframe_schemas.verdict import Verdict, headline, verdict, why_incomparable

FORMAT: Final = "freezeframe-experiment"
VERSION: Final = 1


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentResult:
    """All rows, in the dataset's order."""

    dataset: str
    candidate: str
    rows: tuple[RowResult, ...]
    gates: tuple[Gate, ...] = ()
    """The limits that were set, and the result."""

    @property
    def counts(self) -> Mapping[ExperimentVerdict, int]:
        """Return the number of rows for each finding."""
        found = Counter(row.finding for row in self.rows)
        return {finding: found[finding] for finding in ExperimentVerdict}

    @property
    def finding(self) -> ExperimentVerdict:
        """Return the finding for the whole: one changed row is a change; one incomparable row, or no row, leaves it open.

        If gates are set, they decide in place of the rows' changes: one that is exceeded counts as a change.
        """
        if self.gates:
            verdicts = [gate.passed for gate in self.gates]
            if False in verdicts or (
                self.counts[ExperimentVerdict.CHANGED] and all(gate.name != "changed" for gate in self.gates)
            ):
                return ExperimentVerdict.CHANGED
            is_open = None in verdicts or self.counts[ExperimentVerdict.INCOMPARABLE] or not self.rows
            return ExperimentVerdict.INCOMPARABLE if is_open else ExperimentVerdict.SAME
        for finding in (ExperimentVerdict.CHANGED, ExperimentVerdict.INCOMPARABLE):
            if self.counts[finding]:
                return finding
        return ExperimentVerdict.SAME if self.rows else ExperimentVerdict.INCOMPARABLE


OnRow = Callable[[int, int, RowResult], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Settings for judging meaning."""

    judge: Judge
    records: Path
    live: bool = False


def run_experiment(
    dataset: Dataset,
    candidate: Trial,
    *,
    judging: Judging | None = None,
    jobs: int = 1,
    on_row: OnRow | None = None,
    gates: Gates | None = None,
) -> ExperimentResult:
    """Replay each row with the candidate and return the findings.

    Args:
        dataset: the runs.
        candidate: the code in the working tree, under a policy that may edit requests and go live.
        judging: the judge for rows with the same structure and different words. Judges run in this process, one at a time.
        jobs: replays in parallel, each in its own process.
        on_row: called with the number of rows done, their total, and the row.
        gates: limits that the candidate must not exceed (default: none).

    Raises:
        FixtureError: a row's fixture is damaged.
        ReplayError: a judge failed.
    """
    done: list[RowResult] = []
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        replays = [(row, pool.submit(_replay, dataset, row, candidate)) for row in dataset.rows]
        try:
            for row, future in replays:
                fixture, replayed, seconds, took = future.result()
                result = _judge_row(row, fixture, replayed, judging, seconds)
                result = replace(result, recorded=spent_by(fixture), spent=took)
                done.append(result)
                if on_row is not None:
                    on_row(len(done), len(dataset.rows), result)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    count = Counter(row.finding for row in done)
    spent = [row.spent for row in done]
    found = tuple(check_gates(gates or Gates(), count[ExperimentVerdict.CHANGED], spent, count[ExperimentVerdict.INCOMPARABLE]))
    return ExperimentResult(dataset=str(dataset.directory), candidate=_label(candidate), rows=tuple(done), gates=found)


def _label(candidate: Trial) -> str:
    """Describe the candidate in a few words."""
    parts = [*map(str, candidate.policy.edits), " ".join(candidate.command)]
    return ", ".join(filter(None, parts)) or "the code in the working tree"


def _replay(dataset: Dataset, row: Row, candidate: Trial) -> tuple[Fixture, Report | ReplayError, float, Spent | None]:
    fixture = dataset.load(row)
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        spans = Path(scratch, "spans.jsonl") if candidate.policy.goes_live else None
        begun = time.monotonic()
        try:
            report = candidate.replay(fixture, spans=spans)
        except ReplayError as error:
            return fixture, error, round(time.monotonic() - begun, 3), None
        seconds = round(time.monotonic() - begun, 3)
        return fixture, report, seconds, _spent(fixture, report, spans)


def _spent(fixture: Fixture, report: Report, spans: Path | None) -> Spent | None:
    """Return time and cost of the candidate's calls; None if the replay was cut short, or did not record live calls."""
    if why_incomparable(report) is not None or any(made.how == "missed" for made in report.made):
        return None
    served = spent_by(fixture, {item.step for item in report.served})
    if not report.live:
        return served
    run = None if spans is None else live_run(fixture, spans)
    live = None if run is None else live_steps(run, report)
    return None if live is None else served + spent_on(live.values())


def _judge_row(
    row: Row, fixture: Fixture, replayed: Report | ReplayError, judging: Judging | None, seconds: float
) -> RowResult:
    common: dict[str, Any] = {"name": row.name, "run_id": row.run_id, "note": row.note, "seconds": seconds}
    if isinstance(replayed, ReplayError):
        return RowResult(**common, finding=ExperimentVerdict.INCOMPARABLE, why=replayed.message)
    report = replayed
    common |= {"steps": report.steps, "served": len(report.served), "live_calls": len(report.live), "first": report.first}
    open_question = why_incomparable(report)
    if open_question is not None:
        return RowResult(**common, finding=ExperimentVerdict.INCOMPARABLE, why=open_question)
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
    if judging is None:
        return RowResult(**common, finding=ExperimentVerdict.CHANGED, why=f"a different outcome at {outcome.path}")
    judgement = ask_judge(judging.judge, _case(fixture, report), records=judging.records, live=judging.live)
    finding = ExperimentVerdict.SAME if judgement.passed else ExperimentVerdict.CHANGED
    meaning = "means the same" if judgement.passed else "means something else"
    score = "" if judgement.score is None else f", {judgement.score:g}"
    why = f"judge: {meaning}{score}{f': {judgement.reason}' if judgement.reason else ''}"
    return RowResult(**common, judgement=judgement, finding=finding, why=why)


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


def _case(fixture: Fixture, report: Report) -> Case:
    recorded = fixture.entry.outcome or ""
    return Case(
        run=fixture.run_id,
        input=unquoted(fixture.entry.input or ""),
        recorded=unquoted(recorded),
        candidate=unquoted(report.outcome or ""),
    )


def result_to_json(result: ExperimentResult) -> dict[str, Any]:
    """Return the result as a JSON value, with its format and version."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "dataset": result.dataset,
        "candidate": result.candidate,
        "finding": result.finding.value,
        "gates": [asdict(gate) for gate in result.gates],
        "counts": {finding.value: count for finding, count in result.counts.items()},
        "rows": [asdict(row) for row in result.rows],
    }


# -- Gates: what an experiment must not exceed. Pure -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """The limits; None sets none."""

    changed: int | None = None
    """Rows that may change."""
    p95_s: float | None = None
    """Seconds that the calls of 95 of 100 runs may take."""
    usd: float | None = None
    """US dollars that the dearest run may cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One limit, and the result."""

    name: str
    limit: float
    found: float | None
    """None if it is not known."""
    passed: bool | None
    """None if it is not known."""
    note: str = ""


def check_gates(gates: Gates, changed: int, rows: Sequence[Spent | None], incomparable: int = 0) -> Iterator[Gate]:
    """Yield each limit that is set, with its result. `rows`: time and cost of each run, None if unknown."""
    if gates.changed is not None:
        yield _gate("changed", gates.changed, changed, incomparable, least=changed, most=changed + incomparable)
    unknown = sum(row is None for row in rows)
    if gates.p95_s is not None:
        known = [row.ms / 1000 for row in rows if row is not None]
        yield _gate("p95 seconds", gates.p95_s, _p95(known), unknown, least=_p95([*known, *[0.0] * unknown]))
    if gates.usd is not None:
        unknown += sum(row.unknown > 0 for row in rows if row is not None)
        found = max((row.usd for row in rows if row is not None), default=None)
        yield _gate("US dollars a run", gates.usd, found, unknown, least=found)


def _gate(
    name: str, limit: float, found: float | None, unknown: int, *, least: float | None, most: float | None = None
) -> Gate:
    """Return a limit. Runs with an unknown value leave it open, unless it is decided for any value of theirs."""
    exceeded = least is not None and least > limit
    is_open = found is None or (unknown > 0 and (most is None or most > limit))
    note = f"not known of {counted(unknown, 'run')}" if unknown else ""
    return Gate(name=name, limit=limit, found=found, passed=False if exceeded else None if is_open else True, note=note)


def _p95(values: Sequence[float]) -> float | None:
    """Return the smallest of the values that 95 of 100 do not exceed, or None."""
    return sorted(values)[math.ceil(len(values) * 0.95) - 1] if values else None
