"""The scan view of a text: the same text without disguises, and the map to the original offsets.

Detectors read the view only, so each is written once, for plain characters: HTML entities, percent-encoding
(once or twice) and ``\\u0040`` are decoded, full-width and mathematical letters and digits become
ASCII, every
digit of every script becomes 0-9, every dash ``-``, every arrow ``:``, every space a space; zero-width and bidirectional
controls and the soft breaks of quoted-printable disappear. Plain ASCII text is its own view, at no cost.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from dataclasses import dataclass
from html.entities import html5
from typing import Final
from urllib.parse import quote

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
        "\u2192": ":", "\u21d2": ":", "\u27a1": ":", "\u279c": ":", "\u2794": ":", "\u27f6": ":",
    }
)  # fmt: skip


_ENTITY: Final = re.compile(r"&(?:amp;)?(?:#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z]{2,24}));")
_PERCENT: Final = re.compile(r"%(?:25)*[0-9a-fA-F]{2}")
# A pattern that begins with a literal is searched for ten times as fast as one that begins with a repeat.
_PERCENTS: Final = re.compile(rf"{_PERCENT.pattern}(?:{_PERCENT.pattern})*")
_ESCAPE: Final = re.compile(r"\\u(?![dD][89a-fA-F])([0-9a-fA-F]{4})")
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]+")

_FORM: Final = re.compile(
    r"(?:https?://[^\s?#]{1,2000}\?)?[^\s&=?{}\"'<>]{1,200}=[^\s&\"'<>{}]*(?:&[^\s&=\"'<>{}]{1,200}(?:=[^\s&\"'<>{}]*)?)*"
)
"""A form or the query of a URL: no white space, so a plus is a space."""
_FIELD: Final = re.compile(r"[^&;]+")
_PIECE: Final = re.compile(r"[A-Za-z0-9/]{12,}")

_Spelled = tuple[int, int, str]
"""Start, end, and the one character spelled there; empty if it spells nothing."""


# Source: RFC 2045, section 6.7, rule 5. Encoders fill their lines; other lines of that length rarely end like that.
_SOFT_BREAK: Final = re.compile(r"(?m)^[^\r\n]{66,75}(=\r?\n)(?=\S)")


def _soft_breaks(text: str) -> list[_Spelled]:
    """Return the line ends that quoted-printable adds to long lines, in a mail that is pasted as text: they spell nothing."""
    return [(*match.span(1), "") for match in _SOFT_BREAK.finditer(text)]


def _entities(text: str) -> list[_Spelled]:
    out: list[_Spelled] = []
    for match in _ENTITY.finditer(text):
        decimal, hexadecimal, name = match.groups()
        if name:
            char = html5.get(f"{name};", "")
        else:
            code = int(decimal) if decimal else int(hexadecimal, 16)
            char = chr(code) if code < 0x110000 else ""
        if len(char) == 1:
            out.append((*match.span(), char))
    return out


def _percents(text: str) -> list[_Spelled]:
    """Return the characters that runs of percent-encoded bytes spell; a run that is not UTF-8 spells nothing."""
    out: list[_Spelled] = []
    for run in _PERCENTS.finditer(text):
        bytes_ = list(_PERCENT.finditer(text, run.start(), run.end()))
        try:
            chars = bytes(int(one.group()[-2:], 16) for one in bytes_).decode()
        except UnicodeDecodeError:
            continue
        at = 0
        for char in chars:
            end = at + len(char.encode())
            out.append((bytes_[at].start(), bytes_[end - 1].end(), char))
            at = end
    return out


def _pluses(form: str) -> list[_Spelled]:
    """Return the pluses that stand for spaces: not those of a key in base64, which no form writes like that."""
    return [
        (at, at + 1, " ")
        for field in _FIELD.finditer(form)
        if "+" in field.group() and not any(_is_mixed(piece) for piece in _PIECE.findall(field.group()))
        for at in range(*field.span())
        if form[at] == "+"
    ]


def _is_mixed(piece: str) -> bool:
    return any(map(str.isdigit, piece)) and any(map(str.isupper, piece)) and any(map(str.islower, piece))


def _escapes(text: str) -> list[_Spelled]:
    return [(*match.span(), chr(int(match.group(1), 16))) for match in _ESCAPE.finditer(text)]


def _spelled(text: str) -> list[_Spelled]:
    """Return the characters that the text spells indirectly, in order. Controls keep their spelling."""
    out = [
        *(_entities(text) if "&" in text else ()),
        *(_percents(text) if "%" in text else ()),
        *(_escapes(text) if "\\u" in text else ()),
        *(_soft_breaks(text) if _has_soft_breaks(text) else ()),
        *(_encoded_words(text) if "=?" in text else ()),
    ]
    return sorted(one for one in out if one[2] >= " " or one[2] in "\t\n\r") if out else out


# Source: RFC 2047, sections 2 and 4.2.
_ENCODED_WORD: Final = re.compile(r"(=\?([A-Za-z0-9_-]{2,20})(?:\*[A-Za-z-]{1,20})?\?[Qq]\?)([^?\s]{1,120})(\?=)")
_IN_WORD: Final = re.compile("_|(?:=[0-9A-Fa-f]{2})+")


def _encoded_words(text: str) -> list[_Spelled]:
    """Return what the encoded words of a mail's headers spell, each as quoted words: ``=?utf-8?Q?J=C3=B6rg_Keller?=``."""
    out: list[_Spelled] = []
    for word in _ENCODED_WORD.finditer(text):
        inner: list[_Spelled] = []
        for spelled in _IN_WORD.finditer(text, *word.span(3)):
            try:
                chars = bytes.fromhex(spelled.group().replace("=", "")).decode(word[2]) if spelled.group() != "_" else " "
            except (LookupError, ValueError):
                break
            at = spelled.start()
            for char in chars:
                end = at + (3 * len(char.encode(word[2])) if spelled.group() != "_" else 1)
                inner.append((at, end, char))
                at = end
            if at != spelled.end():  # a charset with states
                break
        else:
            out += (*word.span(1), '"'), *inner, (*word.span(4), '"')
    return out


