"""The scan view of a text: the same text with its disguises taken off, and the way back to the original offsets.

Detectors read the view only, so each is written once, for plain characters: full-width and mathematical letters and digits
become ASCII, every digit of every script becomes 0-9, every dash ``-``, every space a space, zero-width and bidirectional
controls disappear. ASCII text is its own view, at no cost.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from dataclasses import dataclass

# Invisible in most fonts, or combined with the letter before: zero-width, bidirectional controls, soft hyphen, variation
# selectors, combining accents, tag characters.
_DROPPED = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\u0300-\u036f\U000e0000-\U000e007f]+"
)
_LOOKALIKES = str.maketrans(
    {
        "\u2018": "'", "\u2019": "'", "\u201b": "'", "\u02bc": "'", "\u2032": "'",
        "\u201c": '"', "\u201d": '"', "\u2033": '"', "\u2215": "/", "\u2044": "/", "\u2236": ":", "\ua789": ":",
        "\u2024": ".", "\u3002": ".", "\ufe52": ".", "\uff61": ".", "\u2219": ".",
        "\u2212": "-", "\u00b7": ".", "\ufe63": "-", "\uff0d": "-", "\u30fb": ".",
    }
)  # fmt: skip


class _Fold(dict[int, int]):
    """Character to character, filled as characters are met (at most one entry per code point)."""

    def __missing__(self, code: int) -> int:
        folded = self[code] = ord(_fold(chr(code)))
        return folded


def _fold(char: str) -> str:
    if char < "\x80":
        return char
    mapped = char.translate(_LOOKALIKES)
    if mapped != char:
        return mapped
    category = unicodedata.category(char)
    if category == "Nd":
        return str(unicodedata.decimal(char))
    if category == "Zs":
        return " "
    if category == "Pd":
        return "-"
    plain = unicodedata.normalize("NFKC", char)
    if len(plain) != 1:
        return char
    return plain if plain.isascii() or unicodedata.category(plain) != "Nd" else str(unicodedata.decimal(plain))


_FOLD = _Fold()


@dataclass(frozen=True, slots=True)
class View:
    """`text` is what detectors read; `origin[i]` is the original offset of view character i, None where they are the same."""

    text: str
    origin: tuple[int, ...] | None

    def to_original(self, start: int, end: int) -> tuple[int, int]:
        """Return the original span of a view span; dropped characters inside it and right behind it belong to it."""
        if self.origin is None:
            return start, end
        return self.origin[start], self.origin[end]


def view_of(text: str) -> View:
    """Return the scan view of the text."""
    if text.isascii():
        return View(text, None)
    folded = text.translate(_FOLD)
    if _DROPPED.search(folded) is None:
        return View(folded, None)
    kept: list[int] = []
    parts: list[str] = []
    last = 0
    for match in _DROPPED.finditer(folded):
        kept.extend(range(last, match.start()))
        parts.append(folded[last : match.start()])
        last = match.end()
    kept.extend(range(last, len(folded)))
    parts.append(folded[last:])
    kept.append(len(folded))
    return View("".join(parts), tuple(kept))


_SCAN_BYTES: dict[str, str] = {}


def _scan_byte(error: UnicodeError) -> tuple[str, int]:
    """Stand in for what Latin-1 lacks: one byte each, a letter for a letter, so that scan offsets are character offsets."""
    assert isinstance(error, UnicodeEncodeError)
    out: list[str] = []
    for char in error.object[error.start : error.end]:
        byte = _SCAN_BYTES.get(char)
        if byte is None:
            byte = ("\xc9" if char.isupper() else "\xe9") if char.isalpha() else "\xb7"
            _SCAN_BYTES[char] = byte
        out.append(byte)
    return "".join(out), error.end


codecs.register_error("freezeframe.scan", _scan_byte)


def scan_bytes(view: str) -> bytes:
    """Return one byte per character of the view, for the trigger engine."""
    return view.encode("latin-1", "freezeframe.scan")
