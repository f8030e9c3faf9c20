"""`freezeframe runs label RUN LABEL`: a verdict by hand on a run or on one of its steps."""

from __future__ import annotations

import argparse
import os
from typing import Final

from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import STORE, home_of, place_of, positive
from freezeframe_replay.local.home import STORE_VARIABLE
from freezeframe_replay.operations.labelling import keep_label
from freezeframe_replay.operations.source import RunSource
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.fixture import Fixture

COMMAND: Final = Command(
    description="Label and note are redacted like the run, and replace earlier ones. They are rows of the view `scores`, "
    "and the pages show them.",
    examples={
        "freezeframe runs label last bad": "the run as a whole",
        'freezeframe runs label 4bf92f35 bad --step 2 --note "the wrong order"': "a step, with a reason",
        "freezeframe runs label 4bf92f35 late-order": "a word of your own",
        "freezeframe runs label 4bf92f35 --remove": "remove label and note",
        "freezeframe sql \"SELECT * FROM scores WHERE label = 'bad'\"": "find them",
    },
    options=(
        option("run", metavar="RUN", help="id of a run, its first digits, `last` or `last-failed`"),
        option("label", nargs="?", default="", metavar="LABEL", help="good, bad, or one word of your own"),
        option("--step", type=positive, metavar="N", help="label this step (default: the run as a whole)"),
        option("--note", default="", metavar="TEXT", help="a text, such as the reason"),
        flag("--remove", "remove label and note"),
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Store the label."""
    if bool(arguments.label or arguments.note) == arguments.remove:
        raise ConfigError("runs label: expected a LABEL, a --note, or --remove, which takes neither")
    run = RunSource(place_of(arguments)).load(arguments.run)
    if isinstance(run, Fixture):
        raise ConfigError(f"{arguments.run}: is a fixture; labels are kept in a store", do="name a stored run")
    store: str = arguments.store or os.environ.get(STORE_VARIABLE, "").strip()
    keep_label(run, arguments.step, arguments.label, arguments.note, home=home_of(arguments), store=store)
    what = f"run {run.trace_id}" + (f", step {arguments.step}" if arguments.step else "")
    print(f"{what}: {'label removed' if arguments.remove else arguments.label or 'note kept'}")
    return 0
