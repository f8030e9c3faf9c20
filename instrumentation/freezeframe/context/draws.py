"""A run's draws from random generators that its tasks and threads share, and the part that cannot be repeated."""

from __future__ import annotations

import functools
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from freezeframe_schemas.gaps import NOT_SET, Gap, GapKind

MAX_DRAWS: Final = 20_000
"""Readings that one run keeps; a new one starts whenever a different lane draws."""

_OWN: Final = str(Path(__file__).parents[1])

UNRECORDED: Final = "os.urandom"
TOO_MANY: Final = "draws"
NUMPY: Final = "numpy.random"
MAX_STATES: Final = 100
"""States of numpy's shared generator that one run keeps, 3.4 kB each."""

_WORDS: Final = {
    UNRECORDED: (
        f"the program drew from os.urandom, /dev/urandom, secrets or SystemRandom, {NOT_SET}",
        "draw what is not secret from random or uuid, or draw it in a function marked @freezeframe.tool",
    ),
    NUMPY: (
        "tasks or threads took turns at the functions of numpy.random more often than is recorded",
        "give each its own numpy.random.default_rng()",
    ),
    TOO_MANY: (
        "tasks or threads took turns at a shared random generator more often than is recorded",
        "give each its own random.Random",
    ),
}


class Draws:
    """The draws of one run, or of a process that is a run as a whole. Shared by all its tasks and threads."""

    __slots__ = ("_is_reported", "_left", "base", "epochs", "is_drawn", "lost", "state", "states")

    def __init__(self) -> None:
        self.base: tuple[int, int] | None = None
        """The position of the shared generator before the run's first draw: its epoch, and the words drawn in it."""
        self.state: object = None
        """The result of ``random.getstate()`` there. A copy takes 5 us, so neither is noted before the first draw or call."""
        self.is_drawn = False
        """The run drew from the shared generator."""
        self.epochs: set[int] = set()
        """The epochs whose first state the run has noted."""
        self.lost: defaultdict[str, int] = defaultdict(int)
        """Kind of an unrepeatable draw -> its count."""
        self.states = 0
        """Number of numpy's states kept."""
        self._left = MAX_DRAWS
        self._is_reported = False

    def state_to_report(self) -> object:
        """Return the state that the run began with, once, as soon as it has drawn; else None."""
        if self._is_reported or not self.is_drawn:
            return None
        self._is_reported = True
        return self.state

    def take(self) -> bool:
        """Return whether there is room for one more reading."""
        if self._left <= 0:
            self.lost[TOO_MANY] += 1
            return False
        self._left -= 1
        return True

    def gaps(self) -> Iterator[Gap]:
        """Yield a gap for each kind of draw that a replay cannot repeat."""
        for name, count in sorted(self.lost.items()):
            text, do = _WORDS[name]
            yield Gap(kind=GapKind.RANDOM_UNRECORDED, text=text.format(count=count), do=do)


def asker(frame: FrameType | None, libraries: tuple[str, ...]) -> str:
    """Return the file of the first frame that is not in one of the files `libraries`."""
    while frame is not None and frame.f_code.co_filename in libraries:
        frame = frame.f_back
    return "" if frame is None else frame.f_code.co_filename


@functools.cache
def is_of_program(file: str) -> bool:
    """Return whether a file is the program's own: not ours, not installed, not Python's."""
    if not file or file.startswith(("<", _OWN)):
        return False
    path = Path(file).resolve()
    return not any(path.is_relative_to(Path(prefix).resolve()) for prefix in (sys.prefix, sys.base_prefix))
