"""`freezeframe failures`: similar failures, grouped; with --replay the newest run of each group is re-enacted."""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from freezeframe_replay.cli import options
from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.experiments.dataset import write_dataset
from freezeframe_replay.local.target import load_as_fixture
from freezeframe_replay.operations.failures import FAILURES, FailuresParameters, failures_text
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.report.render import ID_DIGITS, counted
from freezeframe_replay.sources.failures import FailureGroup
from freezeframe_schemas.errors import FreezeframeError
from freezeframe_schemas.verdict import EXIT_CODES, Verdict, verdict

_NOT_REPLAYED = "no: "


COMMAND: Final = Command(
    description="Runs are grouped by the error that ended them and where; numbers and ids in the message do not count. "
    "Handled errors of calls follow.",
    examples={
        "freezeframe failures --since 1d": "what fails, in how many runs",
        "freezeframe failures --since 1d --replay": "and which failures this code still shows",
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
        options.timeout(of="one replay"),
        options.QUIET,
        options.JSON,
        options.STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print the groups; with --replay, 3 if one is no longer re-enacted, 125 if one is incomparable."""
    since = None if arguments.since is None else dt.datetime.now(dt.UTC) - dt.timedelta(seconds=arguments.since)
    parameters = FailuresParameters(limit=arguments.limit, since=since, where=arguments.where)
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
