"""Progress of long work, on stderr: one line that updates itself on a terminal, one line per item elsewhere."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from freezeframe_replay.cli.options import terminal_width
from freezeframe_replay.report.render import short


@dataclass(slots=True, kw_only=True)
class Waiting:
    """Says on a terminal how far one long piece of work is; nothing elsewhere, or with `quiet`. Leaves no trace."""

    quiet: bool = False
    _has_said: bool = False

    def say(self, text: str) -> None:
        """Replace what was said before."""
        if not self.quiet and sys.stderr.isatty():
            self._has_said = True
            print(f"\r\x1b[2K{short(text, terminal_width() - 1)}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take away what was said."""
        if self._has_said:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


@dataclass(slots=True, kw_only=True)
class Progress:
    """Shows the progress of work; nothing with `quiet`."""

    quiet: bool = False

    def step(self, done: int, total: int, text: str) -> None:
        """Report that `done` of `total` items are done, and the result of the last one."""
        if self.quiet:
            return
        line = short(f"{done} of {total}  {text}", terminal_width() - 1)
        if sys.stderr.isatty():
            end = "\n" if done == total else ""
            print(f"\r\x1b[2K{line}", end=end, file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)
