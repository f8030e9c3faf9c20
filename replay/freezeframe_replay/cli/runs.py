"""`freezeframe runs [TEXT]`: the recorded runs, newest first, or those in which words are found."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import json
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Final

from freezeframe._delivery_report import waiting_batches
from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import JSON, STORE, place_of, positive, print_json, seconds, terminal_width
from freezeframe_replay.local.target import list_elsewhere
from freezeframe_replay.operations.runs import MAX_RUNS, RUNS, RunsParameters
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.report.render import duration, moment, table_text
from freezeframe_replay.report.tagged import input_text
from freezeframe_replay.sources.run_list import RunPage, RunQuery
from freezeframe_replay.sources.store import json_form
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.tables.run_list import NOT_OK, STATUSES

_FOLLOW_S: Final = 2.0
"""Interval at which --follow checks for new runs."""
_FILTERS: Final = ("text", "failed", "status", "entry", "service", "session", "since", "follow")

COMMAND: Final = Command(
    description="TEXT is looked for in inputs, outcomes, errors and payloads, as the words that follow each other there.",
    examples={
        "freezeframe runs": "the last 20",
        'freezeframe runs "late order"': "those in which these words are found, and where",
        "freezeframe runs --failed --since 1h": "runs of the last hour that failed or never finished",
        "freezeframe runs --status failed --entry answer": "of one entry point",
        "freezeframe runs --session chat-81": "the turns of a conversation",
        "freezeframe runs --follow": "and each run that begins or ends from now on",
        "freezeframe runs --limit 200 --json": "one JSON array",
    },
    options=(
        option("text", nargs="?", default="", metavar="TEXT", help="only runs in which these words are found"),
        flag("--failed", "only runs that failed or never finished"),
        option(
            "--status",
            choices=[name for name in STATUSES if name not in ("", NOT_OK)],
            help="only runs with this status; partly: ok, and a step of it failed; ok: without one",
        ),
        option("--entry", metavar="NAME", help="only runs of this entry point"),
        option("--service", metavar="NAME", help="only runs of this service"),
        option("--session", default="", metavar="ID", help="only runs of this conversation"),
        option("--since", type=seconds, metavar="AGE", help="only runs started within 15m, 1h, 7d, ..."),
        option("--limit", type=positive, default=MAX_RUNS, metavar="N", help=f"at most N runs (default: {MAX_RUNS})"),
        flag("--follow", "list the newest last, then print each run that begins or ends, until Ctrl-C"),
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print the list."""
    elsewhere = _elsewhere(arguments)
    if elsewhere is not None:
        return elsewhere
    if arguments.failed and arguments.status:
        raise ConfigError("--failed and --status: expected one of them")
    source, parameters = RunSource(place_of(arguments)), RunsParameters(query=_query(arguments))
    page = RUNS.execute(source, parameters)
    if arguments.follow:
        for changed in changes(_pages(page, source, parameters)):
            _print_change(changed, as_json=arguments.json)
    elif arguments.json:
        print_json(RUNS.to_json(page))
    elif page.rows:
        print(RUNS.to_text(page, terminal_width()))
    elif any(getattr(arguments, name) for name in _FILTERS):
        print("no run matches; `freezeframe runs` lists all")
    else:
        print("no runs; record one with `freezeframe run -- python your_agent.py`")
    if not (arguments.json or arguments.store or arguments.data) and (waiting := waiting_batches()):
        print(f"note: batches of spans that wait to be delivered: {waiting}; send them: freezeframe run drain", file=sys.stderr)
    return 0


def _query(arguments: argparse.Namespace) -> RunQuery:
    since = None if arguments.since is None else dt.datetime.now(dt.UTC) - dt.timedelta(seconds=arguments.since)
    return RunQuery(
        words=arguments.text.strip(),
        chosen={name: getattr(arguments, name) or "" for name in ("entry", "service")},
        session=arguments.session,
        status=arguments.status or (NOT_OK if arguments.failed else ""),
        since=since,
        size=arguments.limit,
    )


# -- --follow -------------------------------------------------------------------------------------


def _pages(first: RunPage, source: RunSource, parameters: RunsParameters) -> Iterator[RunPage]:
    yield first
    while True:
        time.sleep(_FOLLOW_S)
        yield RUNS.execute(source, parameters)


def changes(pages: Iterable[RunPage]) -> Iterator[RunPage]:
    """Yield of each page the runs that were not listed before, or with another status, the newest last."""
    seen: dict[str, str] = {}
    for page in pages:
        changed = [row for row in reversed(page.rows) if seen.get(row.trace_id) != row.status]
        seen |= {row.trace_id: row.status for row in changed}
        if changed:
            yield dataclasses.replace(page, rows=changed)


def _print_change(page: RunPage, *, as_json: bool) -> None:
    lines = RUNS.to_text(page, terminal_width()).splitlines()[1:]
    if as_json:
        lines = [json.dumps(row, ensure_ascii=False, default=json_form) for row in RUNS.to_json(page)]
    print("\n".join(lines), flush=True)


# -- other backends -------------------------------------------------------------------------------


def _elsewhere(arguments: argparse.Namespace) -> int | None:
    """Print the list of another backend; None if the runs are in our own store.

    Raises:
        ConfigError: it lists no runs, or a filter was given.
    """
    found = list_elsewhere(place_of(arguments), arguments.limit)
    if found is None:
        return None
    if given := [name for name in _FILTERS if getattr(arguments, name)]:
        what = "TEXT" if given[0] == "text" else f"--{given[0]}"
        raise ConfigError(f"{what}: requires freezeframe's own tables", do="leave it out, or import the runs")
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
