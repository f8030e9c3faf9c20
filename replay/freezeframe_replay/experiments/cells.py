"""Cells: what an experiment has finished, kept in its dataset until all of it has, so that a killed one goes on where it was.

::

    unfinished/<key>.json     one file for each replay and each check

The key covers all that decides the result: the recording, the candidate's settings, its code, the repeat. With other code it is
another cell. A finished experiment removes its cells, so that the next one is made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.sources.git import git, git_text
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.keys import canonical_json, digest
from freezeframe_schemas.whole_file import replace_file

_FOLDER: Final = "unfinished"
_VERSION: Final = 1
_LARGE_BYTES: Final = 1_000_000
"""A larger file counts with its size and time."""
_MAX_FILES: Final = 10_000
_RECORDS: Final = frozenset({".jsonl", ".log"})
_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "site-packages", "venv"})


class CellFolder:
    """The finished cells of the experiments on a dataset. Safe to call from any thread.

    Args:
        dataset: its folder.
        fresh: look at no cell of an earlier experiment.
    """

    def __init__(self, dataset: Path, *, fresh: bool = False) -> None:
        self._folder = dataset / _FOLDER
        self._fresh = fresh
        self._used: set[Path] = set()
        self.unwritable = ""
        """The reason if cells cannot be kept."""

    def find(self, *key: Any) -> Any:
        """Return what was kept under a key, or None."""
        path = self._path(key)
        if self._fresh and path not in self._used:
            return None
        try:
            found = json.loads(path.read_bytes())
        except (OSError, ValueError):  # not there
            return None
        self._used.add(path)
        return found

    def keep(self, value: Any, *key: Any) -> None:
        """Keep a JSON value under a key."""
        path = self._path(key)
        try:
            self._folder.mkdir(exist_ok=True)
            replace_file(path, json.dumps(value, ensure_ascii=False))
        except OSError as error:
            self.unwritable = f"{self._folder}: {error.strerror}"
            return
        self._used.add(path)

    def finish(self) -> None:
        """Remove the cells of this experiment."""
        for path in self._used:
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty: another experiment is unfinished; or never made
            self._folder.rmdir()

    def _path(self, key: Iterable[Any]) -> Path:
        return self._folder / f"{digest(canonical_json([_VERSION, *key]))[:32]}.json"


def code_digest(folder: Path, *, but: Sequence[Path] = ()) -> str:
    """Return a digest of a folder's code.

    In git, that is the commit with its uncommitted changes, of the whole repository, without files
    that git ignores. Elsewhere it is all files but hidden and installed ones.

    `but`: files and folders that are left out, as the dataset. Logs and recordings are, too.
    """
    left_out = [path.resolve() for path in but]
    whole = hashlib.sha256()
    try:
        root = Path(git_text(folder, "rev-parse", "--show-toplevel")).resolve()
        inside = [path.relative_to(root) for path in left_out if path != root and path.is_relative_to(root)]
        only = ["--", ".", *(f":(exclude,literal){path}" for path in inside)]
        whole.update(git(root, "rev-parse", "HEAD"))
        whole.update(git(root, "diff", "HEAD", "--binary", *only))
        listed = git(root, "ls-files", "-z", "--others", "--exclude-standard", *only)
        files = [root / name.decode(errors="surrogateescape") for name in listed.split(b"\0") if name]
    except ConfigError:  # no repository, or one without a commit
        root = folder.resolve()
        files = list(islice(_walk(root), _MAX_FILES))
    for path in sorted(files):
        if path.suffix in _RECORDS or any(path.resolve().is_relative_to(one) for one in left_out) or not path.is_file():
            continue
        name = str(path.relative_to(root)).encode(errors="surrogateescape")
        whole.update(name + b"\0" + hashlib.sha256(_content(path)).digest())
    return whole.hexdigest()


def _content(path: Path) -> bytes:
    with contextlib.suppress(OSError):  # not readable: then its size and time must do
        if path.stat().st_size <= _LARGE_BYTES:
            return path.read_bytes()
    stat = path.stat()
    return f"{stat.st_size} {stat.st_mtime_ns}".encode()


def _walk(folder: Path) -> Iterable[Path]:
    for name_of_folder, folders, names in os.walk(folder):
        here = Path(name_of_folder)
        folders[:] = sorted(
            name for name in folders if not (name.startswith(".") or name in _SKIPPED or (here / name / "pyvenv.cfg").exists())
        )
        yield from (here / name for name in sorted(names) if not name.startswith("."))
