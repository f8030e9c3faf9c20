"""Known names that run into other words where texts were joined without a space: ``KellerTraceback (most recent call last)``.

A name is one only where its neighbours read as words, and what programs call a thing stays: a word next to the signs or the
keywords of code, and each other mention of it in the same text (``KellerFormatter``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from freezeframe_redaction.casts.spreading import is_ordinary

_UPPER: Final = "A-ZÀ-ÖØ-Þ"
_LOWER: Final = "a-zß-öø-ÿ\u0101-\u017f"
_WORD: Final = f"[{_UPPER}][{_LOWER}]+"
_PIECE: Final = re.compile(rf"[{_UPPER}](?:(?<=[{_LOWER}0-9].)[{_LOWER}]+|[{_LOWER}]+(?=[{_UPPER}0-9]))")
"""A capitalised word in a longer run of letters and digits."""
_MIN_LETTERS: Final = 4
"""Letters of the shortest name that is looked for: three may be any part of random text."""
_LONGEST: Final = 64
"""Letters and digits around a name that are read: longer runs are data."""
_BEFORE: Final = re.compile(rf"(?:{_WORD}|[{_LOWER}]{{2,}}|[0-9])\Z")
_AFTER: Final = re.compile(rf"{_WORD}|[{_UPPER}]{{2,}}(?![{_LOWER}])|[AI](?![^\W_])|[0-9]+(?![^\W_])")
_ESCAPES: Final = ("\\n", "\\t", "\\r")
_SIGN_BEFORE: Final = re.compile(
    r"(?:[.@$#</\\_+=-]|\b(?:as|catch|class|const|def|enum|except|extends|final|fn|from|func|function|impl|implements|import|instanceof"
    r"|interface|let|module|namespace|new|package|private|protected|public|raise|return|static|struct|throw|throws|trait|type|use"
    r"|using|val|var)\s{1,3})\Z"
)
_SIGN_BEHIND: Final = re.compile(r"[(\[{_/=+;]|[.:@](?=\w)|::|->|\s{0,2}(?::?=[^=]|\{)")
_BRACKETS: Final = ('""', "''", "``", "()", "<>", "[]")


def words_in(text: str) -> list[str]:
    """Return the capitalised words in longer runs of letters and digits."""
    return _PIECE.findall(text)


def places(word: str, text: str) -> Iterator[int]:
    """Yield where the word touches other letters or digits."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if text[at - 1 : at].isalnum() or text[end : end + 1].isalnum():
            yield at
        at = text.find(word, end)


def run_around(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return the run of letters and digits around a name, if what the name touches there reads as words; else None."""
    name = text[start:end]
    if end - start < _MIN_LETTERS or not (name[0].isupper() and name[-1].islower()) or is_ordinary(name):
        return None
    low, high = start, end
    while low and start - low < _LONGEST and text[low - 1].isalnum():
        low -= 1
    while high - end < _LONGEST and text[high : high + 1].isalnum():
        high += 1
    if text[low - 1 : low + 1] in _ESCAPES:
        low += 1
    if (low < start and not _BEFORE.search(text, low, start)) or (end < high and not _AFTER.match(text, end, high)):
        return None
    return low, high


def is_called_by_code(text: str, low: int, high: int) -> bool:
    """Return whether this mention of a run of letters and digits is one that programs make: ``new KellerGraph()``."""
    return (
        (low == 0 and high == len(text))
        or text[low - 1 : low] + text[high : high + 1] in _BRACKETS
        or _SIGN_BEFORE.search(text[max(0, low - 16) : low]) is not None
        or _SIGN_BEHIND.match(text, high) is not None
    )
