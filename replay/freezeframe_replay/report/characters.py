"""Characters as people see them: an emoji of several code points, a letter with its marks. Pure.

Texts are cut between them, never in one, and tables count the columns that a terminal gives them.
"""

from __future__ import annotations

import unicodedata
from typing import Final

JOINERS: Final = "\u200c\u200d"
"""Join or part two characters: emoji, and letters of Arabic and Indic scripts."""
_MAX_CODE_POINTS: Final = 16
"""Code points of a character, at most: a text of marks alone is cut somewhere."""
_WINDOW: Final = 64
"""Code points that are read before a place to find the character around it."""


def joins(text: str, at: int) -> bool:
    """Return whether a text has a joiner at a place where it joins something: between visible characters beyond ASCII."""
    return text[at] in JOINERS and all(
        side.isprintable() and not side.isascii() for side in (text[at - 1 : at] or "-", text[at + 1 : at + 2] or "-")
    )


def first_of(text: str, most: int) -> str:
    """Return the start of a text, of at most `most` code points and whole characters."""
    return text if len(text) <= most else text[: _edge(text, most)]


def columns(text: str) -> int:
    """Return how many columns of a terminal a printable text takes."""
    return len(text) if text.isascii() else sum(map(_width, _characters(text)))


def fit_start(text: str, most: int) -> str:
    """Return the start of a printable text that fits into the columns."""
    if text.isascii():
        return text[:most]
    kept: list[str] = []
    for character in _characters(text[: _MAX_CODE_POINTS * most]):
        most -= _width(character)
        if most < 0:
            break
        kept.append(character)
    return "".join(kept)


def fit_end(text: str, most: int) -> str:
    """Return the end of a printable text that fits into the columns."""
    if text.isascii():
        return text[len(text) - most :]
    begin = max(len(text) - _MAX_CODE_POINTS * most, 0)
    kept: list[str] = []
    for character in reversed(_characters(text[_edge(text, begin) :])):
        most -= _width(character)
        if most < 0:
            break
        kept.append(character)
    return "".join(reversed(kept))


def _edge(text: str, at: int) -> int:
    """Return the last place up to `at` where a character begins."""
    ends = max(at - _WINDOW, 0)
    while ends and _is_flag(text[ends - 1]):  # they are paired from the first of a row
        ends -= 1
    for character in _characters(text[ends : at + 1]):
        if ends + len(character) > at:
            return ends
        ends += len(character)
    return at


def _characters(text: str) -> list[str]:
    found: list[str] = []
    for char in text:
        if found and _belongs(found[-1], char):
            found[-1] += char
        else:
            found.append(char)
    return found


def _belongs(before: str, char: str) -> bool:
    if char.isascii() or len(before) >= _MAX_CODE_POINTS:
        return False
    if before[-1] == "\u200d" and not before[0].isascii():
        return True
    if _is_flag(char):
        return len(before) == 1 and _is_flag(before)
    is_skin = "\U0001f3fb" <= char <= "\U0001f3ff"
    return char in JOINERS or is_skin or unicodedata.category(char) in ("Mn", "Me", "Mc")


def _is_flag(char: str) -> bool:
    """Return whether it is one of the letters of which two make a flag."""
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _width(character: str) -> int:
    if character.isascii():
        return len(character)
    is_flag = len(character) > 1 and _is_flag(character[0])
    return 2 if is_flag or "\ufe0f" in character or unicodedata.east_asian_width(character[0]) in "WF" else 1
