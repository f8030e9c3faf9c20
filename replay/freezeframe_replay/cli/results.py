"""`freezeframe experiment results DATASET`: the results that experiments kept, candidate by candidate."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from freezeframe_replay.cli.command import Command, option
from freezeframe_replay.cli.options import JSON, print_json, terminal_width
from freezeframe_replay.local.target import RunsPlace
from freezeframe_replay.operations.experiment import RESULTS, ResultsParameters
from freezeframe_replay.operations.source import RunSource

COMMAND: Final = Command(
    description="Results are kept by `freezeframe experiment DATASET --as NAME`. Of several, the runs are one table, with"
    " what each candidate fixes and breaks; name one to see its changes. Nothing is run.",
    examples={
        "freezeframe experiment results sets/week": "all candidates, run by run",
        "freezeframe experiment results sets/week shorter-prompt": "one, with what it changed",
    },
    options=(
        option("dataset", type=Path, metavar="DATASET", help="directory of the dataset"),
        option("names", nargs="*", metavar="NAME", help="only these results"),
        JSON,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print the results."""
    found = RESULTS.execute(RunSource(RunsPlace()), ResultsParameters(dataset=arguments.dataset, names=arguments.names))
    if arguments.json:
        print_json(RESULTS.to_json(found))
    else:
        print(RESULTS.to_text(found, terminal_width()))
    return 0
