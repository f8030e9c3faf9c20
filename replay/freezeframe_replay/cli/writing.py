"""Write fixtures to the user's directory, with a warning if they should not be committed or passed on unchanged."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from freezeframe_schemas.errors import FixtureError

if TYPE_CHECKING:
    from pathlib import Path

    from freezeframe_schemas.fixture import Fixture


def write_to(directory: Path, fixture: Fixture, *, command: str) -> None:
    """Write the fixture; warn on stderr if it is not redacted.

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
    """Return the error for it."""
    return FixtureError(f"{directory}: cannot be written: {error.strerror}", do="name another directory with -o")


def is_bare(fixture: Fixture) -> bool:
    """Return whether the run is unredacted."""
    return not fixture.redaction.policy


def warn_of_bare(count: int, *, command: str) -> None:
    """Warn about `count` unredacted runs; say nothing if there are none."""
    if count:
        runs = "the run is" if count == 1 else f"{count} runs are"
        print(
            f"freezeframe {command}: warning: {runs} not redacted: from a file that an agent wrote itself. Before you"
            f" commit it: freezeframe redact FILE > redacted.jsonl, and name that one here",
            file=sys.stderr,
        )
