"""`freezeframe diff A B`: two runs side by side, the first difference, and the changes in each step."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Final

from freezeframe_replay.cli.colour import show
from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import JSON, STORE, TARGET_HELP, place_of, print_json, terminal_width
from freezeframe_replay.cli.writing import write_whole
from freezeframe_replay.operations.diff import DIFF, DiffParameters, comparison_text
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.report.align import Comparison
from freezeframe_schemas.verdict import EXIT_CODES, Verdict

ALIKE: Final = 0
DIFFERENT: Final = 3


COMMAND: Final = Command(
    description="Steps are paired by their request, in each task or thread in order, then by kind and name. Time and "
    "tokens are shown but do not count as differences. Values that vary by themselves, such as the "
    "ids of calls, are counted apart: other runs of the entry point show which.",
    examples={
        "freezeframe diff 4bf92f35 9c1e77d0": "two runs in the store",
        "freezeframe diff tests/regressions/late-order last": "a fixture and the newest run",
        "freezeframe diff before.jsonl after.jsonl --all --json": "for a script",
        "freezeframe diff last 4bf92f35 --html diff.html": "a self-contained page, to keep or to send",
    },
    exit_codes={
        0: "alike; anything that neither run recorded is named",
        3: "different",
        125: "incomparable: neither run recorded calls, input or outcome",
    },
    options=(
        option("before", metavar="A", help=TARGET_HELP),
        option("after", metavar="B", help="the other run, named in the same way"),
        flag("--all", "also show the steps that are the same"),
        option("--html", type=Path, metavar="FILE", help="write a self-contained page to this file"),
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print the comparison; 3 if the runs differ."""
    source = RunSource(place_of(arguments))
    parameters = DiffParameters(before=arguments.before, after=arguments.after)
    found = DIFF.execute(source, parameters)
    if arguments.html is not None:
        _write_page(arguments.html, DIFF.execute(source, dataclasses.replace(parameters, whole=True)))
    if arguments.json:
        print_json(DIFF.to_json(found))
    else:
        show(comparison_text(found, width=terminal_width(), everything=arguments.all))
    if not found.compared:
        return EXIT_CODES[Verdict.INCOMPARABLE]
    return ALIKE if found.alike else DIFFERENT


def _write_page(path: Path, found: Comparison) -> None:
    from freezeframe_replay.web.comparison import comparison_page

    write_whole(path, comparison_page(found, alone=True).encode("utf-8", "replace"), option="--html")
