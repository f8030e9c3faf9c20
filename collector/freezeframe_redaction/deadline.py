"""How long the redactor may work on one span, in CPU time: a span of dense private data costs seconds per megabyte."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final


class OutOfTimeError(Exception):
    """The work took longer than its deadline. Never leaves the redactor."""


class Deadline:
    """A moment of this thread's CPU time, which other threads and a busy machine do not bring closer."""

    __slots__ = ("_clock", "_end")

    def __init__(self, seconds: float, clock: Callable[[], float] = time.thread_time) -> None:
        """Set the deadline `seconds` from now."""
        self._clock = clock
        self._end = clock() + seconds

    def check(self) -> None:
        """Raise an OutOfTimeError if the deadline has passed."""
        if self._clock() > self._end:
            raise OutOfTimeError

    def has_passed(self) -> bool:
        """Return whether `check` would raise: for a callback from C, through which no exception passes."""
        return self._clock() > self._end


NEVER: Final = Deadline(math.inf, lambda: 0.0)
"""For work that may take as long as it takes."""
EVERY: Final = 64
"""Steps of some 10 us between two looks at the clock, which is a system call."""
