"""A name that was found once is that person's name in the whole value: "Thanks, Maria!" after "this is Maria Keller".

Only what stands beside such a find is looked at, so the result stays a function of the value alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from freezeframe_redaction.detectors.lexicon import COMMON
from freezeframe_redaction.detectors.people.names import MARKS
from freezeframe_redaction.walk import Span

CLASS = "PERSON"
_LEAST: Final = 3
"""Letters; shorter words stand for too many other things."""
_FEW: Final = 16
"""Words that are looked for one by one before a text is read."""
_RUN: Final = re.compile(r"[^\W_]+")
_RUN_ON: Final = re.compile("[\u3005\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]+")
"""Scripts without spaces, or whose particles stick to names: ``李建国先生``, ``박지훈은``."""
_MARK: Final = re.compile(f"[{MARKS}]")


def is_telling(word: str) -> bool:
    """Tell whether a name's word can be looked for by itself: it is no small or common word (``Will``, ``May``)."""
    return len(word) >= _LEAST and not word[0].islower() and word.lower() not in COMMON


class Repeats:
    """Finds words of names, whole and in their spelling. Linear in the text, however many they are."""

    def __init__(self, words: Collection[str]) -> None:
        self._few = words if len(words) <= _FEW else None
        self._by_first_run: dict[str, list[str]] = {}
        ordered = sorted(words, key=len, reverse=True)
        run_on = [word for word in ordered if _RUN_ON.fullmatch(word)]
        self._run_on = re.compile("|".join(run_on)) if run_on else None
        for word in ordered:
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
        if self._run_on is not None:
            filled = sorted([*found, *((start, end) for start, end, _ in taken)])
            found = sorted({*found, *_between(self._run_on, text, filled)})
        return found


def _stands_beside(word: str, text: str, taken: Sequence[Span]) -> bool:
    return word in text and text.count(word) > sum(text[start:end] == word for start, end, _ in taken)


def _end_of(words: Sequence[str], text: str, start: int) -> int:
    """Return where the longest of the words that stands whole at `start` ends, or 0."""
    for word in words:
        end = start + len(word)
        if text.startswith(word, start) and not text[end : end + 1].isalnum() and not _MARK.match(text, end):
            return end if start == 0 or not _MARK.match(text, start - 1) else 0
    return 0


def _between(pattern: re.Pattern[str], text: str, filled: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the matches in what the spans, in order, leave of the text."""
    position = 0
    for start, end in (*filled, (len(text), len(text))):
        yield from (match.span() for match in pattern.finditer(text, position, start))
        position = max(position, end)
