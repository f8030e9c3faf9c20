"""Limits of CPU time for redacting a span, and a request: dense private data costs seconds per megabyte."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final


class OutOfTimeError(Exception):
    """The work took longer than its deadline. Never leaves the redactor."""


_CHARACTERS: Final = 4096
"""Read between two looks at the clock, which is a system call."""
_PER_TEXT: Final = 64
"""Characters that take as long to read as a text takes beside its own."""


class Deadline:
    """A moment of this thread's CPU time, independent of other threads and a busy machine."""

    __slots__ = ("_clock", "_end", "_read", "waited")

    def __init__(self, seconds: float, clock: Callable[[], float] = time.thread_time) -> None:
        """Set the deadline `seconds` from now."""
        self._clock = clock
        self._end = clock() + seconds
        self._read = 0
        self.waited = 0.0
        """Seconds spent waiting for detectors on other servers, which take no time of this thread."""

    def check_for(self, characters: int) -> None:
        """Call this before reading that number of characters; it looks at the clock every few thousand."""
        self._read += characters + _PER_TEXT
        if self._read > _CHARACTERS:
            self._read = 0
            self.check()

    def check(self) -> None:
        """Raise an OutOfTimeError if the deadline has passed."""
        if self._clock() > self._end:
            raise OutOfTimeError

    def has_passed(self) -> bool:
        """Return whether `check` would raise: for a callback from C, through which no exception passes."""
        return self._clock() > self._end


NEVER: Final = Deadline(math.inf, lambda: 0.0)
"""For work without a time limit."""


class Allowance:
    """Time for reading the spans of one request, and for hashing the rest unread after that."""

    __slots__ = ("_clock", "_seconds", "_to_hash", "to_read")

    def __init__(self, seconds: float, clock: Callable[[], float] = time.thread_time) -> None:
        """Allow `seconds` for each."""
        self._seconds, self._clock = seconds, clock
        self._to_hash: Deadline | None = None
        self.to_read = Deadline(seconds, clock)

    @property
    def to_hash(self) -> Deadline:
        """The deadline of hashing: it counts from the end of reading, however long the last span took."""
        if self._to_hash is None:
            if not self.to_read.has_passed():
                return NEVER
            self._to_hash = Deadline(self._seconds, self._clock)
        return self._to_hash


UNBOUNDED: Final = Allowance(math.inf, lambda: 0.0)
"""For spans that belong to no request."""
EVERY: Final = 64
"""Steps of some 10 us between two looks at the clock."""
