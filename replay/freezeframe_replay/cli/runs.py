"""`freezeframe runs`: the recorded runs, newest first."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from freezeframe_replay.cli.options import add_data, add_json, home_of, positive, print_json, seconds
from freezeframe_replay.cli.target import open_store
from freezeframe_replay.render import duration, table_text, when

if TYPE_CHECKING:
    from freezeframe_replay.store import RunSummary

_ID_DIGITS = 12
"""Enough to name a run among millions; any longer prefix works too."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--failed", action="store_true", help="only runs that ended in an error")
    parser.add_argument("--since", type=seconds, metavar="AGE", help="only runs started within 15m, 1h, 7d, ...")
    parser.add_argument("--limit", type=positive, default=20, metavar="N", help="at most N runs (default: 20)")
    add_json(parser)
    add_data(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the list."""
    since_ns = None if arguments.since is None else time.time_ns() - int(arguments.since * 1e9)
    store = open_store(home_of(arguments))
    runs = store.list_runs(failed=arguments.failed, since_unix_nano=since_ns, limit=arguments.limit)
    if arguments.json:
        print_json([dataclasses.asdict(run) for run in runs])
    elif runs:
        print(_table(runs))
    else:
        print("no runs; record one with `freezeframe run -- python your_agent.py`")
    return 0


def _table(runs: Sequence[RunSummary]) -> str:
    header = ("run", "started", "entry", "input", "steps", "tokens", "time", "status")
    rows = [
        (
            run.trace_id[:_ID_DIGITS],
            when(run.start_time_unix_nano),
            run.entry_target or run.name,
            run.input,
            str(run.exchanges),
            f"{run.input_tokens:,} > {run.output_tokens:,}",
            duration(run.ms),
            run.status,
        )
        for run in runs
    ]
    return table_text(header, rows, right=(4, 5, 6), width=40)
