"""`freezeframe failures`: similar failures, grouped; with --replay the newest run of each group is re-enacted."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.cli import options
from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.cli.writing import write_whole
from freezeframe_replay.experiments.dataset import write_dataset
from freezeframe_replay.local.home import make_home
from freezeframe_replay.local.target import load_as_fixture
from freezeframe_replay.operations.alerts import SECRET_VARIABLE, alert_of, check_webhook, post_alert
from freezeframe_replay.operations.failures import FAILURES, FailuresParameters, failures_text
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.report.render import ID_DIGITS, counted, printable
from freezeframe_replay.sources.failures import FailureGroup
from freezeframe_schemas.errors import ConfigError, FreezeframeError, RetryableStoreError
from freezeframe_schemas.verdict import EXIT_CODES, Verdict, verdict

_NOT_REPLAYED = "no: "
_KNOWN_FILE: Final = "known_failures.json"
"""In the data directory: signatures of the groups that --watch and --post have reported."""
_MAX_WATCHED: Final = 1000
_WATCH_S: Final = 10.0
"""Interval at which --watch looks for new groups."""


COMMAND: Final = Command(
    description="Runs are grouped by the error that ended them and where; numbers and ids in the message do not count. "
    f"Handled errors of calls follow. --post signs by ${SECRET_VARIABLE} (Standard Webhooks); a Slack URL gets Slack's form.",
    examples={
        "freezeframe failures --since 1d": "what fails, in how many runs",
        "freezeframe failures --since 1d --replay": "and which failures this code still shows",
        "freezeframe failures --watch --post https://ci.example.com/hook": "an alert for each new group",
        "freezeframe failures --since 7d -o sets/failures": "one run of each, as a dataset",
    },
    exit_codes={
        0: "done; every replayed run is re-enacted",
        3: "at least one diverged",
        125: "at least one is unknown: it could not be replayed or compared",
    },
    options=(
        option("--since", type=options.seconds, metavar="AGE", help="only failures within 15m, 1h, 7d, ..."),
        option("--where", default="", metavar="SQL", help="only failures that match this condition on the view `errors`"),
        option("--limit", type=options.positive, default=20, metavar="N", help="at most N groups (default: 20)"),
        flag("--replay", "replay one run of each group"),
        option("-o", "--output", type=Path, metavar="DIR", help="write one run of each group there as a dataset"),
        flag("--watch", "print each new group of failed runs, until Ctrl-C"),
        option("--post", metavar="URL", help="post groups that are new since the last look; alone, once, for cron"),
        options.timeout(of="one replay"),
        options.QUIET,
        options.JSON,
        options.STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print the groups; with --replay, 3 if one is no longer re-enacted, 125 if one is incomparable."""
    if arguments.watch or arguments.post:
        return _watch(arguments)
    parameters = _parameters(arguments, arguments.limit)
    groups = FAILURES.execute(RunSource(options.place_of(arguments)), parameters)
    verdicts = _replay(arguments, groups) if arguments.replay else {}
    if arguments.output is not None and groups:
        _write(arguments, groups)
    if arguments.json:
        rows = FAILURES.to_json(groups)
        options.print_json([{**row, "replay": verdicts[row["newest"]]} for row in rows] if verdicts else rows)
    else:
        print(failures_text(groups, verdicts, width=options.terminal_width()))
    found = set(verdicts.values())
    worst = next((each for each in (Verdict.DIVERGED, Verdict.INCOMPARABLE) if each in found), None)
    if worst is None and any(said.startswith(_NOT_REPLAYED) for said in found):
        worst = Verdict.INCOMPARABLE
    return EXIT_CODES[worst or Verdict.IDENTICAL]


def _parameters(arguments: argparse.Namespace, limit: int) -> FailuresParameters:
    since = None if arguments.since is None else dt.datetime.now(dt.UTC) - dt.timedelta(seconds=arguments.since)
    return FailuresParameters(limit=limit, since=since, where=arguments.where)


# -- --watch and --post ---------------------------------------------------------------------------


