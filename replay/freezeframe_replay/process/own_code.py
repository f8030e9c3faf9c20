"""The program's own code, which a recording may name. A recording is a stranger's data, so it never decides what runs.

The files of the folder in which the replay was started are the program's. Not among them: Python itself, installed packages,
hidden folders, and the files of recordings.
"""

from __future__ import annotations

import functools
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from freezeframe_replay.sources.fixture_archive import PACK

_INSTALLED: Final = frozenset({"site-packages", "dist-packages", "node_modules"})
_RECORDING: Final = ("manifest.json", "steps.json")
_PACKED: Final = (PACK, *_RECORDING)
_ENVIRONMENT: Final = ("pyvenv.cfg",)
"""Files that mark the folder of a fixture, of an unpacked pack, or of a virtual environment."""
_PYTHONS: Final = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCode:
    """The files that a replay may run."""

    folder: Path
    """The folder in which the replay was started, resolved."""

    def find(self, named: str) -> Path | None:
        """Return the program's file or folder of this name, or None if it is not the program's."""
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
        if any(part in _INSTALLED or part.startswith(".") for part in parts) or _holds(self.folder, _PACKED):
            return False
        within = [self.folder.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
        return not any(_holds(place, _ENVIRONMENT) or _holds(place, _RECORDING) for place in within)


def own_code(folder: Path) -> OwnCode:
    """Return the code of a folder.

    Starting a replay in a fixture's folder makes its code the user's own, unless it is a pack's.
    """
    return OwnCode(folder=folder.resolve())


def _holds(folder: Path, names: tuple[str, ...]) -> bool:
    return all((folder / name).is_file() for name in names)


def is_installed_here(path: Path) -> bool:
    """Return whether a path is one of a package that is installed for this Python."""
    return any(path.resolve().is_relative_to(Path(sysconfig.get_path(name)).resolve()) for name in ("purelib", "platlib"))


@functools.cache
def _of_python() -> tuple[Path, ...]:
    return tuple({Path(sysconfig.get_path(name)).resolve() for name in _PYTHONS})
