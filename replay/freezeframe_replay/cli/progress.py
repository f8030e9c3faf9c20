"""Progress of long work: one line on a terminal, from the first second on, removed at the end. Nothing elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Final, Self

from freezeframe_replay.cli.options import terminal_width
from freezeframe_replay.report.render import short

_FIRST_S: Final = 1.0
_NEXT_S: Final = 0.2
_CLEAR: Final = "\r\x1b[2K"


class Progress:
    """Shows on stderr, if that is a terminal, a command's current work and its duration; nothing with `quiet`."""

    def __init__(self, text: str, *, quiet: bool = False) -> None:
        self._text = text
        self._began = time.monotonic()
        self._over = threading.Event()
        self._printing = threading.Lock()
        self._thread: threading.Thread | None = None
        if not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._thread = threading.Thread(target=self._show, name="progress", daemon=True)

    def say(self, text: str) -> None:
        """Replace the line shown before."""
        self._text = text

    def step(self, done: int, total: int, text: str) -> None:
        """Show that `done` of `total` items are done, and the result of the last one."""
        self.say(f"{done} of {total}  {text}")

    def note(self, line: str) -> None:
        """Print a line that stays, on stderr, whether that is a terminal or not."""
        with self._printing:
            print(f"{_CLEAR if self._thread else ''}{line}", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        if self._thread:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread:
            self._thread.join()

    def _show(self) -> None:
        wait_s = _FIRST_S
        while not self._over.wait(wait_s):
            wait_s = _NEXT_S
            seconds = f"  {time.monotonic() - self._began:.0f} s"
            line = short(self._text, terminal_width() - 1 - len(seconds))
            with self._printing:
                print(f"{_CLEAR}{line}{seconds}", end="", file=sys.stderr, flush=True)
        if wait_s == _NEXT_S:
            print(_CLEAR, end="", file=sys.stderr, flush=True)
