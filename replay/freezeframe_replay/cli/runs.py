"""`freezeframe runs`: the recorded runs, newest first."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import sys
from collections.abc import Sequence
from typing import Final

from freezeframe._delivery_report import waiting_batches
from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import JSON, STORE, place_of, positive, print_json, seconds, terminal_width
from freezeframe_replay.local.target import list_elsewhere, open_store
from freezeframe_replay.report.render import ID_DIGITS, WIDE, duration, moment, short, table_text
from freezeframe_replay.report.tagged import input_text
from freezeframe_replay.sources.store import RunRow
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.lifecycle import NOT_OK, RunStatus

_STATUSES: Final = {status.word: status for status in RunStatus}
_EQUAL: Final = {"entry": "name", "service": "service"}
"""An option -> the column of the view `runs` that has its value."""
COMMAND: Final = Command(
    examples={
        "freezeframe runs": "the last 20",
        "freezeframe runs --failed --since 1h": "runs of the last hour that failed or never finished",
        "freezeframe runs --status failed --entry answer": "of one entry point",
        "freezeframe runs --session chat-81": "the turns of a conversation",
        "freezeframe runs --limit 200 --json": "one JSON array",
    },
    options=(
        flag("--failed", "only runs that failed or never finished"),
        option("--status", choices=list(_STATUSES), help="only runs with this status, as the list shows it"),
        option("--entry", metavar="NAME", help="only runs of this entry point"),
        option("--service", metavar="NAME", help="only runs of this service"),
        option("--session", metavar="ID", help="only runs of this conversation"),
        option("--since", type=seconds, metavar="AGE", help="only runs started within 15m, 1h, 7d, ..."),
        option("--limit", type=positive, default=20, metavar="N", help="at most N runs (default: 20)"),
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print the list."""
    elsewhere = _elsewhere(arguments)
    if elsewhere is not None:
        return elsewhere
    since = None if arguments.since is None else dt.datetime.now(dt.UTC) - dt.timedelta(seconds=arguments.since)
    chosen = {name: getattr(arguments, name) for name in _EQUAL if getattr(arguments, name)}
    if arguments.failed and arguments.status:
        raise ConfigError("--failed and --status: expected one of them")
    runs = open_store(place_of(arguments)).list_runs(
        arguments.limit,
        statuses=(_STATUSES[arguments.status],) if arguments.status else NOT_OK if arguments.failed else (),
        session=arguments.session,
        since=since,
        where=" AND ".join(f"{_EQUAL[name]} = {{{name}:String}}" for name in chosen),
        parameters=chosen,
    )
    if arguments.json:
        print_json([dataclasses.asdict(run) for run in runs])
    elif runs:
        print(_table(runs))
    else:
        print("no runs; record one with `freezeframe run -- python your_agent.py`")
    if not (arguments.json or arguments.store or arguments.data) and (waiting := waiting_batches()):
        print(f"note: batches of spans that wait to be delivered: {waiting}; send them: freezeframe run drain", file=sys.stderr)
    return 0


def _elsewhere(arguments: argparse.Namespace) -> int | None:
    """Print what another backend lists; None if the runs are in our own store.

    Raises:
        ConfigError: it lists no runs, or a filter was given.
    """
    place = place_of(arguments)
    filters = [name for name in ("failed", "status", "entry", "service", "session", "since") if getattr(arguments, name)]
    found = list_elsewhere(place, arguments.limit)
    if found is None:
        return None
    if filters:
        raise ConfigError(f"--{filters[0]}: requires freezeframe's own tables", do="leave it out, or import the runs")
    if arguments.json:
        print_json([dataclasses.asdict(run) for run in found])
        return 0
    header = ("run", "started", "entry", "input", "time", "status")
    rows = [
        (
            run.trace_id,
            moment(dt.datetime.fromtimestamp(run.start_time_unix_nano / 1e9, dt.UTC)),
            run.name,
            input_text(run.input),
            duration(run.ms),
            (RunStatus.FAILED if run.failed else RunStatus.OK).word,
        )
        for run in found
    ]
    print(table_text(header, rows, right=(4,), cell_width=60, cut=(3, 2, 4), width=terminal_width()) if rows else "no runs")
    return 0


def _table(runs: Sequence[RunRow]) -> str:
    width = terminal_width()
    narrow = width < WIDE
    header = ("run", "started", "entry", "input", "steps", "tokens", "time", "status")
    rows = [
        (
            run.trace_id[:ID_DIGITS],
            moment(run.start_time)[5:16] if narrow else moment(run.start_time),
            short(run.name, 12) if narrow else run.name,
            input_text(run.input),
            str(run.steps),
            f"{run.input_tokens:,} > {run.output_tokens:,}",
            duration(run.ms),
            RunStatus(run.status).word,
        )
        for run in runs
    ]
    if narrow:
        header, *rows = [(*row[:5], *row[6:]) for row in (header, *rows)]
    return table_text(header, rows, right=(4, 5) if narrow else (4, 5, 6), cell_width=60, cut=(3, 2, 5, 6), width=width)
