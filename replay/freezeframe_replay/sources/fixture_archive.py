"""A fixture packed as ``.tar.gz``, as the replay service returns it (``/api/runs/ID/fixture``), read without trusting it.

Nothing is written under a name from the archive: only ``manifest.json``, ``steps.json`` and ``blobs/<sha256>`` are accepted, in
one folder or none; links, other files, paths that lead elsewhere and more than `LIMIT_BYTES` unpacked are refused.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import tempfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Final

from freezeframe_schemas.errors import FixtureError
from freezeframe_schemas.fixture import Fixture, load_fixture

SUFFIXES: Final = (".tar.gz", ".tgz")
LIMIT_BYTES: Final = 1 << 30
_FILE: Final = re.compile(r"manifest\.json|steps\.json|blobs/[0-9a-f]{64}")


def is_archive(path: Path) -> bool:
    """Return whether the path is a file with an archive's name."""
    return path.name.endswith(SUFFIXES) and path.is_file()


def load_fixture_archive(path: Path, *, limit_bytes: int = LIMIT_BYTES) -> Fixture:
    """Return the fixture in an archive.

    Raises:
        FixtureError: it is not a gzipped tar, holds something other than one fixture, or the fixture is damaged.
    """
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        directory = Path(scratch)
        try:
            with gzip.open(path) as packed, tarfile.open(fileobj=_Bounded(packed, path, limit_bytes), mode="r|") as archive:
                _unpack(archive, path, directory)
        except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
            raise FixtureError(
                f"{path}: cannot be read as a fixture archive: {error}",
                do="get it again from the replay service: GET /api/runs/ID/fixture",
            ) from error
        if not (directory / "manifest.json").exists():
            raise FixtureError(f"{path}: no manifest.json in it, expected the files of one fixture")
        try:
            return load_fixture(directory)
        except FixtureError as error:
            raise FixtureError(error.message.replace(scratch, str(path)), do=error.do) from None


def _unpack(archive: tarfile.TarFile, path: Path, directory: Path) -> None:
    (directory / "blobs").mkdir()
    folders: set[str] = set()
    for member in archive:
        if member.isdir():
            continue
        place = PurePosixPath(member.name)
        name = next((part for part in (str(place), str(PurePosixPath(*place.parts[1:]))) if _FILE.fullmatch(part)), None)
        if name is None or not member.isreg():
            what = "a link or device" if not member.isreg() else "not a file of a fixture"
            raise FixtureError(f"{path}: found {member.name!r:.100}, {what}; expected manifest.json, steps.json and blobs")
        folders.add(str(place).removesuffix(name))
        if len(folders) > 1 or (directory / name).exists():
            raise FixtureError(f"{path}: it also holds {member.name!r:.100}, expected the files of one fixture")
        content = archive.extractfile(member)
        assert content is not None  # always one for a regular file
        (directory / name).write_bytes(content.read())


class _Bounded(io.RawIOBase):
    """A stream that raises once more than a limit was read: a small archive may unpack to a full disk."""

    def __init__(self, stream: gzip.GzipFile, path: Path, limit_bytes: int) -> None:
        self._stream = stream
        self._path = path
        self._limit = limit_bytes
        self._left = limit_bytes

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes."""
        data = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise FixtureError(f"{self._path}: more than {self._limit:,} bytes unpacked, expected a fixture of one run")
        return data
