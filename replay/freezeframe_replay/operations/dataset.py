"""Save a set of runs as a folder of fixtures."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.experiments.dataset import write_dataset
from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.operations.writing import bare_warning
from freezeframe_replay.report.render import counted
from freezeframe_replay.sources.passing_on import is_bare
from freezeframe_replay.sources.store import RunStore
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.lifecycle import NOT_OK

MAX_RUNS: Final = 100
"""Runs that SQL chooses, unless another number is given."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DatasetParameters:
    """The runs, chosen by name or by SQL, and the target folder."""

    output: Path
    runs: Sequence[str] = ()
    sql: str = ""
    """Runs whose ids are in the first column of this query."""
    where: str = ""
    """A condition over the view ``runs``."""
    failed: bool = False
    since: dt.datetime | None = None
    limit: int = MAX_RUNS
    on_run: Callable[[int, int, str], object] | None = None
    """Called with the number of runs read, their total, and the last one's id."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDataset:
    dataset: str
    """Its directory."""
    chosen_by: str
    runs: Sequence[str]
    warnings: Sequence[str] = ()


def write(source: RunSource, parameters: DatasetParameters) -> WrittenDataset:
    """Write the dataset.

    Raises:
        ConfigError: the runs are chosen in several ways, or in none.
        FixtureError: no run was chosen, or the directory cannot be written.
        FreezeframeError: a run cannot be read.
    """
    by_sql = parameters.where or parameters.failed or parameters.since
    if sum(map(bool, (parameters.runs, parameters.sql, by_sql))) != 1:
        raise ConfigError("choose runs in exactly one way: by name, with --sql, or with --where, --failed and --since")
    names, chosen_by = parameters.runs, " ".join(parameters.runs)
    if not names:
        names, chosen_by = source.use(lambda store: _chosen(store, parameters))
    bare: list[str] = []
    made = write_dataset(parameters.output, _fixtures(source, parameters, names, bare), chosen_by=chosen_by)
    return WrittenDataset(
        dataset=str(made.directory),
        chosen_by=made.chosen_by,
        runs=[row.run_id for row in made.rows],
        warnings=bare_warning(len(bare)),
    )


def _chosen(store: RunStore, parameters: DatasetParameters) -> tuple[Sequence[str], str]:
    """Return the ids of the runs, and one line that describes the selection."""
    if parameters.sql:
        _, rows = store.sql(parameters.sql)
        return list(dict.fromkeys(str(row[0]) for row in rows))[: parameters.limit], parameters.sql
    statuses = NOT_OK if parameters.failed else ()
    found = store.list_runs(parameters.limit, statuses=statuses, since=parameters.since, where=parameters.where)
    notes = [
        " or ".join(f"status = '{status}'" for status in statuses),
        f"since {parameters.since:%Y-%m-%d %H:%M}" if parameters.since else "",
        parameters.where,
    ]
    return [run.trace_id for run in found if run.exchanges], " and ".join(filter(None, notes))


def _fixtures(
    source: RunSource, parameters: DatasetParameters, names: Sequence[str], bare: list[str]
) -> Iterator[tuple[Fixture, str]]:
    """Yield the fixtures with a note each; the ids of unredacted ones go into `bare`."""
    for done, name in enumerate(names, 1):
        fixture = source.fixture(name)
        if parameters.on_run is not None:
            parameters.on_run(done, len(names), fixture.run_id)
        if is_bare(fixture):
            bare.append(fixture.run_id)
        yield fixture, ""


def _to_json(made: WrittenDataset) -> Mapping[str, Any]:
    return {name: getattr(made, name) for name in ("dataset", "chosen_by", "runs")}


def _to_text(made: WrittenDataset, width: int) -> str:
    del width
    return f"wrote {made.dataset}: {counted(len(made.runs), 'run')}"


DATASET: Final = Operation(name="dataset", parameters=DatasetParameters, compute=write, to_json=_to_json, to_text=_to_text)
