"""`freezeframe fixture RUN -o DIR [--pytest]`: a run as files, and as a regression test."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import JSON, RUN_OR_FIXTURE, STORE, new_directory, place_of, print_json
from freezeframe_replay.cli.writing import cannot_write, frozen, write_to
from freezeframe_replay.local.target import RunsPlace, load_target, open_store, reads_sql
from freezeframe_replay.report.regression import Expect, regression_test, slug
from freezeframe_replay.report.render import counted, printable
from freezeframe_replay.sources.store import LAST, LAST_FAILED
from freezeframe_schemas import genai
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import Run

COMMAND: Final = Command(
    description="The files need no store, no network and no key. The test fails while the code re-enacts the recorded failure "
    "and passes once it behaves differently; with `--expect identical` it passes while the code re-enacts the run "
    "exactly. A run that could not be compared fails both.",
    examples={
        "freezeframe fixture 4bf92f35 -o tests/regressions/late-order": "files only",
        "freezeframe fixture 4bf92f35 -o tests/regressions/late-order --pytest": "and a test",
        "freezeframe fixture forks/a -o tests/regressions/a --pytest": "a fixture, as a test",
        "freezeframe fixture last -o tests/golden/order --pytest --expect identical": "a good run that must stay as it is",
    },
    takes_program=True,
    options=(
        RUN_OR_FIXTURE,
        new_directory(of="fixture"),
        flag("--pytest", "also write test_<DIR's name>.py next to the fixture"),
        option(
            "--expect",
            choices=[expect.value for expect in Expect],
            default=Expect.CHANGED.value,
            help="what the test checks: changed, the recorded failure is gone (default); identical, the run is "
            "re-enacted exactly",
        ),
        flag("--force", "overwrite the test even if it was edited"),
        JSON,
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Write the files and print the next command."""
    found = load_target(place_of(arguments), arguments.run)
    if isinstance(found, Run) and arguments.run in (LAST, LAST_FAILED) and not _is_meant(found, place_of(arguments)):
        return 1
    fixture = found if isinstance(found, Fixture) else frozen(found, command="fixture")
    directory: Path = arguments.output
    write_to(directory, fixture, command="fixture")
    try:
        test = _write_test(arguments, fixture) if arguments.pytest else None
    except OSError as error:
        raise cannot_write(directory, error) from error
    if arguments.json:
        shown = None if test is None else str(test)
        print_json({"run": fixture.run_id, "fixture": str(directory), "steps": len(fixture.steps), "test": shown})
        return 0
    print(f"wrote {directory}: {counted(len(fixture.steps), 'step')} of run {fixture.run_id}")
    print(f"next: {f'pytest {test}' if test else f'freezeframe replay {directory}'}")
    if test and arguments.expect == Expect.CHANGED.value:
        print("      it fails until the code is fixed; to keep a run as it is: --expect identical --force")
    return 0


def _is_meant(run: Run, place: RunsPlace) -> bool:
    """Name the run that `last` is, where several services send theirs; ask whether it is meant, if somebody can answer."""
    if not reads_sql(place) or len(open_store(place).services()) < 2:
        return True
    span = next(span for span in run.spans if span.span_id == run.entry.span_id)
    service = span.resource.attributes.get(genai.SERVICE_NAME, "none")
    description = f"the last run is {run.entry.name} ({run.entry.target or 'another instrumentation'}) of the service {service}"
    print(f"freezeframe fixture: {printable(description)}, run {run.trace_id}", file=sys.stderr)
    return not sys.stdin.isatty() or input("make a fixture of it? [y/N] ").strip().lower() in ("y", "yes")


def _write_test(arguments: argparse.Namespace, fixture: Fixture) -> Path:
    """Write the test next to the fixture; an edited one is kept."""
    directory: Path = arguments.output
    name = directory.resolve().name
    path = directory / f"test_{slug(name)}.py"
    source = regression_test(fixture, name, expect=Expect(arguments.expect), command=arguments.program)
    if path.exists() and path.read_text(encoding="utf-8") != source and not arguments.force:
        print(
            f"freezeframe fixture: kept {path}: it differs from what would be written (--force overwrites it)", file=sys.stderr
        )
        return path
    path.write_text(source, encoding="utf-8")
    return path
