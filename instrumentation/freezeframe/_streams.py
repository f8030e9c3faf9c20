"""What a program reads and prints, and its exit status: part of the input and the outcome of a whole process.

Standard output is watched at the text layer (``print``, ``sys.stdout.write``); bytes that bypass it are not seen.
Standard input is watched where Python's own buffer reads it, and left alone on a terminal, where a person types.

A process never learns its exit status: Python handles a ``SystemExit`` before anything else can see it. So we watch
``sys.exit``, which argparse, click and most programs call. A script that can end in another way has an unknown status.
"""

from __future__ import annotations

import io
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from freezeframe._guard import guard

_LIMIT: Final = 1 << 20
"""Characters, or bytes, beyond which a stream is not kept: a run's outcome is what a person reads."""

_UNHEARD: Final = re.compile(rb"SystemExit|from sys import|(?<![\w.])(?:exit|quit)\(")
"""Text of a script that may end it without ``sys.exit``."""


class StandardStreams:
    """Listens from `begin` to `end`."""

    def __init__(self) -> None:
        self._printed: list[str] | None = None
        self._room = _LIMIT
        self._read: _Listening | None = None
        self._stdout: Any = None
        self._stdin: Any = None
        self._exit: Any = None
        self._status: int | None = 0

    @property
    def outcome(self) -> dict[str, Any]:
        """Return the result of the process, as far as it was seen.

        Shape: ``{"stdout": "It is in Lyon.\\n", "exit": 3}``; no ``exit`` for status 0, and None if it is unknown.
        """
        heard: dict[str, Any] = {} if self.printed is None else {"stdout": self.printed}
        return heard if self._status == 0 else {**heard, "exit": self._status}

    @property
    def printed(self) -> str | None:
        """Return what went to standard output; None if it was not seen, or is too much."""
        return None if self._printed is None or self._room < 0 else "".join(self._printed)

    @property
    def read(self) -> str | bytes | None:
        """Return what was read from standard input; None if nothing was, or too much."""
        heard = None if self._read is None else self._read.heard
        if not heard or len(heard) > _LIMIT:
            return None
        try:
            return heard.decode()
        except UnicodeDecodeError:
            return bytes(heard)

    def begin(self) -> None:
        """Start to listen."""
        with guard("streams.begin"):
            self._listen_to_stdout()
        with guard("streams.begin"):
            self._listen_to_stdin()
        with guard("streams.begin"):
            self._listen_to_exit()

    def end(self) -> None:
        """Restore the streams, unless the program has replaced them since."""
        if self._exit is not None and sys.exit is self._exit[1]:
            sys.exit = self._exit[0]
        if self._stdout is not None:
            with suppress(AttributeError):
                del self._stdout.write
            self._stdout = None
        if self._stdin is not None and isinstance(getattr(sys.stdin, "buffer", None), io.BufferedReader):
            if cast("Any", sys.stdin.buffer).raw is self._read:
                sys.stdin = self._stdin
            self._stdin = None

    def _listen_to_stdout(self) -> None:
        stdout: Any = sys.stdout
        if not isinstance(stdout, io.TextIOWrapper) or "write" in vars(stdout):
            return
        printed = self._printed = []
        write = stdout.write

        def heard(text: str) -> int:
            written = write(text)
            if self._room >= 0:
                self._room -= len(text)
                printed.append(text)
            return written

        cast("Any", stdout).write = heard
        self._stdout = stdout

    def _listen_to_stdin(self) -> None:
        stdin: Any = sys.stdin
        buffer = getattr(stdin, "buffer", None)
        if not isinstance(stdin, io.TextIOWrapper) or not isinstance(buffer, io.BufferedReader) or stdin.isatty():
            return
        self._read = _Listening(buffer.raw)
        self._stdin = stdin
        sys.stdin = io.TextIOWrapper(
            io.BufferedReader(self._read), encoding=stdin.encoding, errors=stdin.errors, line_buffering=stdin.line_buffering
        )

    def _listen_to_exit(self) -> None:
        script = getattr(sys.modules.get("__main__"), "__file__", None)
        if script and _UNHEARD.search(Path(script).read_bytes()):
            self._status = None
        original = sys.exit

        def heard(status: Any = None, /) -> NoReturn:
            """Exit the interpreter by raising SystemExit(status)."""
            if status is None or isinstance(status, int):
                self._status = (status or 0) & 0xFF
            else:  # is printed
                self._status = 1
            original(status)

        self._exit = original, heard
        sys.exit = heard


class _Listening(io.RawIOBase):
    """A raw stream that keeps what is read from another."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw: Any = raw
        self.heard = bytearray()
        self.name = getattr(raw, "name", "<stdin>")
        self.mode = "rb"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        count = self._raw.readinto(buffer)
        if count and len(self.heard) <= _LIMIT:
            self.heard += memoryview(buffer)[:count]
        return count

    def fileno(self) -> int:
        return self._raw.fileno()

    def isatty(self) -> bool:
        return self._raw.isatty()

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._raw.close()
