"""What a program reads from standard input and writes to standard output: part of the input and the outcome of a whole process.

Standard output is listened to at the text layer (``print``, ``sys.stdout.write``); bytes that go past it are not seen.
Standard input is listened to where Python's own buffer reads it, and left alone on a terminal, where a person types.
"""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from typing import Any, Final, cast

from freezeframe._guard import guard

_LIMIT: Final = 1 << 20
"""Characters, or bytes, beyond which a stream is not kept: a run's outcome is what a person reads."""


class StandardStreams:
    """Listens from `begin` to `end`."""

    def __init__(self) -> None:
        self._printed: list[str] | None = None
        self._room = _LIMIT
        self._read: _Listening | None = None
        self._stdout: Any = None
        self._stdin: Any = None

    @property
    def printed(self) -> str | None:
        """Return what went to standard output; None where it was not heard, or is too much."""
        return None if self._printed is None or self._room < 0 else "".join(self._printed)

    @property
    def read(self) -> str | bytes | None:
        """Return what was taken from standard input; None where nothing was, or too much."""
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

    def end(self) -> None:
        """Put the streams back as they were, unless the program has put others in their place."""
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
