"""The program's own code: what a recording may name. A recording is a stranger's data, so it never decides what runs.

The files of the folder in which the replay was started are the program's. Not among them: Python itself, installed packages,
hidden folders, and the files of the recording.
"""

from __future__ import annotations

import functools
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from freezeframe_replay.sources.fixture_archive import PACK

_INSTALLED: Final = frozenset({"site-packages", "dist-packages", "node_modules"})
_PYTHONS: Final = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCode:
    """The files that a replay may run."""

    folder: Path
    """Where the replay was started, resolved."""
    recording: Path | None = None
    """The folder of the fixture, resolved, unless the replay was started in it."""

    def find(self, named: str) -> Path | None:
        """Return the program's file or folder of this name; None if there is none, or it is not the program's."""
        try:
            path = (self.folder / named).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):  # not there; a NUL in the name; a loop of links
            return None
        return path if self.holds(path) else None

    def holds(self, path: Path) -> bool:
        """Return whether a resolved path is one of the program's."""
        if not path.is_relative_to(self.folder) or any(path.is_relative_to(other) for other in _of_python()):
            return False
        parts = path.relative_to(self.folder).parts
        if any(part in _INSTALLED or part.startswith(".") for part in parts):
            return False
        if any((self.folder.joinpath(*parts[:count]) / "pyvenv.cfg").exists() for count in range(1, len(parts) + 1)):
            return False
        return not self.is_of_recording(path)

    def is_of_recording(self, path: Path) -> bool:
        """Return whether a path is one of the fixture's folder."""
        return self.recording is not None and path.resolve().is_relative_to(self.recording)


def is_installed_here(path: Path) -> bool:
    """Return whether a path is one of a package that is installed for this Python."""
    return any(path.resolve().is_relative_to(Path(sysconfig.get_path(name)).resolve()) for name in ("purelib", "platlib"))


def own_code(folder: Path, recording: Path | None) -> OwnCode:
    """Return the code of a folder; `recording`: the folder of the fixture, whose files are the sender's.

    Who starts a replay in the folder of a fixture, or below it, names that folder's code as his own, unless it is a pack's.
    """
    folder = folder.resolve()
    if recording is not None:
        recording = recording.resolve()
        if folder.is_relative_to(recording) and not (recording / PACK).exists():
            recording = None
    return OwnCode(folder=folder, recording=recording)


@functools.cache
def _of_python() -> tuple[Path, ...]:
    return tuple({Path(sysconfig.get_path(name)).resolve() for name in _PYTHONS})
