"""Files that survive a power loss, and the lock that keeps a data directory to one collector."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from freezeframe_schemas.data_directory import make_private
from freezeframe_schemas.errors import ConfigError


def fsync_directory(directory: Path) -> None:
    """Make the directory's entries durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of the data, in as many pieces as the system takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def free_bytes(directory: Path) -> int:
    """Return how many bytes this process may still write to the directory's disk."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


def directory_fault(directory: Path) -> str:
    """Return the obstacle to writing into a directory, or to creating it; empty if none is found."""
    there = directory
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return f"{there} is not a directory"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"this user may not write to {there}"


def replace_durably(path: Path, data: bytes) -> None:
    """Write the file whole or not at all, durable on return."""
    temporary = path.with_name(f"{path.name}.new")
    descriptor = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.replace(path)
    fsync_directory(path.parent)


class DirectoryLock:
    """An exclusive lock on a data directory, held until `release` or the end of the process, however it ends."""

    def __init__(self, directory: Path) -> None:
        """Take the lock.

        Raises:
            ConfigError: another process holds it, or it cannot be made or written to.
        """
        try:
            make_private(directory)
            self._descriptor = os.open(directory / "collector.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(
                f"{directory}: cannot be the data directory: {directory_fault(directory) or error.strerror}",
                do="name one that this user may write to with service.data or --data",
            ) from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._descriptor)
            raise ConfigError(
                f"{directory}: another collector (process {holder}) is using this directory",
                do="stop it, or give this one its own directory with --data",
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)
