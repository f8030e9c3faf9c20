"""The host of readers: a warm process with one thread that forks a reader for each statement.

Started by the collector as a separate program, never forked from it: a fork of a process with an engine in it hangs. The
control socket is its standard input. It answers ``T`` (take) with a channel to a reader, and ends the reader on ``K`` (kill).

A reader sees the parts that were there when it opened. After a question one is forked ahead, and used if
nothing in the store has changed since (`catalog.state_of`); else a fresh one is forked, which attaches only the
tables of its question. If no
question comes, it ends.

Its folder of temporary files goes when it ends. A host that is killed cannot remove it; the next host does.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from freezeframe_collector.readers.catalog import state_of
from freezeframe_collector.readers.reader import StorePaths, serve_one
from freezeframe_collector.store.chdb_module import load_engine
from freezeframe_schemas.records import from_json

MESSAGE: Final = struct.Struct("!cQ")
TAKE: Final = b"T"
KILL: Final = b"K"
IDLE_S: Final = 60.0
"""Time that a reader forked ahead waits for a question: it holds some 60 MB."""
_FOLDER: Final = "freezeframe-readers-"
"""Prefix of the names of the hosts' folders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    pid: int
    own: Path
    channel: socket.socket
    opened_at: tuple[tuple[str, int], ...]
    """The state of the store before it opened."""


class Host:
    """Forks readers and reaps them."""

    def __init__(self, engine: Any, paths: StorePaths, control: socket.socket, folder: Path) -> None:
        self._engine = engine
        self._paths = paths
        self._control = control
        self._folder = folder
        self._given: dict[int, _Reader] = {}
        self._ahead: _Reader | None = None
        self._last: tuple[tuple[str, int], ...] = ()
        self._made = 0

    def run(self) -> None:
        """Serve until the collector closes the control socket."""
        wake, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.signal(signal.SIGCHLD, _wake)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        try:
            while True:
                ready, _, _ = select.select([self._control, wake], [], [], None if self._ahead is None else IDLE_S)
                if not ready:
                    self._end_ahead()
                if wake in ready:
                    os.read(wake, 4096)
                    self._bury()
                if self._control in ready:
                    message = self._control.recv(MESSAGE.size, socket.MSG_WAITALL)
                    if len(message) < MESSAGE.size:
                        return
                    kind, number = MESSAGE.unpack(message)
                    if kind == TAKE:
                        self._give(number)
                    elif number in self._given:
                        _kill(self._given[number].pid)
        finally:
            for reader in (*self._given.values(), *([] if self._ahead is None else [self._ahead])):
                _kill(reader.pid)
                with suppress(ChildProcessError):
                    os.waitpid(reader.pid, 0)  # until then it may write to its folder

    def _give(self, number: int) -> None:
        now = state_of(self._paths.writer, self._paths.cold)
        if self._ahead is not None and self._ahead.opened_at != now:
            self._end_ahead()
        ahead, self._ahead = self._ahead, None
        reader = ahead or self._fork(now, ahead=False)
        self._given[number] = reader
        with reader.channel:
            socket.send_fds(self._control, [MESSAGE.pack(TAKE, number)], [reader.channel.fileno()])
        # another question is likely to follow while nothing changes; while spans come in, a reader made now would be stale
        if now == self._last:
            self._ahead = self._fork(now, ahead=True)
        self._last = now

    def _end_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            _kill(ahead.pid)
            self._given[-ahead.pid] = ahead  # reaped when it has ended
            ahead.channel.close()

    def _fork(self, state: tuple[tuple[str, int], ...], *, ahead: bool) -> _Reader:
        self._made += 1
        own = self._folder / str(self._made)
        own.mkdir(mode=0o700)
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGCHLD, signal.SIGTERM):
                    signal.signal(number, signal.SIG_DFL)
                self._control.close()
                ours.close()
                sys.stderr.close()
                for reader in self._given.values():
                    reader.channel.close()
                serve_one(self._engine, self._paths, own, theirs.fileno(), ahead=ahead)
                code = 0
            finally:
                os._exit(code)
        theirs.close()
        return _Reader(pid=pid, own=own, channel=ours, opened_at=state)

    def _bury(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            number = next((key for key, reader in self._given.items() if reader.pid == pid), None)
            reader = self._given.pop(number) if number is not None else None
            if reader is None and self._ahead is not None and self._ahead.pid == pid:
                reader, self._ahead = self._ahead, None
                reader.channel.close()
            if reader is not None:
                shutil.rmtree(reader.own, ignore_errors=True)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _wake(number: int, frame: object) -> None:
    """Do nothing: the signal is written to the wake-up pipe."""


def _end(number: int, frame: object) -> None:
    sys.exit(0)


def _make_folder() -> Path:
    """Return a new folder, after removing those that killed hosts of this user left behind.

    A host and its readers hold a lock on their folder, which the kernel releases when the last of them is gone. If another host
    removes a folder before it is locked, this host ends, and the collector starts the next.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        with suppress(OSError):  # in use, or just removed
            if left.lstat().st_uid == os.geteuid():
                _lock(left)
                shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=_FOLDER))
    _lock(made)
    return made


def _lock(folder: Path) -> None:
    """Lock a folder until this process and its readers are gone."""
    fcntl.flock(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW), fcntl.LOCK_EX | fcntl.LOCK_NB)


def main() -> None:
    """Run a host: ``python -m freezeframe_collector.readers.host SHELF``, the control socket on standard input."""
    paths = from_json(StorePaths, json.loads(sys.argv[1]), "paths")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the collector, and that ends the host
    signal.signal(signal.SIGTERM, _end)
    engine = load_engine()
    control = socket.socket(fileno=os.dup(0))
    quiet = os.open(os.devnull, os.O_RDWR)
    os.dup2(quiet, 0)
    os.dup2(quiet, 1)
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)  # the collector's log has the reason for a host's end
    os.dup2(quiet, 2)  # the engine complains there of files that the sandbox hides
    gc.freeze()
    folder = _make_folder()
    try:
        Host(engine, paths, control, folder).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
