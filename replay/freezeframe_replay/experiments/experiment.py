"""Experiment: candidates on the runs of a dataset, each once offline or several times live, and what each fixes and breaks.

`plan` says which cell is next, `rows` makes it, `cells` keeps it, `statement` sums them up, `gates` decide.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.experiments.candidate import ExperimentCandidate, checked_out_code
from freezeframe_replay.experiments.cells import CellFolder, code_digest
from freezeframe_replay.experiments.check import CheckCommand, OutcomeCheck
from freezeframe_replay.experiments.dataset import Dataset, Row
from freezeframe_replay.experiments.expected_cost import expected_cost
from freezeframe_replay.experiments.gates import Gate, Gates, check_gates
from freezeframe_replay.experiments.plan import Budget, Cell, live_cells, offline_cells
from freezeframe_replay.experiments.rows import ExperimentVerdict, Judging, RowResult, judge_row, replay_row
from freezeframe_replay.experiments.statement import Score, score
from freezeframe_replay.experiments.tool_policy import ToolUse, load_rules, sum_of
from freezeframe_replay.report.render import counted
from freezeframe_schemas import values
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.records import from_json

_WORST: Final = (ExperimentVerdict.SAME, ExperimentVerdict.INCOMPARABLE, ExperimentVerdict.CHANGED)
_DECIDE_CHANGES: Final = ("changed", "broken")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentResult:
    """One candidate's rows, in the dataset's order: of each run, the repeat that differs most."""

    dataset: str
    candidate: str
    rows: tuple[RowResult, ...]
    gates: tuple[Gate, ...] = ()
    """The limits that were set, and the result."""
    name: str = ""
    cells: tuple[RowResult, ...] = ()
    """All repeats."""
    score: Score | None = None
    tools: tuple[ToolUse, ...] = ()
    """The calls of the tools, in all cells."""
    left: int = 0
    """Cells that were not made."""
    is_noise: bool = False

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
        changed, opened = self.counts[ExperimentVerdict.CHANGED] > 0, self.counts[ExperimentVerdict.INCOMPARABLE] > 0
        if any(gate.name in _DECIDE_CHANGES for gate in self.gates):
            changed = False
        if changed or any(gate.passed is False for gate in self.gates):
            return ExperimentVerdict.CHANGED
        is_open = opened or not self.rows or self.left or any(gate.passed is None for gate in self.gates)
        return ExperimentVerdict.INCOMPARABLE if is_open else ExperimentVerdict.SAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """The results of all candidates."""

    dataset: str
    results: tuple[ExperimentResult, ...]
    check: str = ""
    against: str = ""
    repeats: int = 1
    budget: Budget = field(default_factory=Budget)
    resumed: int = 0
    """Cells that an earlier, unfinished experiment had made."""
    notes: tuple[str, ...] = ()

    @property
    def left(self) -> int:
        """Return the number of cells that were not made."""
        return sum(result.left for result in self.results)

    @property
    def finding(self) -> ExperimentVerdict:
        """Return the worst finding of a candidate."""
        found = [result.finding for result in self.results if not result.is_noise]
        return max(found, key=_WORST.index, default=ExperimentVerdict.INCOMPARABLE)


OnRow = Callable[[int, int, RowResult], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A kept result that candidates are compared with in place of the recordings."""

    name: str
    passed: Mapping[str, bool | None]
    """Name of a run -> whether it passed."""
    changed: frozenset[str]
    """Runs that were changed against the recording then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The settings of an experiment."""

    judging: Judging | None = None
    """The judge for rows with the same structure and different words. Judges run in this process, one at a time."""
    check: CheckCommand | None = None
    """Decides whether a run passes (default: it ends without an error)."""
    repeats: int = 1
    """Times that what is live is made."""
    budget_usd: float | None = None
    jobs: int = 1
    """Replays in parallel, each in its own process."""
    gates: Gates = field(default_factory=Gates)
    kept: Mapping[str, Kept] = field(default_factory=dict[str, Kept])
    """Name of a candidate -> the kept result that it is compared with."""
    against: str = ""
    fresh: bool = False
    """Make all cells anew."""
    outputs: tuple[Path, ...] = ()
    """Files that the result is written to; they are no part of the code."""
    on_row: OnRow | None = None
    """Called with the number of cells done, their total, and the cell."""


