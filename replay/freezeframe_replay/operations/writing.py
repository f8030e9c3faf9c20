"""Fixtures of runs in the user's directory, and the warnings about them."""

from __future__ import annotations

from pathlib import Path

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.reconstruct import can_be_reconstructed
from freezeframe_replay.sources.passing_on import is_bare
from freezeframe_schemas.errors import FixtureError, RunError
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import Run, readiness


def frozen(found: Run | Fixture) -> tuple[Fixture, tuple[str, ...]]:
    """Return a run as a fixture, with a warning if it cannot be re-enacted.

    Raises:
        RunError: it has nothing to replay.
    """
    if isinstance(found, Fixture):
        return found, ()
    if not found.exchanges and not can_be_reconstructed(found):
        raise RunError(
            f"run {found.trace_id}: found no exchanges among its {len(found.spans)} spans, so there is nothing to replay",
            do="record it with freezeframe.instrument(); `freezeframe show` names what is missing",
        )
    reached = readiness(found)
    names = ", ".join(reached.blocking)
    cold = f"a cold case: it cannot be re-enacted by itself; it lacks: {names}"
    return freeze(found), (cold,) * reached.cold


def write_to(directory: Path, fixture: Fixture) -> tuple[str, ...]:
    """Write the fixture; return a warning if it is not redacted.

    Raises:
        FixtureError: the directory cannot be written.
    """
    try:
        write_fixture(fixture, directory)
    except OSError as error:
        raise cannot_write(directory, error) from error
    return bare_warning(int(is_bare(fixture)))


def cannot_write(directory: Path, error: OSError) -> FixtureError:
    """Return the error for a directory that cannot be written."""
    return FixtureError(f"{directory}: cannot be written: {error.strerror}", do="name another place")


def bare_warning(count: int) -> tuple[str, ...]:
    """Return the warning about `count` unredacted runs; empty for 0."""
    runs = "the run is" if count == 1 else f"{count} runs are"
    warning = (
        f"{runs} not redacted: from a file that an agent wrote itself. Before you commit it: "
        "freezeframe store redact-file FILE > redacted.jsonl, and name that one here"
    )
    return (warning,) if count else ()
