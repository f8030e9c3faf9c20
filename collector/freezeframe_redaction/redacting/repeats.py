"""A name that was found once is that person's name in the whole value: "Thanks, Maria!" after "this is Maria Keller".

Only the texts next to such a find are searched, so the result stays a function of the value alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

from freezeframe_redaction.detectors.lexicon import COMMON
from freezeframe_redaction.detectors.people.names import MARKS
from freezeframe_redaction.leaves.tree import Span

CLASS = "PERSON"
_MIN_LETTERS: Final = 3
"""Minimum letters; shorter words are too ambiguous."""
_FEW: Final = 16
"""Number of words that are searched one by one before a text is read."""
_RUN: Final = re.compile(r"[^\W_]+")
_RUN_ON: Final = re.compile("[\u3005\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]+")
"""Scripts without spaces, or whose particles are attached to names: ``李建国先生``, ``박지훈은``."""
_MARK: Final = re.compile(f"[{MARKS}]")


def is_telling(word: str) -> bool:
    """Return whether a name's word can be searched on its own: it is not a short or common word (``Will``, ``May``)."""
    return len(word) >= _MIN_LETTERS and not word[0].islower() and word.lower() not in COMMON


class Repeats:
    """Finds words of names, whole and in the same spelling. Linear in the text, however many words and whatever they are."""

    def __init__(self, words: Collection[str]) -> None:
        self._words = frozenset(words)
        self._few = words if len(words) <= _FEW else None
        self._beyond_ascii = [word for word in words if not word.isascii()]

    # Made when they are needed: most spans hold few names, which occur nowhere else.
    @cached_property
    def _lengths(self) -> dict[str, tuple[int, ...]]:
        """First run of letters -> lengths of the words that begin with it, longest first."""
        runs = ((run.group(), len(word)) for word in self._words if (run := _RUN.match(word)) is not None)
        return _longest_first(runs)

    @cached_property
    def _run_on(self) -> dict[str, tuple[int, ...]]:
        """First letter -> lengths of the words that begin with it, longest first, in scripts without spaces."""
        return _longest_first((word[0], len(word)) for word in self._words if _RUN_ON.fullmatch(word))

    def find(self, text: str, taken: Sequence[Span]) -> list[tuple[int, int]]:
        """Return the places of the words in the text, outside stretches taken already (in order)."""
        found: list[tuple[int, int]] = []
        # Most names occur nowhere else, and counting them costs a fraction of reading the text.
        if self._few is not None and not any(_is_adjacent(word, text, taken) for word in self._few if word in text):
            return found
        edits = iter(taken)
        edit = next(edits, None)
        past = 0
        for run in _RUN.finditer(text):
            lengths = self._lengths.get(run.group())
            start = run.start()
            end = 0 if lengths is None or start < past else self._end_of(lengths, text, start)
            if not end:
                continue
            past = end
            while edit is not None and edit[1] <= start:
                edit = next(edits, None)
            if edit is None or end <= edit[0]:
                found.append((start, end))
        if self._run_on:
            filled = sorted([*found, *((start, end) for start, end, _ in taken)])
            found = sorted({*found, *self._between(text, filled)})
        return found

    def may_contain_form(self, raw: str) -> Iterator[str]:
        """Yield each word that may be in the text, with any escapes if it is JSON. It may yield too many, never too few."""
        if not self._words:
            return
        if self._few is not None:
            yield from (word for word in self._few if word in raw)
        else:
            for run in _RUN.finditer(raw):
                start, end = run.span()
                # The letters of an escape run on into the word after it: ``\\nMaria``, ``\\u2014Maria``.
                for at in (start, start + 1, start + 5) if raw[start - 1 : start] == "\\" else (start,):
                    for length in self._lengths.get(raw[at:end], ()):
                        if raw[at : at + length] in self._words:
                            yield raw[at : at + length]
            yield from (raw[start:end] for start, end in self._between(raw, ()))
        if "\\u" in raw:
            yield from self._beyond_ascii

    def _end_of(self, lengths: Sequence[int], text: str, start: int) -> int:
        """Return the end of the longest whole word at `start`, or 0."""
        for length in lengths:
            end = start + length
            if text[start:end] in self._words and not text[end : end + 1].isalnum() and not _MARK.match(text, end):
                return end if start == 0 or not _MARK.match(text, start - 1) else 0
        return 0

    def _between(self, text: str, filled: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield the words, in scripts without spaces, between the spans (which are in order)."""
        position = 0
        for start, end in (*filled, (len(text), len(text))):
            for run in _RUN_ON.finditer(text, position, start):
                at, last = run.span()
                while at < last:
                    for length in self._run_on.get(text[at], ()):
                        if at + length <= last and text[at : at + length] in self._words:
                            yield at, at + length
                            at += length
                            break
                    else:
                        at += 1
            position = max(position, end)


def _longest_first(pairs: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    lengths: dict[str, set[int]] = {}
    for begin, length in pairs:
        lengths.setdefault(begin, set()).add(length)
    return {begin: tuple(sorted(held, reverse=True)) for begin, held in lengths.items()}


def _is_adjacent(word: str, text: str, taken: Sequence[Span]) -> bool:
    return text.count(word) > sum(text[start:end] == word for start, end, _ in taken)
