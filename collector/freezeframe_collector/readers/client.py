"""The collector's side of readers: starts the host, takes readers from it, ends them. Called from worker threads."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Final

from freezeframe_collector.readers.errors import ClickHouseError
from freezeframe_collector.readers.frames import (
    Bound,
    FrameKind,
    Head,
    QueryFailure,
    Question,
    pack_question,
    payload_of,
    read_frame,
)
from freezeframe_collector.readers.host import KILL, MESSAGE, TAKE
from freezeframe_collector.readers.reader import StorePaths, Walls
from freezeframe_collector.readers.sandbox import NOT_PROTECTED, why_no_sandbox
from freezeframe_schemas.errors import PermanentStoreError, WireError

_LOG = logging.getLogger(__name__)
_OPENING_S: Final = 30.0
"""Maximum time for a reader to open the store and check a statement: some 0.1 s, more on a busy machine."""
_GRACE_S: Final = 1.0
"""The engine ends most statements at their bound by itself, with a better message than a killed process leaves."""


def standing_walls() -> Walls:
    """Return the walls that this machine supports, and log a warning if the kernel's is missing."""
    why = why_no_sandbox()
    if why is not None:
        _LOG.warning("readers are not sandboxed: %s. %s", why, NOT_PROTECTED)
    return Walls(sandbox=why is None)


class ReaderHost:
    """A host process and the readers it makes. It is started with the first question, and again if it ever dies."""

    def __init__(self, paths: StorePaths) -> None:
        self._paths = paths
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._number = 0
        self._closed = False

    def start(self) -> None:
        """Start the host ahead of the first question."""
        with self._lock:
            self._ready()

    def take(self) -> Reader:
        """Return a reader for one question.

        Raises:
            PermanentStoreError: the host cannot be started, or this is closed.
        """
        with self._lock:
            for attempt in (1, 2):
                control = self._ready()
                self._number += 1
                try:
                    control.sendall(MESSAGE.pack(TAKE, self._number))
                    message, descriptors, _, _ = socket.recv_fds(control, MESSAGE.size, 1)
                except OSError:
                    message, descriptors = b"", []
                if len(message) == MESSAGE.size and descriptors:
                    return Reader(self, self._number, socket.socket(fileno=descriptors[0]))
                _LOG.warning("the reader host died (try %d); starting another", attempt)
                self._forget()
        raise PermanentStoreError("the reader host did not start", do="look for its error on the collector's stderr")

    def kill(self, number: int) -> None:
        """End a reader, whatever it is doing. May be called for one that has ended."""
        with self._lock:
            if self._control is not None:
                with suppress(OSError):
                    self._control.sendall(MESSAGE.pack(KILL, number))

    def close(self) -> None:
        """End the host and with it every reader."""
        with self._lock:
            self._closed = True
            self._forget()

    def _ready(self) -> socket.socket:
        if self._closed:
            raise PermanentStoreError("the store is closed")
        if self._control is not None:
            return self._control
        cold = self._paths.cold
        paths = replace(self._paths, writer=self._paths.writer.resolve(), cold=None if cold is None else cold.resolve())
        about = json.dumps(asdict(paths), default=str)
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "freezeframe_collector.readers.host", about], stdin=theirs.fileno()
            )
        self._control = ours
        return ours

    def _forget(self) -> None:
        control, self._control = self._control, None
        process, self._process = self._process, None
        if control is not None:
            control.close()
        if process is not None:
            try:
                process.wait(5)  # it ends by itself when the control socket closes
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Reader:
    """One reader process, for one question."""

    def __init__(self, host: ReaderHost, number: int, channel: socket.socket) -> None:
        self._host = host
        self._number = number
        self._channel = channel
        self._patience_s = _OPENING_S
        self._late = "the statement could not be checked in time"

    def kill(self) -> None:
        """End the process. May be called from any thread; `ask` then raises."""
        self._host.kill(self._number)

    def ask(self, question: Question) -> Generator[Head | bytes | str]:
        """Yield a `Head` and the pieces of the answer; or, for SET and USE, the statement to repeat in its session.

        The process ends no later than the generator.

        Raises:
            ClickHouseError: the statement failed, ran too long, or its process was ended.
        """
        try:
            self._channel.sendall(pack_question(question))
            yield from self._frames()
        except WireError as error:
            raise ClickHouseError(1002, "UNKNOWN_EXCEPTION", str(error)) from error
        except (BrokenPipeError, ConnectionResetError):
            raise _ended() from None
        finally:
            self.kill()
            self._channel.close()

    def _frames(self) -> Generator[Head | bytes | str]:
        while True:
            kind, payload = read_frame(self._read)
            match kind:
                case FrameKind.BOUND:
                    seconds = payload_of(Bound, payload).seconds
                    self._patience_s = seconds + _GRACE_S
                    self._late = f"Timeout exceeded: the statement was stopped after {seconds:g} seconds"
                case FrameKind.HEAD:
                    yield payload_of(Head, payload)
                case FrameKind.PIECE:
                    yield payload
                case FrameKind.CONTROL:
                    yield payload.decode(errors="replace")
                case FrameKind.FAILURE:
                    failure = payload_of(QueryFailure, payload)
                    error = ClickHouseError(failure.code, "", "")
                    error.text = failure.text
                    raise error
                case FrameKind.END:
                    return
                case _:
                    raise WireError(f"reader: found a frame {kind.name} in an answer")

    def _read(self, size: int) -> bytes:
        """Return `size` bytes. Only the time spent waiting here counts against the bound, not that of a slow client."""
        data = bytearray()
        while len(data) < size:
            started = time.monotonic()
            self._channel.settimeout(max(self._patience_s, 0.001))
            try:
                more = self._channel.recv(min(size - len(data), 1 << 20))
            except TimeoutError:
                raise ClickHouseError(159, "TIMEOUT_EXCEEDED", self._late) from None
            self._patience_s -= time.monotonic() - started
            if not more:
                raise _ended()
            data += more
        return bytes(data)


def _ended() -> ClickHouseError:
    return ClickHouseError(
        394, "QUERY_WAS_CANCELLED", "the statement was ended by KILL QUERY, by lack of memory, or because its engine died"
    )
