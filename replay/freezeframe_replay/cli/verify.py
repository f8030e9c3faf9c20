"""`freezeframe fixture verify RUN_OR_FIXTURE...`: check that recordings are whole and unedited.

Keys that another version made differently are reported, but are not a fault: every comparison computes keys again.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import JSON, STORE, TARGET_HELP, place_of, print_json
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.engine.freeze import freeze, keyed_anew
from freezeframe_replay.local.target import load_target
from freezeframe_replay.report.render import counted, printable
from freezeframe_replay.sources.passing_on import policies_of, refuse_bare
from freezeframe_schemas.errors import FreezeframeError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import EXIT_CODES, Verdict, why_nothing_to_check

COMMAND: Final = Command(
    examples={
        "freezeframe fixture verify tests/regressions/late-order": "version, digest, every blob",
        "freezeframe fixture verify tests/regressions/*": "several",
        "freezeframe fixture verify last": "a run in the store: the hash of every stored piece",
        "freezeframe fixture verify --redacted bug.ffz": "also refuse what was never redacted, as before a commit",
    },
    exit_codes={
        0: "all are whole",
        1: "at least one is damaged, lacks something, or was never redacted (--redacted)",
        125: "at least one holds nothing to check: no calls, no input, no outcome",
    },
    options=(
        option("runs", nargs="+", metavar="RUN_OR_FIXTURE", help=TARGET_HELP),
        flag("--redacted", "a recording that went through no policy, or through the one that redacts nothing, is a fault"),
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Check each recording; 1 if one is damaged or lacks something, 125 if one holds nothing to check."""
    results: list[CheckedRecording] = []
    with Progress("", quiet=arguments.json) as progress:
        for name in arguments.runs:
            progress.say(f"checking {name}")
            results.append(_check(arguments, name))
    if arguments.json:
        print_json([dataclasses.asdict(result) for result in results])
    else:
        for result in results:
            for fault in result.faults:
                print(f"freezeframe fixture verify: {fault}", file=sys.stderr)
            if result.empty:
                print(f"freezeframe fixture verify: {result.name}: {result.empty}", file=sys.stderr)
            elif not result.faults:
                print("\n".join(_lines(result)))
    if any(result.faults or result.lacks for result in results):
        return 1
    return EXIT_CODES[Verdict.INCOMPARABLE] if any(result.empty for result in results) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRecording:
    """The findings about one recording."""

    name: str
    run: str | None = None
    steps: int = 0
    keyed_otherwise: int = 0
    """Steps whose key differs from the one that this version makes."""
    forked_from: str = ""
    """The run that it is a fork of: its changes were made on purpose."""
    faults: tuple[str, ...] = ()
    unsealed: bool = False
    """It has no digest or hash that would reveal an edit."""
    lacks: tuple[str, ...] = ()
    """Known gaps of the recording: it is unchanged since it was written, but not whole."""
    empty: str = ""
    """Reason why there is nothing to check, if so."""


def _lines(result: CheckedRecording) -> Iterable[str]:
    notes = [
        f"{counted(result.steps, 'step')} of run {result.run}" if result.steps else f"run {result.run}, which made no calls"
    ]
    if result.forked_from:
        notes.append(f"a fork of run {result.forked_from}")
    if result.keyed_otherwise:
        notes.append(f"{result.keyed_otherwise} with keys of another version, which makes no difference")
    state = "whole, except edits (a file of spans has no digest that shows them)" if result.unsealed else "whole"
    if result.lacks:
        state = "not whole" if result.unsealed else "as written, but not whole"
    yield f"{result.name}: {state}, {'; '.join(notes)}"
    yield from (f"  lacks: {printable(gap)}" for gap in result.lacks)


def _check(arguments: argparse.Namespace, name: str) -> CheckedRecording:
    try:
        # for a fixture: version, digest over every step, hash of every blob; for a run: hash of every stored piece
        found = load_target(place_of(arguments), name)
        fixture = found if isinstance(found, Fixture) else freeze(found)
        if arguments.redacted:
            policies = {fixture.redaction.policy} | (set() if isinstance(found, Fixture) else policies_of(found.spans))
            refuse_bare(fixture.run_id, policies, made=name, anyway="leave --redacted out")
    except FreezeframeError as error:
        return CheckedRecording(name=name, faults=(str(error),))
    return CheckedRecording(
        name=name,
        run=fixture.run_id,
        steps=len(fixture.steps),
        keyed_otherwise=sum(step.key != anew.key for step, anew in zip(fixture.steps, keyed_anew(fixture), strict=True)),
        forked_from=fixture.forked_from,
        faults=tuple(_faults(name, fixture)),
        unsealed=not isinstance(found, Fixture) and Path(name).is_file(),
        lacks=fixture.gaps,
        empty=why_nothing_to_check(fixture) or "",
    )


def _faults(name: str, fixture: Fixture) -> Iterable[str]:
    numbers = {step.number for step in fixture.steps}
    for step in fixture.steps:
        if step.inside is not None and step.inside not in numbers:
            yield f"{name}: step {step.number} is inside step {step.inside}, which is missing"
