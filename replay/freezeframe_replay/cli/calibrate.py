"""`freezeframe experiment calibrate A B [-o DIR]`: what varies by itself between two recordings of the same input."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Final

from freezeframe_replay.cli.command import Command, option
from freezeframe_replay.cli.options import JSON, STORE, TARGET_HELP, place_of, print_json
from freezeframe_replay.cli.writing import write_to
from freezeframe_replay.local.target import load_as_fixture
from freezeframe_replay.report.calibrate import Calibration, calibrate, why_incomparable
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.verdict import EXIT_CODES, Verdict

COMMAND: Final = Command(
    replay_error=EXIT_CODES[Verdict.INCOMPARABLE],
    description="Writes A as a fixture whose replay ignores those parts of the requests and counts how often that mattered. "
    "Messages, prompts and arguments are never ignored.",
    examples={
        "freezeframe experiment calibrate 4bf92f35 9c1e77d0": "show what varies",
        "freezeframe experiment calibrate 4bf92f35 9c1e77d0 -o tests/golden/order": "and write the fixture",
    },
    exit_codes={0: "compared", 125: "incomparable: the input differs, or no step could be compared"},
    options=(
        option("one", metavar="A", help=TARGET_HELP),
        option("other", metavar="B", help="another recording of the same input, named in the same way"),
        option("-o", "--output", type=Path, metavar="DIR", help="write A as a fixture there, declaring what varies"),
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print what varies, and write the fixture if asked."""
    one = load_as_fixture(place_of(arguments), arguments.one)
    found = calibrate(one, load_as_fixture(place_of(arguments), arguments.other))
    why = why_incomparable(found)
    if why is not None:
        raise ReplayError(f"incomparable: {why}; nothing was learned, nothing written")
    directory: Path | None = arguments.output
    if directory is not None:
        write_to(directory, replace(one, ignore=tuple(sorted({*one.ignore, *found.varying}))), command="experiment calibrate")
    if arguments.json:
        print_json({**dataclasses.asdict(found), "fixture": None if directory is None else str(directory)})
        return 0
    print("\n".join(_lines(found)))
    if directory is not None:
        print(f"wrote {directory}\nnext: freezeframe replay {directory}")
    return 0


def _lines(found: Calibration) -> list[str]:
    lines = [f"{found.compared} steps compared"]
    lines += [f"  varies by itself: {name}, in {steps} steps" for name, steps in found.varying.items()]
    lines += [
        f"  varies, but is part of the question and is kept: {name}, in {steps} steps" for name, steps in found.content.items()
    ]
    lines += [
        f"  differs only after an answer that differs, may follow from it, and is kept: {name}, in {steps} steps"
        for name, steps in found.following.items()
    ]
    return lines if len(lines) > 1 else [*lines, "  nothing varies"]