def _watch(arguments: argparse.Namespace) -> int:
    """Report groups of failed runs that were not known at the last look; 1 if one of a single look was not posted."""
    if arguments.replay or arguments.output is not None:
        raise ConfigError("--watch and --post: take neither --replay nor --output")
    secret = os.environ.get(SECRET_VARIABLE, "").strip()
    if arguments.post:
        check_webhook(arguments.post, secret)
    source, home = RunSource(options.place_of(arguments)), options.home_of(arguments)
    make_home(home)
    file = home.directory / _KNOWN_FILE
    known = read_known(file)
    while True:
        try:
            groups = [each for each in FAILURES.execute(source, _parameters(arguments, _MAX_WATCHED)) if not each.handled]
        except RetryableStoreError as error:  # the collector is started anew, for example
            if not arguments.watch:
                raise
            print(f"freezeframe failures: {error}; trying again", file=sys.stderr)
            time.sleep(_WATCH_S)
            continue
        if known is None:
            known = {group.signature for group in groups}
            print(f"{counted(len(known), 'group')} of failed runs known so far; the next one is new", file=sys.stderr)
        failed = _report_new([each for each in groups if each.signature not in known], known, arguments, secret)
        write_whole(file, json.dumps(sorted(known)).encode(), option="--data")
        if not arguments.watch:
            return failed
        time.sleep(_WATCH_S)


def _report_new(groups: Sequence[FailureGroup], known: set[str], arguments: argparse.Namespace, secret: str) -> int:
    """Print and post groups, and add those that were taken to the known ones; return 1 if one was not."""
    failed = 0
    for group in groups:
        _print_new(group, as_json=arguments.json)
        if not arguments.post or _posted(arguments.post, group, secret):
            known.add(group.signature)
        else:
            failed = 1
    return failed


def read_known(file: Path) -> set[str] | None:
    """Return the signatures known at the last look; None before the first.

    Raises:
        ConfigError: the file is not one of these.
    """
    try:
        known: Any = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}", do="remove it; the next look begins anew") from None
    if not isinstance(known, list):
        raise ConfigError(f"{file}: found no list of groups", do="remove it; the next look begins anew")
    return {str(each) for each in known}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - JSON


def _print_new(group: FailureGroup, *, as_json: bool) -> None:
    data = alert_of(group)["data"]
    cause = f"{group.type}: {group.message}"[:200]
    where = f" in {group.frame}" if group.frame else ""
    line = f"new: {group.subject}: {cause}{where}; run {group.newest[:ID_DIGITS]}; {data['replay']}"
    print(json.dumps(alert_of(group), ensure_ascii=False) if as_json else printable(line), flush=True)


def _posted(url: str, group: FailureGroup, secret: str) -> bool:
    try:
        post_alert(url, alert_of(group), secret=secret, timestamp_s=int(time.time()))
    except RetryableStoreError as error:  # it stays unknown, so the next look posts it
        print(f"freezeframe failures: {error}", file=sys.stderr)
        return False
    return True


def _replay(arguments: argparse.Namespace, groups: Sequence[FailureGroup]) -> dict[str, str]:
    runs, verdicts = [*dict.fromkeys(group.newest for group in groups)], dict[str, str]()
    quiet = arguments.quiet or arguments.json
    with Progress(f"replaying the newest of {counted(len(runs), 'group')}", quiet=quiet) as progress:
        for done, run in enumerate(runs, 1):
            try:
                fixture = load_as_fixture(options.place_of(arguments), run)
                verdicts[run] = verdict(reenact(fixture, timeout_s=arguments.timeout)).value
            except FreezeframeError as error:  # a cold case, or a run of other code: the other groups still matter
                verdicts[run] = f"{_NOT_REPLAYED}{error.message}"
                if not quiet:
                    progress.note(f"{run[:ID_DIGITS]}  {verdicts[run]}")
            progress.step(done, len(runs), f"{run[:ID_DIGITS]}  {verdicts[run]}")
    return verdicts


def _write(arguments: argparse.Namespace, groups: Sequence[FailureGroup]) -> None:
    notes: dict[str, list[str]] = {}
    for group in groups:
        notes.setdefault(group.newest, []).append(f"{group.signature} {group.type} {group.subject}".strip())
    runs = ((load_as_fixture(options.place_of(arguments), run), "; ".join(reasons)) for run, reasons in notes.items())
    write_dataset(arguments.output, runs, chosen_by=f"one of each failure {arguments.where}".strip())
