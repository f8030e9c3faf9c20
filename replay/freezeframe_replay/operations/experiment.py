"""Replay each run of a dataset with candidates: their changes, and what each fixes and breaks."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.operations.writing import cannot_write
from freezeframe_replay.process.reenact import Trial
from freezeframe_replay.report.render import ID_DIGITS, counted, printable, short, table_text
from freezeframe_replay.sources.store import json_form
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.whole_file import replace_file

if TYPE_CHECKING:
    from freezeframe_replay.experiments.candidate import ExperimentCandidate
    from freezeframe_replay.experiments.experiment import Conditions, Experiment, ExperimentResult
    from freezeframe_replay.experiments.rows import RowResult


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentParameters:
    """The dataset, the candidates, and the conditions."""

    dataset: Path
    trial: Trial = dataclasses.field(default_factory=Trial)
    """The only candidate, if `candidates` names none."""
    candidates: tuple[ExperimentCandidate, ...] = ()
    conditions: Conditions | None = None


def experiment(source: RunSource, parameters: ExperimentParameters) -> Experiment:
    """Return the results.

    Raises:
        FixtureError: the dataset is missing, or a fixture of it is damaged.
        ReplayError: a judge or a check failed.
        ConfigError: a candidate's code is not there, or a budget cannot be kept.
    """
    from freezeframe_replay.experiments.candidate import ExperimentCandidate
    from freezeframe_replay.experiments.dataset import load_dataset
    from freezeframe_replay.experiments.experiment import run_experiment  # with judges, which other operations do without

    candidates = parameters.candidates or (ExperimentCandidate(trial=parameters.trial),)
    keyed = [
        dataclasses.replace(one, trial=dataclasses.replace(one.trial, keys=one.trial.keys or source.keys)) for one in candidates
    ]
    return run_experiment(load_dataset(parameters.dataset), keyed, parameters.conditions)


def experiment_text(found: Experiment, *, width: int, everything: bool = False) -> str:
    """Return the runs and the statements; these come last, since the end of a long output is what is read.

    Of several candidates, the runs are one table, and their differences are left out without `everything`.
    """
    is_one = len(found.results) == 1
    parts: list[str] = []
    for result in found.results:
        if is_one or not result.is_noise:
            rows = None if is_one or everything else ()
            parts.append(result_text(result, width=width, everything=everything, rows=rows))
    is_compared = bool(found.check or found.against or not is_one or found.repeats > 1)
    if is_compared:
        parts += filter(None, (_matrix(found, everything=everything), "\n".join(_statement(found))))
    tools = [line for result in found.results for line in _tools(result, is_compared=is_compared)]
    if tools:
        parts.append("\n".join(tools))
    if found.notes:
        parts.append("\n".join(found.notes))
    return "\n\n".join(parts)


def _matrix(found: Experiment, *, everything: bool) -> str:
    """Return the runs by the candidates: in how many repeats each passes. Runs that are as before are only counted."""
    cells: dict[str, dict[str, list[RowResult]]] = {}
    for result in found.results:
        for cell in result.cells:
            cells.setdefault(cell.run_id, {}).setdefault(result.name, []).append(cell)
    rows: list[tuple[str, ...]] = []
    as_before = 0
    for run, by_name in cells.items():
        flat = [cell for made in by_name.values() for cell in made]
        if not everything and all(cell.passed is cell.passed_before is not None for cell in flat):
            as_before += 1
            continue
        before = {None: "not known", True: "passes", False: "fails"}[flat[0].passed_before]
        rows.append((run[:ID_DIGITS], before, *(_passes(by_name.get(result.name, ())) for result in found.results)))
    names = [result.name or "passes" for result in found.results]
    lines = table_text(("run", "before", *names), rows).splitlines() if rows else []
    if as_before and len(cells) > 1:
        lines.append(f"{counted(as_before, 'run')} as before, in all repeats")
    return "\n".join(f"  {line}" for line in lines)


def _passes(cells: Sequence[RowResult]) -> str:
    known = [cell.passed for cell in cells if cell.passed is not None]
    unknown = f" ({len(cells) - len(known)} not known)" if len(cells) > len(known) and known else ""
    return f"{sum(known)} of {len(known)}{unknown}" if known else "not known" if cells else "not made"


def _statement(found: Experiment) -> Iterable[str]:
    """Yield what each candidate fixes and breaks, and what that rests on."""
    from freezeframe_replay.experiments.statement import METHOD, sentence

    for result in found.results:
        if result.score is not None:
            yield sentence(
                f"candidate {result.name}" if result.name and not result.is_noise else result.name or "the candidate",
                result.score,
            )
    rule = f"passes: `{found.check}` exits with 0" if found.check else "passes: it ends without an error"
    base = f"compared with the kept result {found.against}" if found.against else "compared with the recorded runs"
    yield f"({base}; {rule}; {METHOD})"
    for result in found.results:
        live = [cell for cell in result.cells if cell.live_calls]
        if live:
            known = [cell.live_usd for cell in live if cell.live_usd is not None]
            cost = f"${sum(known):.4f}" if len(known) == len(live) else "cost not known"
            seconds = sorted(cell.spent.ms / 1000 for cell in live if cell.spent is not None)
            took = f", calls of a run {seconds[0]:.1f} to {seconds[-1]:.1f} s" if seconds else ""
            yield f"{result.name or 'live'}: {counted(len(live), 'live cell')}, {cost}{took}"
    if found.resumed:
        yield f"{counted(found.resumed, 'cell')} had been made before the experiment was stopped (--fresh makes them anew)"
    budget = found.budget
    if found.left and budget.limit is None:
        yield f"{counted(found.left, 'cell')} left"
    elif found.left:
        yield (
            f"stopped at ${budget.spent:.4f}: the next live cell may exceed the budget of ${budget.limit:g}. "
            f"{counted(found.left, 'cell')} left; the same command with a larger --budget goes on"
        )


def result_text(
    result: ExperimentResult, *, width: int, everything: bool = False, rows: Sequence[RowResult] | None = None
) -> str:
    """Return the table of rows. Equal rows are only counted; each changed row is followed by its changes.

    `rows`: the rows to list in place of those.
    """
    counts = ", ".join(f"{count} {finding.value}" for finding, count in result.counts.items() if count) or "no rows"
    name = f"candidate {result.name}" if result.name else "candidate"
    lines = [f"{counts}; {name}: {short(result.candidate, width - len(counts) - len(name) - 4)}"]
    shown = [row for row in result.rows if everything or row.finding.value != "same"] if rows is None else rows
    if shown:
        header = ("run", "finding", "steps", "live", "time", "why")
        table = [
            (
                row.run_id[:ID_DIGITS],
                row.finding.value,
                f"{row.served}/{row.steps}",
                str(row.live_calls or ""),
                f"{row.seconds:.1f} s",
                row.why,
            )
            for row in shown
        ]
        texts = table_text(header, table, right=(2, 3, 4), cell_width=width, cut=(5,), width=width).splitlines()
        lines.append(f"  {texts[0]}")
        for row, text in zip(shown, texts[1:], strict=True):
            lines += [f"  {text}", *_difference(row, width)]
    for gate in result.gates:
        found = "not known" if gate.found is None else f"{gate.found:g}"
        word = "passed" if gate.passed else "not known" if gate.passed is None else "exceeded"
        lines.append(f"gate {gate.name}: {word}, {found} of {gate.limit:g}{f', {gate.note}' if gate.note else ''}")
    return "\n".join(lines)


def _tools(result: ExperimentResult, *, is_compared: bool) -> Iterable[str]:
    """Yield the tools that did not just answer what was recorded."""
    for use in result.tools:
        if use.mode.value == "recorded" and not (use.mismatched and is_compared):
            continue
        counts = f"{use.served} served, {use.unused} unused, {use.mismatched} with other arguments"
        never = "" if use.served + use.unused + use.mismatched else "; no run calls it"
        yield f"{f'{result.name}: ' if result.name else ''}tool {use.name} ({use.mode.value}): {counts}{never}"


def _difference(row: RowResult, width: int) -> Iterable[str]:
    found = row.outcome or row.first
    if found is None or row.finding.value == "same":
        return
    for mark, text in (("-", found.recorded), ("+", found.live)):
        if text is not None:
            yield short(f"      {mark} {text}", width)


def _to_json(found: Experiment) -> dict[str, Any]:
    from freezeframe_replay.experiments.results import experiment_to_json

    return experiment_to_json(found)


def keep_results(found: Experiment, files: Mapping[str, Path]) -> None:
    """Write results to the files under the names of their candidates, where `RESULTS` reads them.

    Raises:
        FixtureError: a file cannot be written.
    """
    from freezeframe_replay.experiments.results import kept_to_json

    for result in found.results:
        if result.name in files:
            text = json.dumps(kept_to_json(found, result), ensure_ascii=False, indent=1, default=json_form)
            try:
                files[result.name].parent.mkdir(parents=True, exist_ok=True)
                replace_file(files[result.name], f"{text}\n")
            except OSError as error:
                raise cannot_write(files[result.name], error) from error


EXPERIMENT: Final = Operation(
    name="experiment",
    parameters=ExperimentParameters,
    compute=experiment,
    to_json=_to_json,
    to_text=lambda result, width: experiment_text(result, width=width),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ResultsParameters:
    """The dataset, and the names of kept results."""

    dataset: Path
    names: Sequence[str] = ()
    """Empty for all of them."""


def results(source: RunSource, parameters: ResultsParameters) -> Sequence[Experiment]:
    """Return the kept results of a dataset; those made under equal conditions are one experiment.

    Raises:
        ConfigError: no result of this name was kept.
        FixtureError: the dataset is missing, or a result is damaged.
    """
    from freezeframe_replay.experiments.dataset import load_dataset
    from freezeframe_replay.experiments.results import kept_experiments, result_files

    del source
    load_dataset(parameters.dataset)
    files = {path.stem: path for path in result_files(parameters.dataset)}
    unknown = [name for name in parameters.names if name not in files]
    if unknown:
        raise ConfigError(f"{parameters.dataset}: found no result {unknown[0]!r}; kept: {', '.join(files) or 'none'}")
    return kept_experiments(parameters.dataset, [files[name] for name in parameters.names or files])


def results_text(found: Sequence[Experiment], *, width: int) -> str:
    """Return each experiment as `experiment_text` does."""
    text = "\n\n".join(experiment_text(one, width=width) for one in found)
    # a result may come with somebody else's dataset
    return "\n".join(map(printable, text.splitlines())) or "no result was kept"


RESULTS: Final = Operation(
    name="results",
    parameters=ResultsParameters,
    compute=results,
    to_json=lambda found: [_to_json(one) for one in found],
    to_text=lambda found, width: results_text(found, width=width),
)
"""`freezeframe experiment results DATASET`: the results that `--as` kept, candidate by candidate."""
