"""Fixtures written to where the user said, with a warning of what should not be committed or sent on as it is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from freezeframe_schemas.errors import FixtureError

if TYPE_CHECKING:
    from pathlib import Path

    from freezeframe_schemas.fixture import Fixture


def write_to(directory: Path, fixture: Fixture, *, command: str) -> None:
    """Write the fixture; that it is not redacted is said on stderr.

    Raises:
        FixtureError: the directory cannot be written.
    """
    from freezeframe_schemas.fixture import write_fixture

    warn_of_bare(1 if is_bare(fixture) else 0, command=command)
    try:
        write_fixture(fixture, directory)
    except OSError as error:
        raise cannot_write(directory, error) from error


def cannot_write(directory: Path, error: OSError) -> FixtureError:
    """Return the error that says so."""
    return FixtureError(f"{directory}: cannot be written: {error.strerror}", do="name another directory with -o")


def is_bare(fixture: Fixture) -> bool:
    """Return whether nothing has redacted the run."""
    return not fixture.redaction.policy


def warn_of_bare(count: int, *, command: str) -> None:
    """Warn of `count` runs that nothing has redacted; of none, say nothing."""
    if count:
        runs = "the run is" if count == 1 else f"{count} runs are"
        print(
            f"freezeframe {command}: warning: {runs} not redacted: from a file that an agent wrote itself. Before you"
            f" commit it: freezeframe redact FILE > redacted.jsonl, and name that one here",
            file=sys.stderr,
        )
