"""`freezeframe fixture RUN -o DIR [--pytest]`: a run as files, and as a regression test."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from typing import Final

from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import JSON, RUN_OR_FIXTURE, STORE, new_directory, place_of, print_json, terminal_width
from freezeframe_replay.cli.writing import warn
from freezeframe_replay.local.target import RunsPlace, reads_sql
from freezeframe_replay.operations.fixture import FIXTURE, FixtureParameters
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.report.regression import Expect
from freezeframe_replay.report.render import printable
from freezeframe_replay.sources.store import LAST, LAST_FAILED
from freezeframe_schemas import genai
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
    source, name = RunSource(place_of(arguments)), arguments.run
    if name in (LAST, LAST_FAILED) and isinstance(run := source.load(name), Run):
        if not _is_meant(run, source, place_of(arguments)):
            return 1
        name = run.trace_id if source.is_stored(name) else name
    parameters = FixtureParameters(
        run=name,
        output=arguments.output,
        expect=Expect(arguments.expect) if arguments.pytest else None,
        command=tuple(arguments.program or ()),
        force=arguments.force,
    )
    made = FIXTURE.execute(source, parameters)
    warn("fixture", made.warnings)
    if arguments.json:
        print_json(FIXTURE.to_json(made))
        return 0
    print(FIXTURE.to_text(made, terminal_width()))
    print(f"next: {f'pytest {made.test}' if made.test else f'freezeframe replay {made.fixture}'}")
    if made.test and find_spec("pytest") is None:
        print("      pytest is not installed in this environment: pip install pytest")
    if made.test and not made.warnings and arguments.expect == Expect.CHANGED.value:
        print("      it fails until the code is fixed; to keep a run as it is: --expect identical --force")
    return 0


def _is_meant(run: Run, source: RunSource, place: RunsPlace) -> bool:
    """Name the run that `last` means if several services send runs; ask for confirmation on a terminal."""
    if not reads_sql(place) or len(source.use(lambda store: store.services())) < 2:
        return True
    span = next(span for span in run.spans if span.span_id == run.entry.span_id)
    service = span.resource.attributes.get(genai.SERVICE_NAME, "none")
    description = f"the last run is {run.entry.name} ({run.entry.target or 'another instrumentation'}) of the service {service}"
    print(f"freezeframe fixture: {printable(description)}, run {run.trace_id}", file=sys.stderr)
    return not sys.stdin.isatty() or input("make a fixture of it? [y/N] ").strip().lower() in ("y", "yes")
