"""`freezeframe logs [SERVICE]`: the logs of the services that `freezeframe up` started."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import DATA, home_of, positive
from freezeframe_replay.local.daemon import NAMES, log_file
from freezeframe_replay.report.render import printable
from freezeframe_schemas.errors import ConfigError

_FOLLOW_S: Final = 0.5
"""Interval at which --follow checks for new lines."""
_TAIL_BYTES: Final = 1 << 20
"""Bytes at the end of a log that are searched for its last lines."""

COMMAND: Final = Command(
    examples={
        "freezeframe logs": "the last 20 lines of each service",
        "freezeframe logs collector --follow": "and new lines as they come, until Ctrl-C",
        "freezeframe logs replay --lines 200": "more of the replay service's",
    },
    options=(
        option("service", nargs="?", choices=NAMES, help="only this service"),
        flag("--follow", "then print each line that is logged, until Ctrl-C"),
        option("-n", "--lines", type=positive, default=20, metavar="N", help="last lines of each (default: 20)"),
        DATA,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print the lines, each with its service."""
    home = home_of(arguments)
    files = {name: log_file(home, name) for name in NAMES if arguments.service in (None, name)}
    if not any(file.exists() for file in files.values()):
        raise ConfigError(f"no logs: nothing was started for {home.directory}", do="start it with `freezeframe up`")
    tails = {name: Tail(file) for name, file in files.items()}
    _print({name: tail.last(arguments.lines) for name, tail in tails.items()})
    while arguments.follow:
        time.sleep(_FOLLOW_S)
        _print({name: tail.new() for name, tail in tails.items()})
    return 0


def _print(lines: Mapping[str, Iterator[str]]) -> None:
    for name, of_service in lines.items():
        for line in of_service:
            print(f"{name:<9} | {printable(line)}", flush=True)


class Tail:
    """The end of a file that grows."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._at = 0
        self._rest = b""

    def last(self, number: int) -> Iterator[str]:
        """Yield its last lines."""
        size = self._file.stat().st_size if self._file.exists() else 0
        self._at = max(0, size - _TAIL_BYTES)
        yield from [*self.new()][-number:]

    def new(self) -> Iterator[str]:
        """Yield the lines that are complete since the last call; of a file that was replaced, all."""
        try:
            with self._file.open("rb") as opened:
                if os.fstat(opened.fileno()).st_size < self._at:
                    self._at, self._rest = 0, b""
                opened.seek(self._at)
                read = opened.read()
        except FileNotFoundError:
            return
        self._at += len(read)
        *lines, self._rest = (self._rest + read).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
