"""Fences: a replay can stop, besides the network, started processes, changed files, and files read from elsewhere.

One audit hook (PEP 578) sees them whatever library they go through; it cannot be removed, so it lives in processes that
do nothing but replay. Code written in C that calls the operating system by itself is not seen.

Up while the recorded entry point runs (for a recorded command: while the program does): imports and set-up are
not part of the run.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from freezeframe.context.current import current_place
from freezeframe.seams.recorder.switch import STAND_IN_PROGRAM
from freezeframe.seams.unmarked.accesses import read_by_program
from freezeframe.seams.unmarked.entrances import IMPORTS
from freezeframe_replay.engine.policy import Fence

SYSTEM: Final = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr")
"""The operating system's own folders."""

_WRITE_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PATHS_WRITTEN: Final[Mapping[str, int]] = {
    "os.chmod": 1, "os.chown": 1, "os.link": 2, "os.mkdir": 1, "os.remove": 1, "os.rename": 2, "os.rmdir": 1,
    "os.setxattr": 1, "os.removexattr": 1, "os.symlink": 2, "os.truncate": 1, "os.utime": 1, "sqlite3.connect": 1,
}  # fmt: skip
"""Audit event -> how many of its first arguments are paths, the last of which is written."""

OnTry = Callable[[Fence, str], BaseException]
OnUnserved = Callable[[str], None]


class Fences:
    """The fences of one replay. `raise_fences` once per process, then up and down with `up`.

    Args:
        fences: the fences to use.
        on_try: called with the fence and the attempt; returns the exception to raise.
        allow_paths: files and directories that may be changed and read anyway.
        allow_programs: programs, by the name of their file, that may be started anyway.
        around_tools: given if tools may run by request; these start no program, whatever the fences, and this is given what
            they read that is not recorded.
        copies: the folder that holds copies of files, by their whole path (see `layer`).
    """

    def __init__(
        self,
        fences: Collection[Fence],
        on_try: OnTry,
        *,
        allow_paths: Collection[Path] = (),
        allow_programs: Collection[str] = (),
        around_tools: OnUnserved | None = None,
        copies: str = "",
    ) -> None:
        self._fences = frozenset(fences)
        self._around_tools = around_tools
        self._copies = copies
        self._on_try = on_try
        self._writable = (*(os.path.realpath(path) for path in allow_paths), "/dev")
        self._programs = frozenset(allow_programs)
        self.up = False
        """True if the fences stop anything at the moment."""

    def raise_fences(self) -> None:
        """Install the audit hook; do nothing if no fence is requested."""
        if not (self._fences or self._around_tools is not None):
            return
        sys.addaudithook(self._hear)
        with suppress(ImportError):  # not on Windows
            _announce_forks()

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.up or not event.startswith(("open", "os.", "subprocess.", "pty.", "sqlite3.")):
            return
        tried = self._tried(event, arguments)
        if tried is not None and not current_place().is_real:  # a tool that runs for real may do anything
            raise self._on_try(*tried)
        if self._around_tools is not None and current_place().run_anew and not IMPORTS:
            read = read_by_program(event, self._without_copies(arguments), sys._getframe(1))
            if read is not None:
                self._around_tools(f"reads {read} as it is now")

    def _without_copies(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        path = arguments[0]
        is_copy = bool(self._copies) and isinstance(path, str) and path.startswith(self._copies)
        return (path.removeprefix(self._copies), *arguments[1:]) if is_copy else arguments

    def _tried(self, event: str, arguments: tuple[Any, ...]) -> tuple[Fence, str] | None:
        """Return the fence that stops an event, and the attempt in words."""
        program = _program(event, arguments)
        if program is not None:
            name, shown = program
            allowed = name in self._programs or shown == " ".join(STAND_IN_PROGRAM)
            is_fenced = Fence.PROCESSES in self._fences or (self._around_tools is not None and current_place().run_anew)
            return (Fence.PROCESSES, shown) if is_fenced and not allowed else None
        if event == "open":
            return self._opened(*arguments[:3])
        if event in _PATHS_WRITTEN and Fence.WRITES in self._fences:
            path = _path(arguments[_PATHS_WRITTEN[event] - 1])
            harmless = path is None or self._is_in(path, self._writable) or _changes_nothing(event, path)
            return None if harmless else (Fence.WRITES, f"{event.removeprefix('os.')} {_shown(str(path))}")
        return None

    def _opened(self, target: Any, mode: str | None, flags: int) -> tuple[Fence, str] | None:
        path = _path(target)
        if path is None:
            return None
        if flags & _WRITE_FLAGS:
            stopped = Fence.WRITES in self._fences and not self._is_in(path, self._writable)
            return (Fence.WRITES, f"open {_shown(path)} {mode or 'for writing'}") if stopped else None
        if Fence.READS not in self._fences or self._is_in(path, (*self._writable, *SYSTEM, *_code_directories())):
            return None
        return (Fence.READS, f"open {_shown(path)}") if os.path.exists(path) else None

    @staticmethod
    def _is_in(path: str, roots: Collection[str]) -> bool:
        return any(path == root or path.startswith(root.rstrip(os.sep) + os.sep) for root in roots)


def _announce_forks() -> None:
    """Audit multiprocessing's way of starting a process as well: it bypasses the call that Python audits."""
    import _posixsubprocess

    module: Any = _posixsubprocess
    fork_exec = module.fork_exec

    @functools.wraps(fork_exec)
    def announced(arguments: Any, executables: Any, *rest: Any) -> Any:
        sys.audit("os.posix_spawn", executables[0], arguments, None)
        return fork_exec(arguments, executables, *rest)

    module.fork_exec = announced


def _program(event: str, arguments: tuple[Any, ...]) -> tuple[str, str] | None:
    """Return the name of the program that an event starts, and its command line; None if it starts none."""
    match event:
        case "subprocess.Popen" | "os.posix_spawn" | "os.exec" | "os.spawn":
            executable, given = (arguments[1], arguments[2]) if event == "os.spawn" else arguments[:2]
            words = [given] if isinstance(given, str | bytes | os.PathLike) else list(given)
            shown = " ".join(_text(word) for word in words)
            return os.path.basename(_text(executable or words[0])), shown
        case "os.system":
            return "sh", _text(arguments[0])
        case "os.fork" | "os.forkpty":
            return "fork", event.removeprefix("os.")
        case "pty.spawn":
            return os.path.basename(_text(arguments[0][0])), " ".join(_text(word) for word in arguments[0])
        case _:
            return None


def _path(target: Any) -> str | None:
    """Return the real path of the target; None for a file descriptor and for an in-memory database."""
    if not isinstance(target, str | bytes | os.PathLike):
        return None
    text = _text(target)
    if text.startswith("file:"):
        text, _, options = text.removeprefix("file:").partition("?")
        text = "" if "mode=memory" in options or "mode=ro" in options else text
    return None if text in ("", ":memory:") else os.path.realpath(text)


def _changes_nothing(event: str, path: str) -> bool:
    """Return whether the call will fail or do nothing: many programs create a directory that exists."""
    return event == "os.mkdir" and os.path.isdir(path)


def _text(value: Any) -> str:
    return os.fsdecode(value) if isinstance(value, str | bytes | os.PathLike) else str(value)


def _shown(path: str) -> str:
    """Return a path below the working directory as relative to it."""
    here = os.path.realpath(os.getcwd()) + os.sep
    return path.removeprefix(here)


def _code_directories() -> tuple[str, ...]:
    """Return the directories of the program's and Python's code."""
    directories = (os.getcwd(), sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path)
    return tuple(dict.fromkeys(os.path.realpath(path) for path in directories if path))
