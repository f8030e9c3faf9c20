"""`freezeframe experiment dataset [RUN...] -o DIR`: runs chosen by name or by SQL, as a folder of fixtures."""

from __future__ import annotations

import argparse
import datetime as dt
from pathlib import Path
from typing import Final

from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import JSON, QUIET, STORE, place_of, positive, print_json, seconds, terminal_width
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.cli.writing import warn
from freezeframe_replay.operations.dataset import DATASET, MAX_RUNS, DatasetParameters
from freezeframe_replay.operations.source import RunSource

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
        option("--where", default="", metavar="SQL", help="runs that match this condition on the view `runs`, newest first"),
        option("--sql", default="", metavar="QUERY", help="runs whose ids are in the first column of this query"),
        flag("--failed", "only runs that failed or never finished (with --where or alone)"),
        option("--since", type=seconds, metavar="AGE", help="only runs started within 15m, 1h, 7d, ..."),
        option("--limit", type=positive, default=MAX_RUNS, metavar="N", help=f"at most N runs by SQL (default: {MAX_RUNS})"),
        QUIET,
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Write the dataset and print the next command."""
    since = None if arguments.since is None else dt.datetime.now(dt.UTC) - dt.timedelta(seconds=arguments.since)
    with Progress("reading the first run", quiet=arguments.quiet or arguments.json) as progress:
        parameters = DatasetParameters(
            output=arguments.output,
            runs=arguments.runs,
            sql=arguments.sql,
            where=arguments.where,
            failed=arguments.failed,
            since=since,
            limit=arguments.limit,
            on_run=progress.step,
        )
        made = DATASET.execute(RunSource(place_of(arguments)), parameters)
    warn("experiment dataset", made.warnings)
    if arguments.json:
        print_json(DATASET.to_json(made))
    else:
        print(f"{DATASET.to_text(made, terminal_width())}\nnext: freezeframe experiment {made.dataset}")
    return 0
