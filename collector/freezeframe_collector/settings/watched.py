"""Files that are read again when they change: tokens and certificates, which are renewed while the collector runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from freezeframe_schemas.errors import ConfigError

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")


class Watched(Generic[_T]):
    """A value made from files, and made again when they change. Thread-safe; a look costs one ``stat`` per file."""

    def __init__(self, files: Sequence[Path], load: Callable[[], _T]) -> None:
        """Load for the first time; raises as `load` does."""
        self._files = tuple(files)
        self._load = load
        self._lock = threading.Lock()
        self._stamps = self._look()
        self._value = load()

    def get(self) -> _T:
        """Return the value of the files now, or of their last state without a fault (which is logged once per change)."""
        stamps = self._look()
        if stamps != self._stamps:
            with self._lock:
                if stamps != self._stamps:
                    self._renew()
                    self._stamps = stamps
        return self._value

    def _renew(self) -> None:
        names = ", ".join(map(str, self._files))
        try:
            self._value = self._load()
        except (ConfigError, OSError) as error:
            _LOG.error("%s: changed, but the previous content stays in use: %s", names, error)
        else:
            _LOG.info("%s: read again", names)

    def _look(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(map(_stamp, self._files))


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
