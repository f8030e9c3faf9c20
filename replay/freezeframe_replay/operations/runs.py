"""List the recorded runs, or those that contain the words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.report.render import ID_DIGITS, WIDE, counted, duration, moment, short, table_text
from freezeframe_replay.report.tagged import input_text
from freezeframe_replay.sources.run_list import RunPage, RunQuery, find_runs, list_runs
from freezeframe_replay.sources.store import RunRow
from freezeframe_schemas.lifecycle import RunStatus

MAX_RUNS: Final = 20
"""Runs that are listed unless another number is given."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunsParameters:
    query: RunQuery
    counted: bool = False
    """True to count the matches, which reads all of them."""


def runs(source: RunSource, parameters: RunsParameters) -> RunPage:
    """Return a page of runs.

    Raises:
        ConfigError: the runs are in another backend, which has no such list.
        RunError: the run to continue after does not exist.
        StoreError: the store does not answer.
    """
    query = parameters.query
    if query.after:
        query = dataclasses.replace(query, after=source.use(lambda store: store.find(query.after)))
    return source.use(lambda store: find_runs(store, query) if parameters.counted else list_runs(store, query))


def _to_json(page: RunPage) -> Any:
    return [dataclasses.asdict(row) for row in page.rows]


RUNS: Final = Operation(
    name="runs",
    parameters=RunsParameters,
    compute=runs,
    to_json=_to_json,
    to_text=lambda page, width: runs_text(page, width=width),
)


# -- A list of runs as text: a table, and below a run the matching words and its first error. Pure ---------------------


_HEADER: Final = ("run", "started", "entry", "input", "steps", "tokens", "time", "status")


def runs_text(page: RunPage, *, width: int) -> str:
    """Return the runs as a table; empty without runs."""
    narrow = width < WIDE
    rows = [_cells(row, narrow=narrow) for row in page.rows]
    titles, right = _HEADER, (4, 5, 6)
    if narrow:
        titles, *rows = [(*row[:5], *row[6:]) for row in (titles, *rows)]
        right = (4, 5)
    table = table_text(titles, rows, right=right, cell_width=60, cut=(3, 2, 5, 6), width=width)
    first, *lines = table.splitlines()
    shown = [first] if rows else []
    for line, row in zip(lines, page.rows, strict=True):
        shown += [line, *_below(page, row, width)]
    return "\n".join(shown)


def _cells(row: RunRow, *, narrow: bool) -> tuple[str, ...]:
    status = RunStatus(row.status)
    failed = row.errors - (status is RunStatus.FAILED)  # the entry point is not a step
    return (
        row.trace_id[:ID_DIGITS],
        moment(row.start_time)[5:16] if narrow else moment(row.start_time),
        short(row.name, 12) if narrow else row.name,
        input_text(row.input),
        str(row.steps),
        _tokens(row),
        duration(row.ms),
        status.word if narrow or failed < 1 else f"{status.word}, {counted(failed, 'failed step')}",
    )


def _tokens(row: RunRow) -> str:
    if row.input_tokens or row.output_tokens:
        return f"{row.input_tokens:,} > {row.output_tokens:,}"
    return "unknown" if row.model_calls else ""


def _below(page: RunPage, row: RunRow, width: int) -> Iterator[str]:
    if row.trace_id in page.snippets:
        yield short(f"  found: {page.snippets[row.trace_id]}", width)
    if row.first_error:
        yield short(f"  error: {row.first_error}", width)
