"""A name that was found once is that person's name in the whole value: "Thanks, Maria!" after "this is Maria Keller".

Only what stands beside such a find is looked at, so the result stays a function of the value alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from freezeframe_redaction.detectors.lexicon import COMMON
from freezeframe_redaction.walk import Span

CLASS = "PERSON"
_LEAST: Final = 3
"""Letters; shorter words stand for too many other things."""
_FEW: Final = 16
"""Words that are looked for one by one before a text is read."""
_RUN: Final = re.compile(r"[^\W_]+")


def is_telling(word: str) -> bool:
    """Tell whether a name's word can be looked for by itself: it is capitalised and no common word (``Will``, ``May``)."""
    return len(word) >= _LEAST and word[0].isupper() and word.lower() not in COMMON


class Repeats:
    """Finds words of names, whole and in their spelling. Linear in the text, however many they are."""

    def __init__(self, words: Collection[str]) -> None:
        self._few = words if len(words) <= _FEW else None
        self._by_first_run: dict[str, list[str]] = {}
        for word in sorted(words, key=len, reverse=True):
            run = _RUN.match(word)
            if run is not None:
                self._by_first_run.setdefault(run.group(), []).append(word)

    def find(self, text: str, taken: Sequence[Span]) -> list[tuple[int, int]]:
        """Return where the words stand in the text beside what is taken (in order) already."""
        found: list[tuple[int, int]] = []
        # Most names stand nowhere else, and counting them costs a fraction of reading the text.
        if self._few is not None and not any(_stands_beside(word, text, taken) for word in self._few):
            return found
        edits = iter(taken)
        edit = next(edits, None)
        past = 0
        for run in _RUN.finditer(text):
            words = self._by_first_run.get(run.group())
            start = run.start()
            end = 0 if words is None or start < past else _end_of(words, text, start)
            if not end:
                continue
            past = end
            while edit is not None and edit[1] <= start:
                edit = next(edits, None)
            if edit is None or end <= edit[0]:
                found.append((start, end))
        return found


def _stands_beside(word: str, text: str, taken: Sequence[Span]) -> bool:
    return word in text and text.count(word) > sum(text[start:end] == word for start, end, _ in taken)


def _end_of(words: Sequence[str], text: str, start: int) -> int:
    """Return where the longest of the words that stands whole at `start` ends, or 0."""
    for word in words:
        end = start + len(word)
        if text.startswith(word, start) and not text[end : end + 1].isalnum():
            return end
    return 0
