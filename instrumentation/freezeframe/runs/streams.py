"""A program's standard input, output and exit status: part of the input and the outcome of a whole process.

Standard output is watched at the text layer (``print``, ``sys.stdout.write``). Standard input is what the program reads of
it (`seams.typed_input`), and left alone on a terminal. A process never learns its exit status:
Python handles a ``SystemExit`` before anything else can see it. So we watch ``sys.exit``, which argparse, click
and most programs call. If the application's source shows that it may end in another way, or write bytes that
bypass the text layer, these parts are recorded as unknown.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from freezeframe._guard import guard
from freezeframe.context.program import loaded_modules, namespace
from freezeframe.seams import typed_input
from freezeframe.seams.unmarked.accesses import is_applications

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIMIT: Final = 1 << 20
"""Characters, or bytes, beyond which a stream is not kept: a run's outcome should be readable."""

_UNHEARD: Final = {
    "exit": re.compile(rb"SystemExit\(|raise SystemExit|from sys import[\w\s,(]*\bexit|(?<![\w.])(?<!def )(?:exit|quit)\("),
    "stdout_bytes": re.compile(
        rb"stdout\.buffer|stdout\.detach|\bfdopen\(|\bopen\(1\b|os\.write\(|\bdup2?\(|/dev/stdout|/(?:dev|self)/fd|/dev/tty"
    ),
}
"""Part of the outcome -> source text of an application that may bypass our watching of that part."""


class StandardStreams:
    """Listens from `begin` to `end`."""

    def __init__(self) -> None:
        self._printed: list[str] | None = None
        self._room = _LIMIT
        self._read: bytearray | None = None
        self._stdout: Any = None
        self._exit: Any = None
        self._status: int | None = None

    @property
    def outcome(self) -> dict[str, Any]:
        """Return the result of the process, as far as it was watched.

        Shape: ``{"exit": 3, "stdout": "It is in Lyon.\\n"}``; no ``exit`` for status 0. Unknown parts are None,
            and so are the ``stdout_bytes`` of an application that may write some.
        """
        escaped: dict[str, Any] = dict.fromkeys(_UNHEARD)
        with guard("streams.outcome"), contextlib.suppress(OSError):  # a text that is gone, or in an archive: not known
            texts = list(application_texts())
            escaped = {part: None for part, pattern in _UNHEARD.items() if any(map(pattern.search, texts))}
        if self._status is not None:
            escaped["exit"] = self._status
        known = {**escaped, "stdout": self.printed}
        return {part: known[part] for part in ("exit", "stdout", "stdout_bytes") if known.get(part, 0) != 0}

    @property
    def printed(self) -> str | None:
        """Return the text on standard output; None if it was not watched, or is too long."""
        return None if self._printed is None or self._room < 0 else "".join(self._printed)

    @property
    def read(self) -> str | bytes | None:
        """Return the data read from standard input; None if there was none, or too much."""
        text = self._read
        if not text or len(text) > _LIMIT:
            return None
        try:
            return text.decode()
        except UnicodeDecodeError:
            return bytes(text)

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
            with contextlib.suppress(AttributeError):
                del self._stdout.write
            self._stdout = None
        typed_input.watch(None)

    def note_printed(self, text: str) -> None:
        """Note text on standard output, if that is watched."""
        if self._printed is not None and self._room >= 0:
            self._room -= len(text)
            self._printed.append(text)

    def _listen_to_stdout(self) -> None:
        stdout: Any = sys.stdout
        if not isinstance(stdout, io.TextIOWrapper) or "write" in vars(stdout):
            return
        self._printed = []
        write = stdout.write

        def watched(text: str) -> int:
            written = write(text)
            self.note_printed(text)
            return written

        cast("Any", stdout).write = watched
        self._stdout = stdout

    def _listen_to_stdin(self) -> None:
        if typed_input.watch(self._note_read):
            self._read = bytearray()

    def _note_read(self, data: bytes) -> None:
        if self._read is not None and len(self._read) <= _LIMIT:
            self._read += data

    def _listen_to_exit(self) -> None:
        original = sys.exit

        def watched(status: Any = None, /) -> NoReturn:
            """Exit the interpreter by raising SystemExit(status)."""
            if status is None or isinstance(status, int):
                self._status = (status or 0) & 0xFF
            else:  # is printed
                self._status = 1
            original(status)

        self._exit = original, watched
        sys.exit = watched


def application_texts() -> Iterator[bytes]:
    """Yield the text of each module of the application that was imported, and the code that was given as `-c`.

    Raises:
        OSError: a text cannot be read.
    """
    main = getattr(sys.modules.get("__main__"), "__loader__", None)  # Python deletes its `__file__` when it has run
    script = getattr(main, "path", None)
    files = {script: "__main__", **{namespace(module).get("__file__"): name for name, module in loaded_modules().items()}}
    for file, name in files.items():
        if isinstance(file, str) and file.endswith((".py", script or ".py")) and is_applications(file, name):
            yield Path(file).read_bytes()
    if script is None:
        yield " ".join(sys.orig_argv).encode(errors="replace")
