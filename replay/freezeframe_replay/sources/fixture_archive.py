"""A fixture as one file, a gzipped tar: ``.tar.gz`` from the replay service, ``.ffz`` from `freezeframe export --as pack`.

::

    RUN/manifest.json, steps.json, blobs/    the fixture
    RUN/pack.json                            further facts of a pack, and the SHA-256 of every file
    RUN/run.html                             the page of the run
    RUN/code/...                             the agent's code
    RUN/uv.lock                              or another lock file (`LOCK_FILES`)

The reader trusts nothing: it accepts these names only, in one folder or none; links, paths that lead elsewhere, more than
`LIMIT_FILES`, and more than `LIMIT_BYTES` unpacked are refused. Code is written to the disk only on request.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import re
import tarfile
import tempfile
import zlib
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from freezeframe_schemas.errors import FixtureError, WireError
from freezeframe_schemas.fixture import Fixture, load_fixture
from freezeframe_schemas.records import from_json

PACK_SUFFIX: Final = ".ffz"
SUFFIXES: Final = (".tar.gz", ".tgz", PACK_SUFFIX)
FORMAT: Final = "freezeframe-pack"
VERSION: Final = 1
LIMIT_BYTES: Final = 1 << 29
LIMIT_FILES: Final = 20_000
CODE: Final = "code/"
PAGE: Final = "run.html"
PACK: Final = "pack.json"
_FIXTURE: Final = re.compile(r"manifest\.json|steps\.json|blobs/[0-9a-f]{64}")
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f\\\\:\ud800-\udfff]")
_MAX_HEADER_BYTES: Final = 1 << 16
_MAX_HEADERS: Final = 4
"""Headers of extensions (long names, PAX) in front of one file, and their size."""
_EXTENSIONS: Final = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)
_PIECE_BYTES: Final = 1 << 20
_PART_BYTES: Final = 255
_PATH_BYTES: Final = 1024


@cache
def _beside() -> frozenset[str]:
    from freezeframe.context.environment import LOCK_FILES  # most commands open no archive

    return frozenset({PACK, PAGE, *LOCK_FILES})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """Description of a packed file (``pack.json``)."""

    run: str
    created_by: str
    python: str
    """The version of Python that the run was recorded on; empty if unknown."""
    commit: str = ""
    """The commit of the code, if code is packed and has one."""
    changed: bool = False
    """True if the code is the work tree as it was when it was packed, in place of that commit."""
    left_out: tuple[str, ...] = ()
    """Files of the project that were not packed, each with the reason."""
    readiness: Mapping[str, Any]
    """``{"level": 5, "means": ..., "missing": [...], "gaps": [...], "ledger": [...]}``, as `freezeframe show` names them."""
    files: Mapping[str, str]
    """File -> SHA-256, of all others in the archive."""

    @property
    def code_files(self) -> int:
        """Return how many files of code there are."""
        return sum(name.startswith(CODE) for name in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """An archive's files, in a private folder that exists as long as the block in which it was opened."""

    fixture: Path
    pack: Pack | None
    """None if the archive holds a fixture only."""

    @property
    def code(self) -> Path:
        return self.fixture / "code"


def is_archive(path: Path) -> bool:
    """Return whether the path is a file with an archive's name."""
    return path.name.endswith(SUFFIXES) and path.is_file()


def is_safe(path: str) -> bool:
    """Return whether a file of code may have this path: relative, within its folder, one file's name on every system."""
    parts = path.split("/")
    return len(path.encode(errors="replace")) <= _PATH_BYTES and all(
        part not in ("", ".", "..", ".git") and not _UNSAFE.search(part) and len(part.encode(errors="replace")) <= _PART_BYTES
        for part in parts
    )


# -- writing ------------------------------------------------------------------------------------------------------------


