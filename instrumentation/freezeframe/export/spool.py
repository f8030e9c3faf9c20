"""Spool: batches on the disk that no collector accepted, one file per batch, for this process or a later one to deliver.

A file is written under another name, flushed to the disk and renamed, so it is whole or absent. A process locks it to deliver
it, so only one of several that share the directory does, and deletes it once the collector has acked it. After
a crash in between it is delivered again, and the collector recognises duplicate spans by their ids.
`freezeframe.export.seal` protects the content;
nothing is written unprotected.

Format, version 1: one line of JSON, ``{"freezeframe_spool": 1, "protection": "encrypt", "key": "9f86d081", "spans": 12}``, then
the sealed bytes.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from freezeframe_schemas.data_directory import make_private
from freezeframe_schemas.errors import ConfigError, FreezeframeError

VERSION: Final = 1
_SUFFIX: Final = ".batch"
_UNFINISHED: Final = ".unfinished"
_DAMAGED: Final = ".damaged"
_ABANDONED_AFTER_S: Final = 3600.0
"""An unfinished file of this age no longer belongs to any process."""
_SERIAL: Final = itertools.count()


class SpoolFull(FreezeframeError):
    """The size limit is reached: old batches stay, new ones do not fit."""


class SpoolFileError(FreezeframeError):
    """A file that cannot be read here: another version, another key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Facts about a batch that are readable without opening it."""

    protection: str
    key: str
    """Fingerprint of its key; reveals nothing about the key itself."""
    spans: int

    def to_line(self) -> bytes:
        """Return the file's first line."""
        return json.dumps(
            {"freezeframe_spool": VERSION, "protection": self.protection, "key": self.key, "spans": self.spans}
        ).encode()


def waiting_in(directory: Path) -> list[Path]:
    """Return the batches in the directory of a spool, oldest first; none if it does not exist."""
    return sorted(directory.glob("*" + _SUFFIX))


class Claim:
    """A batch that this process has locked until the block ends."""

    def __init__(self, path: Path, header: Header, sealed: bytes) -> None:
        self.path = path
        self.header = header
        self.sealed = sealed

    def done(self) -> None:
        """Delete it: it was delivered, or never will be."""
        self.path.unlink(missing_ok=True)

    def set_aside(self) -> None:
        """Keep it under another name, for a person to examine: its content has changed."""
        with suppress(OSError):
            self.path.rename(self.path.with_suffix(_DAMAGED))


class Spool:
    """A directory of batches, `limit_bytes` at most."""

    def __init__(self, directory: Path, *, limit_bytes: int, limit_days: float = 7.0) -> None:
        """Create the directory.

        Raises:
            ConfigError: it cannot be created or written to, or this system has no file locks.
        """
        if find_spec("fcntl") is None:
            raise ConfigError("spool: this system has no fcntl locks", do="leave out the option `spool`")
        self.directory = directory
        self._limit_bytes = limit_bytes
        self._limit_days = limit_days
        try:
            make_private(directory)
        except OSError as error:
            raise ConfigError(f"spool: {directory}: {error.strerror}", do="name a directory that can be created") from None
        if not os.access(directory, os.W_OK | os.X_OK):
            raise ConfigError(f"spool: {directory}: cannot be written to", do="chown it to the user who runs this program")

    def put(self, header: Header, sealed: bytes) -> None:
        """Keep a batch; on return it is on the disk.

        Raises:
            SpoolFull: it does not fit within the limit.
            OSError: the disk does not accept it. No half-written file stays.
        """
        content = header.to_line() + b"\n" + sealed
        held = self.held_bytes()
        if held + len(content) > self._limit_bytes:
            raise SpoolFull(f"spool {self.directory}: full, {held} of {self._limit_bytes} bytes", do="raise spool_bytes")
        name = f"{time.time_ns():020d}-{os.getpid()}-{next(_SERIAL)}"
        unfinished = self.directory / (name + _UNFINISHED)
        try:
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(self.directory / (name + _SUFFIX))
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
        self._sync()

    def _sync(self) -> None:
        """Make the new name durable, too."""
        descriptor = os.open(self.directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def held_bytes(self) -> int:
        """Return the size of all files of the spool, whichever process wrote them."""
        total = 0
        for entry in os.scandir(self.directory):
            if entry.name.endswith((_SUFFIX, _UNFINISHED, _DAMAGED)):
                with suppress(FileNotFoundError):  # another process has just delivered it
                    total += entry.stat().st_size
        return total

    def batches(self) -> list[Path]:
        """Return the waiting files, oldest first."""
        return waiting_in(self.directory)

    def expire(self) -> int:
        """Delete batches that are too old; return how many, damaged ones among them."""
        oldest_ns = time.time_ns() - int(self._limit_days * 86_400e9)
        expired = 0
        for pattern in ("*" + _SUFFIX, "*" + _DAMAGED):
            for path in self.directory.glob(pattern):
                written_ns = path.name.partition("-")[0]
                if written_ns.isdecimal() and int(written_ns) < oldest_ns:
                    with suppress(OSError):
                        path.unlink()
                        expired += 1
        return expired

    def sweep(self) -> None:
        """Delete half-written files of dead processes."""
        for path in self.directory.glob("*" + _UNFINISHED):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED_AFTER_S:
                    path.unlink()

    @contextmanager
    def claim(self, path: Path) -> Generator[Claim | None]:
        """Lock one batch; None if another process has it, or delivered it in the meantime.

        Raises:
            SpoolFileError: its first line is not a spool header.
        """
        import fcntl

        try:
            file = path.open("rb")
        except FileNotFoundError:
            yield None
            return
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield None
                return
            if os.fstat(file.fileno()).st_nlink == 0:  # delivered and deleted between our open and our lock
                yield None
                return
            line = file.readline(4096)
            yield Claim(path, _parse_header(path, line), file.read())


def _parse_header(path: Path, line: bytes) -> Header:
    try:
        read: Any = json.loads(line)
        version = read["freezeframe_spool"]
        header = Header(protection=str(read["protection"]), key=str(read["key"]), spans=int(read["spans"]))
    except (ValueError, LookupError, TypeError):
        raise SpoolFileError(
            f"{path}: not a spooled batch: its first line is not a header", do="delete or restore it"
        ) from None
    if version != VERSION:
        raise SpoolFileError(f"{path}: found version {version}, expected {VERSION}", do="upgrade freezeframe to deliver it")
    return header