def _has_soft_breaks(text: str) -> bool:
    return "=\n" in text or "=\r\n" in text


class _Fold(dict[int, int]):
    """Character to character, filled on demand (at most one entry per code point)."""

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
    """`text` is what detectors read; `origin[i]` is the original offset of view character i, None if they are the same."""

    text: str
    origin: tuple[int, ...] | None

    def to_original(self, start: int, end: int) -> tuple[int, int]:
        """Return the original span of a view span; dropped characters inside it and right after it belong to it."""
        if self.origin is None:
            return start, end
        return self.origin[start], self.origin[end]


def may_differ(text: str) -> bool:
    """Return whether the view of the text may differ from the text; also right for joined texts."""
    return (
        not text.isascii()
        or "&" in text
        or "%" in text
        or "\\u" in text
        or ("=" in text and ("+" in text or "=?" in text or _has_soft_breaks(text)))
    )


def is_form(text: str) -> bool:
    """Return whether the whole text is fields of a form, as bodies and queries have them."""
    # Most texts with a plus have a space as well, which is cheaper to check than whether they are a form.
    return "+" in text and "=" in text and " " not in text and _FORM.fullmatch(text) is not None


def view_of(text: str) -> View:
    spelled = _spelled(text)
    if is_form(text):
        spelled = sorted([*spelled, *_pluses(text)])
    plain, origin = _without_spellings(text, spelled) if spelled else (text, None)
    if plain.isascii():
        return View(plain, None if origin is None else tuple(origin))
    folded = _BEYOND_ASCII.sub(_folded, plain)
    dropped: list[_Spelled] = [(*match.span(), "") for match in _DROPPED.finditer(folded)]
    if not dropped:
        return View(folded, None if origin is None else tuple(origin))
    kept, places = _without_spellings(folded, dropped)
    return View(kept, tuple(places) if origin is None else tuple([origin[at] for at in places]))


def _folded(run: re.Match[str]) -> str:
    return run.group().translate(_FOLD)


def _without_spellings(text: str, spelled: list[_Spelled]) -> tuple[str, list[int]]:
    """Return the text with each spelling as its character, and the original offset of each character and of the end."""
    parts: list[str] = []
    origin: list[int] = []
    last = 0
    for start, end, char in spelled:
        parts += (text[last:start], char)
        origin.extend(range(last, start))
        if char:
            origin.append(start)
        last = end
    parts.append(text[last:])
    origin.extend(range(last, len(text) + 1))
    return "".join(parts), origin


def spell_like(original: str, made: str) -> str:
    """Return the replacement, percent-encoded as often as the original: a URL stays a URL."""
    percent = _PERCENT.search(original) if "%" in original else None
    if percent is not None:
        for _ in range(1, len(percent.group()), 2):
            made = quote(made, safe="")
    elif "+" in original and " " in made and " " not in original:
        made = made.replace(" ", "+")  # a form
    return made


_SCAN_BYTES: dict[str, str] = {}


def _scan_byte(error: UnicodeError) -> tuple[str, int]:
    """Replace characters beyond Latin-1: one byte each, a letter for a letter, so that scan offsets are character offsets."""
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
