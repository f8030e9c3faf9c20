"""`freezeframe down`: stop what `freezeframe up` started."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from freezeframe_replay.cli.command import Command
from freezeframe_replay.cli.options import DATA, home_of
from freezeframe_replay.local import daemon

COMMAND: Final = Command(
    description="No acknowledged span is lost: all are on disk.",
    examples={
        "freezeframe down": "stop the collector and the replay service",
        "freezeframe down --data /srv/freezeframe": "the services of another data directory",
    },
    options=(DATA,),
)


def execute(arguments: argparse.Namespace) -> int:
    """Stop both processes; it is not an error if nothing runs."""
    home = home_of(arguments)
    ran = daemon.down(home, lambda line: print(line, file=sys.stderr, flush=True))
    print(f"freezeframe is down, data in {home.directory}" if ran else f"nothing is running for {home.directory}")
    return 0
