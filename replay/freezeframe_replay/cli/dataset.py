"""`freezeframe experiment dataset [RUN...] -o DIR`: runs chosen by name or by SQL, as a folder of fixtures."""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import JSON, QUIET, STORE, place_of, positive, print_json, seconds
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.cli.writing import warn_of_bare
from freezeframe_replay.experiments.dataset import write_dataset
from freezeframe_replay.local.target import load_as_fixture, open_store
from freezeframe_replay.report.render import counted
from freezeframe_replay.sources.passing_on import is_bare
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.lifecycle import NOT_OK

COMMAND: Final = Command(
    description="Runs are chosen by name or by SQL. The manifest pins each fixture by its digest. The folder needs no store and"
    " can be committed.",
    examples={
        "freezeframe experiment dataset 4bf92f35 9c1e77d0 -o sets/refunds": "these runs",
        """freezeframe experiment dataset --where "name = 'answer'" --since 7d -o sets/week""": "by a condition over `runs`",
        """freezeframe experiment dataset --sql "SELECT trace_id FROM tool_calls WHERE tool = 'refund'" -o sets/a""": "a query",
    },
    options=(
        option("runs", nargs="*", metavar="RUN", help="runs or fixtures by name, as `freezeframe replay` takes them"),
        option("-o", "--output", type=Path, required=True, metavar="DIR", help="directory of the dataset"),
        option("--where", metavar="SQL", help="runs that match this condition on the view `runs`, newest first"),
        option("--sql", metavar="QUERY", help="runs whose ids are in the first column of this query"),
        flag("--failed", "only runs that failed or never finished (with --where or alone)"),
        option("--since", type=seconds, metavar="AGE", help="only runs started within 15m, 1h, 7d, ..."),
        option("--limit", type=positive, default=100, metavar="N", help="at most N runs by SQL (default: 100)"),
        QUIET,
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Write the dataset and print the next command."""
    names, chosen_by = _choose(arguments)
    bare: list[str] = []
    with Progress(f"reading the first of {counted(len(names), 'run')}", quiet=arguments.quiet or arguments.json) as progress:
        made = write_dataset(arguments.output, _fixtures(arguments, names, progress, bare), chosen_by=chosen_by)
    warn_of_bare(len(bare), command="experiment dataset")
    if arguments.json:
        print_json({"dataset": str(made.directory), "chosen_by": made.chosen_by, "runs": [row.run_id for row in made.rows]})
    else:
        print(f"wrote {made.directory}: {counted(len(made.rows), 'run')}\nnext: freezeframe experiment {made.directory}")
    return 0


def _choose(arguments: argparse.Namespace) -> tuple[Sequence[str], str]:
    """Return the names of the runs, and how they were chosen, in one line."""
    by_sql = [name for name in ("where", "failed", "since") if getattr(arguments, name)]
    if sum(map(bool, (arguments.runs, arguments.sql, by_sql))) != 1:
        raise ConfigError("choose runs in exactly one way: by name, with --sql, or with --where, --failed and --since")
    if arguments.runs:
        return arguments.runs, " ".join(arguments.runs)
    store = open_store(place_of(arguments))
    if arguments.sql:
        _, rows = store.sql(arguments.sql)
        return list(dict.fromkeys(str(row[0]) for row in rows))[: arguments.limit], arguments.sql
    since = None if arguments.since is None else dt.datetime.now(dt.UTC) - dt.timedelta(seconds=arguments.since)
    statuses = NOT_OK if arguments.failed else ()
    found = store.list_runs(arguments.limit, statuses=statuses, since=since, where=arguments.where or "")
    notes = [
        " or ".join(f"status = '{status}'" for status in statuses),
        f"since {since:%Y-%m-%d %H:%M}" if since else "",
        arguments.where or "",
    ]
    return [run.trace_id for run in found if run.exchanges], " and ".join(filter(None, notes))


def _fixtures(
    arguments: argparse.Namespace, names: Sequence[str], progress: Progress, bare: list[str]
) -> Iterator[tuple[Fixture, str]]:
    """Yield the fixtures with a note each; the ids of unredacted ones go into `bare`."""
    for done, name in enumerate(names, 1):
        fixture = load_as_fixture(place_of(arguments), name)
        progress.step(done, len(names), fixture.run_id)
        if is_bare(fixture):
            bare.append(fixture.run_id)
        yield fixture, ""
