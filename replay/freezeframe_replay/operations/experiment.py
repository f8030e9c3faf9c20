"""Replay each run of a dataset with a candidate, and list the changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.process.reenact import Trial
from freezeframe_replay.report.render import ID_DIGITS, short, table_text

if TYPE_CHECKING:
    from freezeframe_replay.experiments.experiment import ExperimentResult, Gates, Judging, OnRow, RowResult


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentParameters:
    """The dataset, the candidate, and the judge of its rows."""

    dataset: Path
    trial: Trial = dataclasses.field(default_factory=Trial)
    judging: Judging | None = None
    gates: Gates | None = None
    jobs: int = 1
    on_row: OnRow | None = None


def experiment(source: RunSource, parameters: ExperimentParameters) -> ExperimentResult:
    """Return the result.

    Raises:
        FixtureError: the dataset is missing, or a fixture of it is damaged.
        ReplayError: a judge failed.
    """
    from freezeframe_replay.experiments.dataset import load_dataset
    from freezeframe_replay.experiments.experiment import run_experiment  # with judges, which other operations do without

    return run_experiment(
        load_dataset(parameters.dataset),
        dataclasses.replace(parameters.trial, keys=parameters.trial.keys or source.keys),
        judging=parameters.judging,
        jobs=parameters.jobs,
        on_row=parameters.on_row,
        gates=parameters.gates,
    )


def result_text(result: ExperimentResult, *, width: int, everything: bool = False) -> str:
    """Return the table of rows. Equal rows are only counted; each changed row is followed by its changes."""
    counts = ", ".join(f"{count} {finding.value}" for finding, count in result.counts.items() if count) or "no rows"
    lines = [f"{counts}; candidate: {short(result.candidate, width - len(counts) - 13)}"]
    shown = [row for row in result.rows if everything or row.finding.value != "same"]
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
        rows = table_text(header, table, right=(2, 3, 4), cell_width=width, cut=(5,), width=width).splitlines()
        lines.append(f"  {rows[0]}")
        for row, text in zip(shown, rows[1:], strict=True):
            lines += [f"  {text}", *_difference(row, width)]
    for gate in result.gates:
        found = "not known" if gate.found is None else f"{gate.found:g}"
        word = "passed" if gate.passed else "not known" if gate.passed is None else "exceeded"
        lines.append(f"gate {gate.name}: {word}, {found} of {gate.limit:g}{f', {gate.note}' if gate.note else ''}")
    return "\n".join(lines)


def _difference(row: RowResult, width: int) -> Iterable[str]:
    found = row.outcome or row.first
    if found is None or row.finding.value == "same":
        return
    for mark, text in (("-", found.recorded), ("+", found.live)):
        if text is not None:
            yield short(f"      {mark} {text}", width)


def _to_json(result: ExperimentResult) -> dict[str, Any]:
    from freezeframe_replay.experiments.experiment import result_to_json

    return result_to_json(result)


EXPERIMENT: Final = Operation(
    name="experiment",
    parameters=ExperimentParameters,
    compute=experiment,
    to_json=_to_json,
    to_text=lambda result, width: result_text(result, width=width),
)
