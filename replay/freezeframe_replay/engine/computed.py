"""What a program computed from a surrogate where the recorded program had the original: no key can compare that.

A length, a sum of digits, the month of a date of birth, a part cut off: a live text can be shown to be computed from a
surrogate of the run. The recording's text in its place is then computed from the original, or from something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

_MIN_LENGTH: Final = 4
"""Characters of a part that was cut off; a shorter one may be anything, unless it is a code's (``rVhm0``)."""
_DATE: Final = "DOB"
_NAME: Final = "PERSON"
_DAY: Final = ("01", "January", "Jan")
"""Month and day of every surrogate of a date of birth."""


class Computed:
    """Values that may have been computed from the surrogates of one run."""

    def __init__(self, surrogates: Mapping[str, str]) -> None:
        """`surrogates` are surrogate -> class."""
        self._sources = dict(surrogates)
        self._results: dict[str, tuple[str, str]] | None = None

    def add(self, name: str, class_: str) -> None:
        """Add a text that consists of several surrogates: a name of two words."""
        if name not in self._sources:
            self._sources[name] = class_
            self._results = None

    def source_of(self, was: str, now: str) -> tuple[str, str] | None:
        """Return the surrogate from which a live number or month is computed, with its class, or None.

        `was` is what the recording has in its place, which has to be of the same kind.
        """
        if was.isdigit() != now.isdigit() or max(len(was), len(now)) > 9:
            return None
        if self._results is None:
            self._results = {}
            for source, class_ in self._sources.items():
                for result in _results(source, class_):
                    self._results.setdefault(result, (source, class_))
        return self._results.get(now)

    def cut_of(self, was: str, now: str) -> tuple[str, str] | None:
        """Return the surrogate with its class, if a live text differs only in that surrogate's beginning or end.

        The end of a name is its own name.
        """
        for back in (1, -1):
            old, new = was[::back], now[::back]
            same = _in_common(old, new)
            end = len(new) - _in_common(old[same:][::-1], new[same:][::-1])
            for source, class_ in self._sources.items():
                if back < 0 and class_ == _NAME:
                    continue
                least = _MIN_LENGTH - (source.isalnum() and not source.isalpha())
                for length in range(len(source) - 1, max(least, end - same) - 1, -1):
                    if new.endswith(source[::back][:length], 0, end):
                        return source, class_
        return None

    def mailbox_of(self, was: str, now: str) -> tuple[str, str] | None:
        """Return the surrogate of a mail, with its class, whose local part is recorded where a live text joins a name by dots.

        The original was both: a name with dots, and the local part of a mail.
        """
        words = {word.lower() for source, class_ in self._sources.items() if class_ == _NAME for word in source.split()}
        name = now.split(".")
        return self.cut_of(now, was) if len(name) > 1 and words.issuperset(name) else None


def is_sorted(texts: Iterable[str]) -> bool:
    """Return whether texts are in an order that sorting may have given them; two texts always are, so they do not count."""
    held = list(texts)
    return len(held) > 2 and held in (sorted(held), sorted(held, reverse=True))


def _results(source: str, class_: str) -> Iterator[str]:
    if class_ == _DATE:
        yield from _DAY
    digits = [int(char) for char in source if char in "0123456789"]
    for number in (len(source), sum(digits)):
        if number > 9:  # a single digit is too often something else
            yield str(number)


def _in_common(one: str, other: str) -> int:
    """Return how many characters two texts have in common at the beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (first, second) in pairs if first != second), min(len(one), len(other)))
