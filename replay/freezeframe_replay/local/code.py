"""The code of a project, read out of its git repository: as of a commit, or as it is in the work tree.

Only what git tracks, or would (`.gitignore` decides), below one folder. Never files that hold keys or passwords by their name,
private keys by their content, or lock files with a password in an address; links and submodules are left out, too.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from freezeframe.context.environment import LOCK_FILES, find_lock_file, lock_file
from freezeframe_replay.sources.fixture_archive import is_safe
from freezeframe_replay.sources.git import git
from freezeframe_schemas.errors import ConfigError

MAX_FILES: Final = 5_000
MAX_BYTES: Final = 64 << 20
_SECRET_NAME: Final = re.compile(
    r"\.env(\..*)?|.*\.env"
    r"|.*\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc|gpg|der)"
    r"|id_(rsa|dsa|ecdsa|ed25519)(_sk)?(\..*)?"
    r"|\.(netrc|pgpass|npmrc|pypirc|htpasswd|git-credentials|dockercfg|my\.cnf|vault-token)"
    r"|(credentials?|secrets?|passwords?|tokens?)(\.(json|ya?ml|toml|ini|cfg|txt|env))?"
    r"|(service[-_]?account|client[-_]secret).*\.json",
    re.IGNORECASE,
)
"""Pattern of file names that suggest secrets."""
_SECRET_FOLDERS: Final = frozenset({".aws", ".azure", ".docker", ".gnupg", ".kube", ".ssh", ".freezeframe"})
_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY")
_PASSWORD: Final = re.compile(rb"://[^/\s:@]*:[^/\s@]+@")
_OTHERWISE: Final = (
    "start the command in the agent's folder, in a clone that holds the commit (git fetch); or pack the files as they are "
    "(--code now), or none (--code none)"
)
_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The files of a project's folder."""

    commit: str
    """Their commit, or the one checked out in the work tree."""
    changed: bool = False
    """True if they come from the work tree and it differs from the commit."""
    files: dict[str, bytes]
    """Path below the folder -> content."""
    executable: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()
    """Omitted files, each with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """A file before it is read."""

    path: str
    size: int
    plain: bool
    """True if it is a file and not a link or a submodule."""
    executable: bool
    name: str
    """Git's id of its content."""


def code_of_commit(directory: Path, commit: str) -> Code:
    """Return the files that `directory` held at a commit.

    Raises:
        ConfigError: no repository here, or one without the commit; too many files, or too large.
    """
    if not _COMMIT.fullmatch(commit):  # it comes from the recording, and git would take a word with a dash for an option
        raise ConfigError(
            f"commit {commit!r:.60}: not a hexadecimal id",
            do="pack the files as they are (--code now), or none (--code none)",
        )
    listed = [
        _of_tree(line) for line in git(directory, "ls-tree", "-r", "-z", "--long", commit, do=_OTHERWISE).split(b"\0") if line
    ]
    return _collect(directory, listed, lambda files: _blobs(directory, files), commit=commit)


def code_as_it_is(directory: Path) -> Code:
    """Return the files of `directory` in the work tree, those that are not committed included, those that git ignores not.

    Raises:
        ConfigError: as `code_of_commit`.
    """
    names = git(directory, "ls-files", "-z", "--cached", "--others", "--exclude-standard", do=_OTHERWISE).split(b"\0")
    found = (_of_disk(directory, os.fsdecode(name)) for name in dict.fromkeys(names) if name)
    listed = [item for item in found if item is not None]
    changed = bool(git(directory, "status", "--porcelain", "--", ".", do=_OTHERWISE).strip())
    commit = git(directory, "rev-parse", "HEAD", do=_OTHERWISE).decode().strip()
    return _collect(directory, listed, lambda files: _contents(directory, files), commit=commit, changed=changed)


def _of_tree(line: bytes) -> _Listed:
    """Read ``100644 blob <hash> <size>\\t<path>``."""
    head, _, path = line.partition(b"\t")
    mode, kind, name, size = head.decode().split()
    return _Listed(
        path=os.fsdecode(path),
        size=int(size) if size.isdecimal() else 0,
        plain=kind == "blob" and mode != "120000",
        executable=mode == "100755",
        name=name,
    )


def _of_disk(directory: Path, path: str) -> _Listed | None:
    try:
        found = (directory / path).lstat()
    except OSError:  # deleted, and still in the index
        return None
    plain = stat.S_ISREG(found.st_mode)
    return _Listed(path=path, size=found.st_size, plain=plain, executable=bool(found.st_mode & 0o100), name="")


def _collect(
    directory: Path,
    listed: Iterable[_Listed],
    read: Callable[[list[_Listed]], Iterator[bytes]],
    *,
    commit: str,
    changed: bool = False,
) -> Code:
    left_out = {item.path: why for item in listed if (why := _why_not(item))}
    kept = [item for item in listed if item.path not in left_out]
    size = sum(item.size for item in kept)
    if len(kept) > MAX_FILES or size > MAX_BYTES:
        raise ConfigError(
            f"{directory}: {len(kept):,} files of code with {size:,} bytes; at most {MAX_FILES:,} with {MAX_BYTES:,} fit",
            do="start the command in the folder of the agent, or pack without code: --code none",
        )
    files: dict[str, bytes] = {}
    for item, content in zip(kept, read(kept), strict=True):
        why = _secret_in(item.path.rpartition("/")[2], content)
        if why:
            left_out[item.path] = why
        else:
            files[item.path] = content
    return Code(
        commit=commit,
        changed=changed,
        files=files,
        executable=frozenset(item.path for item in kept if item.executable and item.path in files),
        left_out=tuple(f"{path}: {why}" for path, why in sorted(left_out.items())),
    )


def _why_not(item: _Listed) -> str:
    """Return why a file is not packed; empty if it is."""
    *folders, name = item.path.split("/")
    if not item.plain:
        return "a link or a submodule"
    if _SECRET_NAME.fullmatch(name) or not _SECRET_FOLDERS.isdisjoint(folders):
        return "may hold secrets, by its name"
    return "" if is_safe(item.path) else "its name is not valid on every system"


def _secret_in(name: str, content: bytes) -> str:
    """Return the kind of secret in a file; empty if none is seen."""
    if _PRIVATE_KEY.search(content):
        return "holds a private key"
    return "holds a password in an address" if name in LOCK_FILES and _PASSWORD.search(content) else ""


def recorded_lock_file(directory: Path, recorded: str) -> dict[str, bytes]:
    """Return the run's lock file, by its name; empty if it is missing, differs, or contains secrets.

    `recorded` is the result of `lock_file` in the run, ``uv.lock sha256:0123456789abcdef``.
    """
    path = find_lock_file(directory)
    if path is None or lock_file(directory) != recorded:
        return {}
    content = path.read_bytes()
    return {} if _secret_in(path.name, content) else {path.name: content}


def _contents(directory: Path, files: Iterable[_Listed]) -> Iterator[bytes]:
    for item in files:
        try:
            yield (directory / item.path).read_bytes()
        except OSError as error:
            raise ConfigError(f"{directory / item.path}: cannot be read: {error.strerror}") from error


def _blobs(directory: Path, files: list[_Listed]) -> Iterator[bytes]:
    """Yield the contents that git holds, in order: each is ``<hash> blob <size>\\n<content>\\n``."""
    answer = git(directory, "cat-file", "--batch", given="".join(f"{item.name}\n" for item in files).encode(), do=_OTHERWISE)
    start = 0
    for item in files:
        start = answer.index(b"\n", start) + 1
        yield answer[start : start + item.size]
        start += item.size + 1
