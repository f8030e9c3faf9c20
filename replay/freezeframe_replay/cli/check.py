"""`freezeframe doctor check APP`: what in a program's source a replay could not repeat."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Final

from freezeframe_replay.cli.command import Command, option
from freezeframe_replay.cli.options import JSON, print_json
from freezeframe_replay.local.source_check import SourceFinding, check_source
from freezeframe_replay.report.render import counted, printable
from freezeframe_schemas.errors import ConfigError

FOUND: Final = 3
COMMAND: Final = Command(
    description="Nothing of the program is imported or run. Each finding has its line, the kind of gap that a recording would "
    "name, and the remedy. A call that the source does not show, as on an argument without a type, is left to the recording.",
    examples={
        "freezeframe doctor check agent.py": "a program, and the files that it imports",
        "freezeframe doctor check src": "all files of a folder",
        "freezeframe doctor check src --json": "for a script",
    },
    exit_codes={0: "nothing found", FOUND: "found something, or could not read a file"},
    options=(option("paths", nargs="+", type=Path, metavar="APP", help="file or folder of the program"), JSON),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print the findings."""
    if missing := [path for path in arguments.paths if not path.exists()]:
        raise ConfigError(f"{missing[0]}: no such file or folder")
    report = check_source(arguments.paths)
    if arguments.json:
        print_json(dataclasses.asdict(report))
    else:
        for each in report.findings:
            _print(each)
        for path in report.unread:
            print(f"{path}: not read, since it is not source code for this Python")
        print(f"{counted(len(report.findings), 'finding')} in {counted(report.files, 'file')}; nothing of the program was run")
    return FOUND if report.findings or report.unread else 0


def _print(found: SourceFinding) -> None:
    print(f"{found.file}:{found.line}: {found.kind.value}: {printable(found.text)}")
    print(f"  do: {printable(found.do)}")