def run_experiment(
    dataset: Dataset, candidates: Sequence[ExperimentCandidate], conditions: Conditions | None = None
) -> Experiment:
    """Replay each row with each candidate and return the findings.

    Raises:
        FixtureError: a row's fixture is damaged.
        ReplayError: a judge or a check failed.
        ConfigError: a candidate's code is not there, or a budget cannot be kept.
    """
    with ExitStack() as stack:
        saved = load_rules(dataset.directory)
        ruled = [candidate.with_rules(saved) for candidate in candidates]
        ready = [stack.enter_context(checked_out_code(candidate)) for candidate in ruled]
        return _Running(dataset, ready, conditions or Conditions()).run()


class _Running:
    """One experiment while it runs."""

    def __init__(self, dataset: Dataset, candidates: Sequence[ExperimentCandidate], conditions: Conditions) -> None:
        self._dataset = dataset
        self._candidates = candidates
        self._conditions = conditions
        self._cells = CellFolder(dataset.directory, fresh=conditions.fresh)
        self._here = code_digest(Path.cwd(), but=(dataset.directory, *conditions.outputs))
        folders = {candidate.trial.cwd or Path.cwd() for candidate in candidates}
        self._code = {folder: code_digest(folder, but=(dataset.directory, *conditions.outputs)) for folder in folders}
        self._budget = Budget(limit=conditions.budget_usd)
        self._made: dict[tuple[int, int], list[RowResult]] = {}
        self._settled: set[tuple[int, int]] = set()
        """Candidates and runs that need no further cell: nothing in them varies."""
        self._left: Counter[int] = Counter()
        self._resumed = 0
        self._refused = 0
        self._before: dict[str, bool | None] = {}
        self._lock = threading.Lock()

    def run(self) -> Experiment:
        rows, candidates = len(self._dataset.rows), self._candidates
        offline = list(offline_cells([each.has_offline_part for each in candidates], rows))
        live = list(live_cells([each.goes_live for each in candidates], rows, self._conditions.repeats))
        with ThreadPoolExecutor(max_workers=max(1, self._conditions.jobs)) as pool:
            try:
                for part in (offline, live):
                    self._run_part(pool, deque(part), later=len(live) if part is offline else 0)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        results = tuple(self._result(number) for number in range(len(candidates)))
        if not self._left and not self._refused:
            self._cells.finish()
        return Experiment(
            dataset=str(self._dataset.directory),
            results=results,
            check=self._conditions.check.command if self._conditions.check else "",
            against=self._conditions.against,
            repeats=self._conditions.repeats,
            budget=self._budget,
            resumed=self._resumed,
            notes=tuple(self._notes()),
        )

    # -- cells ------------------------------------------------------------------------------------------------------------

    def _run_part(self, pool: ThreadPoolExecutor, queue: deque[Cell], *, later: int) -> None:
        running: dict[Future[tuple[Fixture, RowResult]], Cell] = {}
        while queue or running:
            while queue and len(running) < max(1, self._conditions.jobs):
                cell = queue[0]
                if cell.place in self._settled:
                    queue.popleft()
                    continue
                kept = self._find(cell)
                if cell.live and kept is None and not self._may_start(cell):
                    if not running:  # else wait: what they cost is less than what they may
                        self._stop(queue)
                    break
                queue.popleft()
                running[pool.submit(self._make, cell, kept)] = cell
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                cell = running.pop(future)
                self._end(cell, *future.result())
                waiting = sum(each.place not in self._settled for each in queue) + len(running) + later
                self._report(cell, waiting)

    def _may_start(self, cell: Cell) -> bool:
        if self._conditions.budget_usd is None:
            return True
        like_recorded = self._like_recorded(cell)
        if not self._budget.allows(cell, like_recorded):
            return False
        self._budget.begin(cell, like_recorded)
        return True

    def _stop(self, queue: deque[Cell]) -> None:
        self._left.update(cell.candidate for cell in queue if cell.place not in self._settled)
        queue.clear()

    def _like_recorded(self, cell: Cell) -> float:
        """Return the cost of the cell's run if it makes the recorded calls."""
        fixture = self._dataset.load(self._dataset.rows[cell.row])
        found = expected_cost(fixture, self._candidates[cell.candidate].model)
        if isinstance(found, str):
            raise ConfigError(
                f"--budget: the model {found!r} has no list price, so what it costs is not known",
                do="leave --budget out, or try a model with a list price",
            )
        return found

    def _make(self, cell: Cell, kept: RowResult | None) -> tuple[Fixture, RowResult]:
        """Make a cell, or complete one that was kept (in a thread)."""
        row = self._dataset.rows[cell.row]
        if kept is None:
            trial = self._trial(cell)
            fixture, result = replay_row(self._dataset, row, trial, repeat=cell.repeat)
            if not result.refused:
                self._cells.keep(asdict(result), *self._key(cell))
        else:
            fixture, result = self._dataset.load(row), kept
        before = self._recorded_passes(row, fixture)
        known = self._conditions.kept.get(self._candidates[cell.candidate].name)
        checked = self._check(row, fixture, result.came_to)
        return fixture, replace(
            result,
            passed=None if checked is None else checked.passed,
            reason="" if checked is None else checked.reason,
            passed_before=before if known is None else known.passed.get(row.name),
        )

    def _end(self, cell: Cell, fixture: Fixture, result: RowResult) -> None:
        """Note a finished cell."""
        candidate = self._candidates[cell.candidate]
        if self._conditions.judging is not None:
            result = judge_row(result, fixture, self._conditions.judging)
        if cell.live and self._conditions.budget_usd is not None:
            self._budget.end(cell, self._like_recorded(cell), result.live_usd)
        elif cell.live:
            self._budget.spent += result.live_usd or 0.0
            self._budget.unknown += result.live_usd is None
        if cell.live or not candidate.goes_live:
            self._made.setdefault(cell.place, []).append(result)
            if not result.live_calls and not result.refused:
                self._settled.add(cell.place)
        elif candidate.is_noise:
            if result.finding is not ExperimentVerdict.SAME:
                why = f"the code here does not repeat the run offline, so a change is not the model's alone: {result.why}"
                self._made[cell.place] = [replace(result, finding=ExperimentVerdict.INCOMPARABLE, why=why, passed=None)]
                self._settled.add(cell.place)
        elif result.came_to is not None:  # answered from the recording to its end: no live call would be made
            self._made[cell.place] = [result]
            self._settled.add(cell.place)
        self._refused += result.refused

    def _report(self, cell: Cell, waiting: int) -> None:
        if self._conditions.on_row is None or cell.place not in self._made:
            return
        made = sum(map(len, self._made.values()))
        self._conditions.on_row(made, made + waiting, self._made[cell.place][-1])

    def _trial(self, cell: Cell) -> Any:
        candidate = self._candidates[cell.candidate]
        return candidate.trial if cell.live else candidate.offline

    def _key(self, cell: Cell) -> tuple[Any, ...]:
        trial = self._trial(cell)
        policy, code = asdict(trial.policy), self._code[trial.cwd or Path.cwd()]
        row = self._dataset.rows[cell.row].digest
        return "replay", row, _plain(policy), list(trial.command), trial.timeout_s, code, cell.repeat

    def _find(self, cell: Cell) -> RowResult | None:
        found = self._cells.find(*self._key(cell))
        if found is None:
            return None
        self._resumed += 1
        return from_json(RowResult, found, "a kept cell")

    # -- checks -----------------------------------------------------------------------------------------------------------

    def _recorded_passes(self, row: Row, fixture: Fixture) -> bool | None:
        with self._lock:
            if row.name in self._before:
                return self._before[row.name]
        checked = self._check(row, fixture, fixture.entry.outcome)
        with self._lock:
            return self._before.setdefault(row.name, None if checked is None else checked.passed)

    def _check(self, row: Row, fixture: Fixture, outcome: str | None) -> OutcomeCheck | None:
        check = self._conditions.check
        if outcome is None:
            return None
        if check is None:
            return OutcomeCheck(passed=not is_failure(outcome))
        key = ("check", row.digest, outcome, check.command, self._here)
        found = self._cells.find(*key)
        if found is None:
            found = asdict(check.run(fixture, outcome))
            self._cells.keep(found, *key)
        return from_json(OutcomeCheck, found, "a kept check")

    # -- results ----------------------------------------------------------------------------------------------------------

    def _result(self, number: int) -> ExperimentResult:
        candidate = self._candidates[number]
        made = {row.name: self._made.get((number, at), []) for at, row in enumerate(self._dataset.rows)}
        rows = [max(cells, key=_badness) for cells in made.values() if cells]
        kept = self._conditions.kept.get(candidate.name)
        found = score(
            self._before if kept is None else kept.passed,
            {name: [cell.passed for cell in cells] for name, cells in made.items()},
            {name: [_is_changed(cell) for cell in cells] for name, cells in made.items()},
        )
        cells = tuple(cell for cells in made.values() for cell in cells)
        changed = [row for row in rows if row.finding is ExperimentVerdict.CHANGED]
        gates = check_gates(
            self._gates(candidate),
            changed=sum(kept is None or row.name not in kept.changed for row in changed),
            rows=[cell.spent for cell in cells],
            incomparable=sum(row.finding is ExperimentVerdict.INCOMPARABLE for row in rows),
            broken=found.breaks.count,
            unknown=found.unknown,
        )
        return ExperimentResult(
            dataset=str(self._dataset.directory),
            candidate=candidate.label,
            rows=tuple(rows),
            gates=tuple(gates),
            name=candidate.name,
            cells=cells,
            score=found,
            tools=sum_of(cell.tools for cell in cells),
            left=self._left[number],
            is_noise=candidate.is_noise,
        )

    def _gates(self, candidate: ExperimentCandidate) -> Gates:
        """Return the limits: with a check or a kept result, nothing may be broken unless it is allowed."""
        gates = self._conditions.gates
        if candidate.is_noise:
            return Gates()
        if gates.changed is not None or gates.broken is not None:
            return gates
        if self._conditions.check is not None:
            return replace(gates, broken=0)
        return replace(gates, broken=0, changed=0) if candidate.name in self._conditions.kept else gates

    def _notes(self) -> Sequence[str]:
        notes: list[str] = []
        if self._cells.unwritable:
            notes.append(f"finished cells could not be kept, so a killed experiment begins anew: {self._cells.unwritable}")
        if self._refused:
            notes.append(
                f"{counted(self._refused, 'cell')} failed because a provider did not answer: "
                "the same command makes them again, and only them"
            )
        if self._budget.unknown and self._budget.limit is not None:
            notes.append(f"the cost of {counted(self._budget.unknown, 'live cell')} is not known: they count as estimated")
        return notes


def _badness(cell: RowResult) -> tuple[bool, int]:
    return cell.passed is False, _WORST.index(cell.finding)


def _is_changed(cell: RowResult) -> bool | None:
    return None if cell.finding is ExperimentVerdict.INCOMPARABLE else cell.finding is ExperimentVerdict.CHANGED


def is_failure(outcome: str) -> bool:
    """Return whether an outcome is an error: an exception, or the exit status of a command that failed."""
    if values.is_exception(outcome):
        return True
    try:
        decoded: Any = values.decode(outcome)
    except ValueError:
        return False
    return isinstance(decoded, dict) and isinstance(decoded.get("exit"), int) and decoded["exit"] != 0


def _plain(value: Any) -> Any:
    """Return a policy with its sets as sorted lists."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(map(str, value))
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
