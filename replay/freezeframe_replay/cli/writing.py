"""Make fixtures of runs and write them to the user's directory, with a warning of what is in their way."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.reconstruct import can_be_reconstructed
from freezeframe_replay.sources.passing_on import is_bare
from freezeframe_schemas.errors import FixtureError, RunError
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import Run, readiness
from freezeframe_schemas.whole_file import replace_file


def frozen(run: Run, *, command: str) -> Fixture:
    """Return a run as a fixture; warn if it cannot be re-enacted.

    Raises:
        RunError: there is nothing in it to replay.
    """
    if not run.exchanges and not can_be_reconstructed(run):
        raise RunError(
            f"run {run.trace_id}: found no exchanges among its {len(run.spans)} spans, so there is nothing to replay",
            do="record it with freezeframe.instrument(); `freezeframe show` names what is missing",
        )
    reached = readiness(run)
    if reached.cold:
        names = ", ".join(reached.blocking)
        print(
            f"freezeframe {command}: warning: a cold case: it cannot be re-enacted by itself; it lacks: {names}",
            file=sys.stderr,
        )
    return freeze(run)


def write_to(directory: Path, fixture: Fixture, *, command: str) -> None:
    """Write the fixture; warn on stderr if it is not redacted.

    Raises:
        FixtureError: the directory cannot be written.
    """
    warn_of_bare(1 if is_bare(fixture) else 0, command=command)
    try:
        write_fixture(fixture, directory)
    except OSError as error:
        raise cannot_write(directory, error) from error


def cannot_write(directory: Path, error: OSError) -> FixtureError:
    """Return the error for it."""
    return FixtureError(f"{directory}: cannot be written: {error.strerror}", do="name another directory with -o")


def write_whole(path: Path, content: bytes | Iterable[bytes], *, option: str = "-o", parents: bool = False) -> None:
    """Write a file whole, or not at all; with `parents`, in folders that are made for it.

    Raises:
        FixtureError: it cannot be written; the message names the option that names the file.
    """
    try:
        if parents:
            path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)
    except OSError as error:
        raise FixtureError(f"{path}: cannot be written: {error.strerror}", do=f"name another file with {option}") from error


def warn_of_bare(count: int, *, command: str) -> None:
    """Warn about `count` unredacted runs; say nothing if there are none."""
    if count:
        runs = "the run is" if count == 1 else f"{count} runs are"
        print(
            f"freezeframe {command}: warning: {runs} not redacted: from a file that an agent wrote itself. Before you"
            f" commit it: freezeframe store redact-file FILE > redacted.jsonl, and name that one here",
            file=sys.stderr,
        )
