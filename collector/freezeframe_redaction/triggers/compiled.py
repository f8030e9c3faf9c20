"""The compiled trigger patterns, kept between processes: compiling takes over a second, reading them back a millisecond.

Only a cache: after any fault in it (no home, another engine, damage), the patterns are compiled again. A file is
written for its owner only, to a temporary name first, and a file that anyone else could have written is not read.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.metadata
import os
import platform
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import hyperscan

from freezeframe_redaction.triggers.view import scan_bytes
from freezeframe_schemas.data_directory import make_private
from freezeframe_schemas.whole_file import replace_file

_VARIABLE: Final = "FREEZEFRAME_CACHE"
"""Directory of the cache; empty turns it off."""


def load_or_compile(expressions: Sequence[tuple[bytes, int]]) -> Any:
    """Return the database of patterns and their ids, from the cache if it is there. Patterns may share an id."""
    path = _path(expressions)
    if path is not None and (database := _load(path)) is not None:
        return database
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[expression for expression, _ in expressions],
        ids=[id_ for _, id_ in expressions],
        elements=len(expressions),
        flags=[0] * len(expressions),
    )
    _give_back()
    if path is not None:
        with contextlib.suppress(OSError, hyperscan.error):
            _save(path, hyperscan.dumpb(database))
    return database


def _give_back() -> None:
    """Return freed memory to the system: compiling takes some 60 MB, and the C library would keep them for this thread."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # only glibc has it
            ctypes.CDLL(None).malloc_trim(0)


def fires_in(pattern: str, text: str) -> bool:
    """Return whether the trigger engine finds the pattern inside a longer text. It folds the case of ASCII only.

    Raises:
        hyperscan.error: the engine cannot look for the pattern.
    """
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=[scan_bytes(pattern)], flags=[0])
    ends: list[int] = []
    data = b"\x1f" + scan_bytes(text) + b"\x1f"
    database.scan(
        data,
        match_event_handler=lambda expression, start, end, flags, context: ends.append(end),
        scratch=hyperscan.Scratch(database),
    )
    return bool(ends)


def _path(expressions: Sequence[tuple[bytes, int]]) -> Path | None:
    """Return the cache file of these patterns, compiled by this engine for this kind of processor."""
    chosen = os.environ.get(_VARIABLE)
    if chosen == "":
        return None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if chosen is None and not os.path.isabs(home):
        return None
    digest = hashlib.sha256()
    patterns = (part for expression, id_ in expressions for part in (expression, str(id_).encode()))
    for part in (importlib.metadata.version("hyperscan").encode(), platform.machine().encode(), *patterns):
        digest.update(len(part).to_bytes(4, "big") + part)
    return Path(chosen or Path(home) / "freezeframe") / f"triggers-{digest.hexdigest()[:32]}.db"


def _load(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
            if not mine or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            database = hyperscan.loadb(file.read(), hyperscan.HS_MODE_BLOCK)
        hyperscan.Scratch(database)  # an engine that cannot run it says so here
    except (OSError, ValueError, hyperscan.error):
        return None
    return database


def _save(path: Path, content: bytes) -> None:
    make_private(path.parent)
    replace_file(path, content, is_private=True)
