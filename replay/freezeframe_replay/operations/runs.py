"""List the recorded runs, or those that contain the words."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.report.runs_text import runs_text
from freezeframe_replay.sources.run_list import RunPage, RunQuery, find_runs, list_runs

MAX_RUNS: Final = 20
"""Runs that are listed unless another number is given."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunsParameters:
    """Selection of runs."""

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
