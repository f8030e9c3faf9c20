"""A name that was found once is that person's name in the whole value: "Thanks, Maria!" after "this is Maria Keller".

Only what stands beside such a find is looked at, so the result stays a function of the value alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from freezeframe_redaction import walk
from freezeframe_redaction.detectors.lexicon import COMMON

CLASS = "PERSON"
_LEAST = 3
"""Letters; shorter words stand for too many other things."""


def is_telling(word: str) -> bool:
    """Tell whether a name's word can be looked for by itself: it is capitalised and no common word (``Will``, ``May``)."""
    return len(word) >= _LEAST and word[0].isupper() and word.lower() not in COMMON


def pattern_of(words: Iterable[str]) -> re.Pattern[str] | None:
    """Return what finds the words, whole and in this spelling; None where there are none."""
    ordered = sorted({re.escape(word) for word in words}, key=lambda word: (-len(word), word))
    return re.compile(r"(?<![^\W_])(?:" + "|".join(ordered) + r")(?![^\W_])") if ordered else None


def repeats(pattern: re.Pattern[str], leaf: walk.Leaf, taken: Sequence[walk.Span]) -> Iterator[tuple[int, int]]:
    """Yield where the words stand in the leaf, beside what is taken already."""
    if leaf.is_number:
        return
    # Both run from left to right, so one look ahead is enough: linear for any text.
    edits = iter(taken)
    edit = next(edits, None)
    for match in pattern.finditer(leaf.text):
        start, end = match.span()
        while edit is not None and edit[1] <= start:
            edit = next(edits, None)
        if edit is None or end <= edit[0]:
            yield start, end
