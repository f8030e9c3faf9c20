"""`freezeframe verify RUN_OR_FIXTURE...`: that recordings are whole, unedited, and keyed as this version keys requests."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from freezeframe_replay.cli.options import add_json, add_store, print_json
from freezeframe_replay.cli.target import TARGET_HELP, load_as_fixture
from freezeframe_schemas.errors import FreezeframeError
from freezeframe_schemas.fixture import Fixture


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("runs", nargs="+", metavar="RUN_OR_FIXTURE", help=TARGET_HELP)
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Check each recording; 1 where one has a fault."""
    results = [_check(arguments, name) for name in arguments.runs]
    if arguments.json:
        print_json([dataclasses.asdict(result) for result in results])
    else:
        for result in results:
            for fault in result.faults:
                print(f"freezeframe verify: {fault}", file=sys.stderr)
            if not result.faults:
                print(f"{result.name}: whole, {result.steps} steps of run {result.run}")
    return 1 if any(result.faults for result in results) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found of one recording."""

    name: str
    run: str | None = None
    steps: int = 0
    faults: tuple[str, ...] = ()


def _check(arguments: argparse.Namespace, name: str) -> Checked:
    try:
        # of a fixture: version, digest over every step, hash of every blob; of a run: hash of every stored piece
        fixture = load_as_fixture(arguments, name)
    except FreezeframeError as error:
        return Checked(name=name, faults=(str(error),))
    return Checked(name=name, run=fixture.run_id, steps=len(fixture.steps), faults=tuple(_faults(name, fixture)))


def _faults(name: str, fixture: Fixture) -> Iterable[str]:
    from freezeframe_replay.engine.freeze import exchange_key, make_aliases

    alias = make_aliases(fixture.redaction).alias
    numbers = {step.number for step in fixture.steps}
    for step in fixture.steps:
        found = exchange_key(step.exchange, alias=alias).digest
        if found != step.key:
            yield f"{name}: step {step.number} ({step.exchange.name}): key {found[:12]}, the fixture says {step.key[:12]}"
        if step.inside is not None and step.inside not in numbers:
            yield f"{name}: step {step.number} is inside step {step.inside}, which is not there"