def archive_bytes(folder: str, files: Mapping[str, bytes], *, executable: Collection[str] = ()) -> bytes:
    """Return an archive of the files in one folder. It names no owner and no time, so equal files give equal bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            member.mode = 0o755 if name in executable else 0o644
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def fixture_files(directory: Path) -> dict[str, bytes]:
    """Return the files of the fixture in `directory`, by their names in an archive."""
    names = (path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    return {name: (directory / name).read_bytes() for name in names if _FIXTURE.fullmatch(name)}


def pack_file(pack: Pack) -> dict[str, bytes]:
    """Return ``pack.json``."""
    about = asdict(pack)
    code = {name: about.pop(name) for name in ("commit", "changed", "left_out")}
    readiness = about.pop("readiness")
    files = dict(sorted(about.pop("files").items()))
    document = {"format": FORMAT, "version": VERSION, **about, **({"code": code} if pack.code_files else {})}
    document |= {"readiness": readiness, "files": files}
    return {PACK: (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "backslashreplace")}


# -- reading ------------------------------------------------------------------------------------------------------------


def load_fixture_archive(path: Path, *, limit_bytes: int = LIMIT_BYTES) -> Fixture:
    """Return the fixture in an archive.

    Raises:
        FixtureError: as `unpacked`.
    """
    with unpacked(path, limit_bytes=limit_bytes) as opened:
        return fixture_of(opened, path)


def fixture_of(opened: Unpacked, path: Path) -> Fixture:
    """Return the fixture in an open archive, which errors name by its own `path`.

    Raises:
        FixtureError: it is damaged.
    """
    try:
        return load_fixture(opened.fixture)
    except FixtureError as error:
        raise FixtureError(error.message.replace(str(opened.fixture), str(path)), do=error.do) from None


@contextmanager
def unpacked(
    path: Path, *, code: bool = False, limit_bytes: int = LIMIT_BYTES, limit_files: int = LIMIT_FILES
) -> Generator[Unpacked]:
    """Unpack an archive into a private temporary folder for the length of the block; with `code`, its code too.

    Raises:
        FixtureError: it is not a gzipped tar, holds something that no archive may, or a file is not the one that was packed.
    """
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        directory = Path(scratch)
        try:
            with (
                gzip.open(path) as packed,
                tarfile.open(fileobj=_Bounded(packed, path, limit_bytes), mode="r|", tarinfo=_bounded_headers(path)) as archive,
            ):
                found = _unpack(archive, path, directory, code=code, limit_files=limit_files)
        except (OSError, EOFError, zlib.error, tarfile.TarError, ValueError, ArithmeticError) as error:
            raise FixtureError(
                f"{path}: cannot be read as a fixture archive: {error}",
                do="get it again from whoever sent it, or from the replay service (GET /api/v1/runs/ID/fixture)",
            ) from error
        if "manifest.json" not in found:
            raise FixtureError(f"{path}: no manifest.json in it, expected the files of one fixture")
        yield Unpacked(fixture=directory, pack=_checked(path, directory, found))


def _unpack(archive: tarfile.TarFile, path: Path, directory: Path, *, code: bool, limit_files: int) -> dict[str, str]:
    """Write the files, and return the SHA-256 of each, including code that is not written."""
    found: dict[str, str] = {}
    folders: set[str] = set()
    for count, member in enumerate(archive, 1):
        if count > limit_files:
            raise FixtureError(f"{path}: more than {limit_files:,} files, expected a fixture of one run")
        if member.isdir():
            continue
        plain = member.isreg() and not member.issparse()  # the holes of a sparse file are in no stream, so nothing bounds them
        name = _name_in_archive(member.name) if plain else None
        if name is None:
            what = "not a file of a fixture or a pack" if plain else "a link or device, or a file with holes"
            raise FixtureError(f"{path}: found {member.name!r:.100}, {what}; expected manifest.json, steps.json and blobs")
        folders.add(member.name.removesuffix(name))
        if len(folders) > 1 or name in found:
            raise FixtureError(f"{path}: it also holds {member.name!r:.100}, expected the files of one fixture")
        content = archive.extractfile(member)
        assert content is not None  # always one for a regular file
        with contextlib.ExitStack() as stack:
            file: IO[bytes] | None = None
            if code or not name.startswith(CODE):
                target = directory / name
                target.parent.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context(target.open("xb"))  # a name in other letters is the same file on some systems
                target.chmod(0o700 if member.mode & 0o100 else 0o600)
            found[name] = _copy(content, file)
    return found


def _copy(content: IO[bytes], file: IO[bytes] | None) -> str:
    """Write a file, if it is to be written, piece by piece, and return its SHA-256."""
    hashed = hashlib.sha256()
    while piece := content.read(_PIECE_BYTES):
        hashed.update(piece)
        if file is not None:
            file.write(piece)
    return hashed.hexdigest()


def _bounded_headers(path: Path) -> type[tarfile.TarInfo]:
    """Return a reader of the members of one archive that bounds extensions, which `tarfile` reads whole and by recursion."""

    class Bounded(tarfile.TarInfo):
        chained = 0

        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> tarfile.TarInfo:
            """Return the content of a block, unless there are too many extensions."""
            found = super().frombuf(buf, encoding, errors)
            Bounded.chained = Bounded.chained + 1 if found.type in _EXTENSIONS else 0
            if Bounded.chained > _MAX_HEADERS or (Bounded.chained and found.size > _MAX_HEADER_BYTES):
                raise FixtureError(f"{path}: found headers of extensions without end, expected the files of one fixture")
            return found

    return Bounded


def _name_in_archive(given: str) -> str | None:
    """Return a member's name below its folder, if it is one that an archive may hold."""
    place = PurePosixPath(given)
    if place.is_absolute() or ".." in place.parts or str(place) != given:
        return None
    for name in (given, str(PurePosixPath(*place.parts[1:]))):
        if _FIXTURE.fullmatch(name) or name in _beside() or (name.startswith(CODE) and is_safe(name)):
            return name
    return None


def _checked(path: Path, directory: Path, found: Mapping[str, str]) -> Pack | None:
    """Return the content of ``pack.json``, once the files match it; None if the archive has only a fixture."""
    if PACK not in found:
        other = next((name for name in found if not _FIXTURE.fullmatch(name)), None)
        if other is not None:
            raise FixtureError(f"{path}: found {other!r:.100} and no {PACK}, so nothing says that it belongs there")
        return None
    pack = _read_pack(path, directory / PACK)
    for name in sorted({*found, *pack.files} - {PACK}):
        if found.get(name) != pack.files.get(name):
            state = "is missing" if name not in found else "is not named" if name not in pack.files else "has another hash"
            raise FixtureError(f"{path}: {name!r:.100} {state}: edited or damaged since it was packed", do="get it again")
    return pack


def _read_pack(path: Path, file: Path) -> Pack:
    try:
        document: Any = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise FixtureError(f"{path}: {PACK}: not valid JSON: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FixtureError(f"{path}: {PACK}: not from a freezeframe pack")
    if document.get("version") != VERSION:
        raise FixtureError(
            f"{path}: pack format version {document.get('version')!r:.40}, this library reads version {VERSION}",
            do="install the version of freezeframe that wrote it",
        )
    try:
        read = {name: item for name, item in document.items() if name not in ("format", "version", "code")}
        return from_json(Pack, read | document.get("code", {}), PACK)
    except (WireError, TypeError) as error:
        raise FixtureError(f"{path}: {error}") from error


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
