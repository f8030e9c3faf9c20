"""The disk under the log: whether it accepts writes at the moment."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Final

from freezeframe_collector.files import free_bytes, write_all

_MIN_BYTES: Final = 1 << 20
"""With less room a disk is full: a request of usual size does not fit."""
_PROBE_BYTES: Final = 4096


class LogDisk:
    """Result of the last write, as long as it is valid."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._fault = ""
        self._refused_bytes = 0

    def note_written(self) -> None:
        """Note that a write succeeded."""
        self._fault = ""

    def note_refused(self, error: OSError, size_bytes: int) -> str:
        """Note that a write of about this size failed, and return why."""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        self._refused_bytes = size_bytes
        self._fault = "the log's disk is full" if full else f"the log cannot be written: {error.strerror}"
        return self._fault

    def fault(self) -> str:
        """Return what keeps the log from being written, or an empty text. After a refusal, try the disk without a request."""
        room = free_bytes(self._directory)
        if room < _MIN_BYTES + (self._refused_bytes if self._fault else 0):
            return f"the log's disk is full: {room:,} bytes are free"
        if self._fault and self._takes_a_probe():
            self._fault = ""
        return self._fault

    def _takes_a_probe(self) -> bool:
        path = self._directory / "room.probe"
        with self._lock:
            try:
                descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
                try:
                    write_all(descriptor, bytes(_PROBE_BYTES))
                    os.fdatasync(descriptor)
                finally:
                    os.close(descriptor)
                    path.unlink()
            except OSError:
                return False
        return True
