"""The data directory, in which the collector keeps log, store and keys, and `freezeframe up` notes its processes.

Found as git finds `.git`: named, in the environment, or the nearest `.freezeframe` upwards.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from freezeframe_schemas.data_directory import VARIABLE, find_data_directory, make_private
from freezeframe_schemas.errors import ConfigError

STORE_VARIABLE: Final = "FREEZEFRAME_STORE"
"""URL of a store to read instead of the data directory's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A data directory and the names of the files in it that concern the processes."""

    directory: Path

    @property
    def processes(self) -> Path:
        """Return the folder with the notes and logs of started processes."""
        return self.directory / "processes"


def find_home(given: Path | None = None, *, environ: Mapping[str, str] = os.environ, start: Path | None = None) -> Home:
    """Return the data directory; see `find_data_directory`."""
    return Home(directory=find_data_directory(given, environ=environ, start=start))


def make_home(home: Home) -> None:
    """Create the directory, readable by its owner only and ignored by git.

    Raises:
        ConfigError: it cannot be created or written to.
    """
    try:
        fresh = not home.directory.exists()
        make_private(home.directory)
        home.processes.mkdir(mode=0o700, exist_ok=True)
        if fresh:
            (home.directory / ".gitignore").write_text("*\n")
    except OSError as error:
        raise ConfigError(
            f"{home.directory}: cannot be used as a data directory: {error.strerror}",
            do=f"name another with --data or {VARIABLE}",
        ) from error
