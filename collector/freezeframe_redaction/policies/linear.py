"""Patterns that a policy's author wrote, matched in time linear in the text: none can block the redactor.

Python's engine tries the ways to match one after the other, and ``(a+)+b`` has exponentially many.
Vectorscan has no such patterns, but neither does it have back-references, look-around or large repeats.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any, Final

import hyperscan

_LAZY: Final = re.compile(r"(?<!\\)[*+?}]\?")
_UTF8: Final = hyperscan.HS_FLAG_UTF8
_WAYS: Final = tuple(hyperscan.HS_FLAG_ALLOWEMPTY | way for way in (_UTF8 | hyperscan.HS_FLAG_UCP, _UTF8))
"""Flags for Unicode classes like ``\\w``; for ASCII ones if the engine cannot do that (it then has no ``\\b``)."""


class PatternRefused(ValueError):
    """The engine cannot match the pattern in linear time; the message says why, and quotes nothing."""


class InnerPattern:
    """A pattern looked for inside texts. Safe to share between threads."""

    def __init__(self, pattern: str) -> None:
        """Compile the pattern.

        Raises:
            PatternRefused: it needs more than linear time.
        """
        self._widest = _widest(pattern)
        self._exactly = Whole([pattern])
        self._beginning = _Database([rf"\A(?:{pattern})"])
        self._nearest = min if _LAZY.search(pattern) else max

    def span_ending(self, text: str, low: int, high: int, at: int) -> tuple[int, int] | None:
        """Return the match in ``text[low:high]`` that ends at `at`: the leftmost one, and the longest there.

        For a pattern with a lazy repeat, the shortest.
        """
        # Vectorscan reports where a match ends. It can report the start too, but then it crashes (5.4.12: `a+b` in 512 bytes).
        start = max(low, at - self._widest)
        while start < at:
            if self._exactly.match(text[start:at]):
                data = _encoded(text[start:high])
                end = start + len(data[: self._nearest(end for end in self._beginning.ends(data) if end)].decode())
                if end >= at:
                    return start, end
                start = end
            else:
                start += 1
        return None


class Whole:
    """Patterns of which one must match all of a text. Safe to share between threads."""

    def __init__(self, patterns: Sequence[str]) -> None:
        """Compile the patterns.

        Raises:
            PatternRefused: one of them needs more than linear time.
        """
        self._database = _Database([rf"\A(?:{pattern})\z" for pattern in patterns])

    def match(self, text: str) -> bool:
        """Return whether one of the patterns matches the whole text."""
        return bool(self._database.ends(_encoded(text)))


class _Database:
    """Compiled patterns and the scratch space that each thread needs for itself."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._database = _compile([pattern.encode() for pattern in patterns])
        self._local = threading.local()

    def ends(self, data: bytes) -> list[int]:
        """Return where matches end."""
        found: list[int] = []

        def hit(expression: int, start: int, end: int, flags: int, context: object) -> None:
            found.append(end)

        scratch = getattr(self._local, "scratch", None)
        if scratch is None:
            scratch = self._local.scratch = hyperscan.Scratch(self._database)
        self._database.scan(data, match_event_handler=hit, scratch=scratch)
        return found


def _compile(expressions: Sequence[bytes]) -> Any:
    reason = ""
    for way in _WAYS:
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        try:
            database.compile(expressions=list(expressions), elements=len(expressions), flags=[way] * len(expressions))
        except hyperscan.error as error:
            reason = str(error).rstrip(".")
        else:
            return database
    raise PatternRefused(reason)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _widest(pattern: str) -> int:
    """Return how many characters the pattern matches at most. No public function returns it."""
    return int(re._parser.parse(pattern).getwidth()[1])  # type: ignore[attr-defined]
