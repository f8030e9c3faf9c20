"""Counts different values that got the same surrogate: to a reader of the store, and to a replay, they are one value."""

from __future__ import annotations

from typing import Final

from freezeframe_redaction.policies.classes import CLASSES

ONE_FOR_MANY: Final = frozenset({"DOB"})
"""Classes whose surrogates stand for many values on purpose: every day of a year becomes its first."""
_MOST_KEPT: Final = 100_000


class Collisions:
    """Counts them among one redactor's recent surrogates. Short codes are the likeliest: few surrogates, many codes."""

    __slots__ = ("_late", "_owners", "count")

    def __init__(self) -> None:
        self.count = 0
        """Values whose surrogate another value already had."""
        self._owners: dict[tuple[str, str], str] = {}
        self._late: set[tuple[str, str]] = set()

    def note(self, class_: str, kind: str, value: str, surrogate: str) -> None:
        """Note a new surrogate; spellings of one value (``+49 30``, ``+4930``) are one value."""
        if class_ in ONE_FOR_MANY:
            return
        entry = CLASSES.get(class_)
        if entry is not None:
            value = entry.canonical(value, kind)
        if len(self._owners) + len(self._late) >= _MOST_KEPT:
            self._owners, self._late = {}, set()
        if self._owners.setdefault((class_, surrogate), value) != value and (class_, value) not in self._late:
            self._late.add((class_, value))
            self.count += 1
