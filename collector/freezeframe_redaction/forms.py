"""The forms that programs make of a private value: functions that work on a value and on its surrogate alike.

Pure, and without a key: `forms_of(member, text)` of the value and of its surrogate come in the same order.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from urllib.parse import quote

_ESCAPED: Final = re.compile(r"\\u00[2-7]")
_ANY_ESCAPED: Final = re.compile(r"\\u")
NAME: Final = "PERSON"


class Form(NamedTuple):
    """One form: what it is called, and its text."""

    name: str
    text: str


def forms_of(class_: str, text: str) -> Iterator[Form]:
    """Yield the forms of a value, or of its surrogate, in an order that depends only on the class."""
    yield Form("whole", text)
    yield Form("upper", text.upper())
    yield Form("lower", text.lower())
    if class_ == NAME:
        yield Form("title", text.capitalize())
        return
    yield Form("percent", quote(text, safe=""))
    encoded = _encoded(text)
    yield from encoded
    yield from encoded if text.islower() else _encoded(text.lower())
    if class_ == "EMAIL":
        local = text.rpartition("@")[0]
        for form in (local, local.lower(), local.upper()):
            yield Form("local part", form if len(form) >= _LEAST_LOCAL and not form.isalpha() else "")
    if class_ in _NUMBERS:
        digits = "".join(char for char in text if char.isascii() and char.isdigit())
        yield Form("digits", digits if len(digits) >= _LEAST_DIGITS else "")
    if class_ == "IBAN":
        bare = "".join(filter(str.isalnum, text))
        yield Form("bare", bare)
        yield Form("groups", " ".join(bare[at : at + 4] for at in range(0, len(bare), 4)))


def _encoded(text: str) -> list[Form]:
    data = text.encode("utf-8", "surrogatepass")
    hashes = (kind(data, usedforsecurity=False) for kind in (hashlib.md5, hashlib.sha1, hashlib.sha256))
    return [Form("base64", base64.b64encode(data).decode()), *(Form("hash", made.hexdigest()) for made in hashes)]


_NUMBERS: Final = frozenset(["PHONE", "CARD", "US_SSN", "BANK_ACCOUNT"])
_LEAST_DIGITS: Final = 7
_LEAST_LOCAL: Final = 6
"""Letters of the shortest local part that is looked for by itself; one of letters only may be any word (``support``)."""


def forms_of_name(words: tuple[str, ...]) -> Iterator[Form]:
    """Yield the forms of a name of several words."""
    first, last = words[0], words[-1]
    for sign in "_-.+":
        yield Form("slug", f"{first}{sign}{last}")
        yield Form("slug", f"{first}{sign}{last}".lower())
    yield Form("percent", f"{first}%20{last}")
    yield Form("glued", f"{first}{last}")
    yield Form("glued", f"{first}{last}".lower())
    yield Form("swapped", f"{last}{first}".lower())
    for sign in "_-.":
        yield Form("swapped", f"{last}{sign}{first}".lower())
        yield Form("initial and word", f"{first[0]}{sign}{last}".lower())
    yield Form("initial and word", f"{first[0]}{last}".lower())


_SPELLED: Final = re.compile(r'["\\/\x00-\x1f]')
"""What JSON may spell in more than one way."""


def needles_of(forms: Iterable[str]) -> tuple[str, ...]:
    """Return what a raw text in small letters holds if one of the forms stands in it: as few as possible."""
    kept: list[str] = []
    for one in sorted(
        {form if form.isalnum() else max(_SPELLED.split(form), key=len) for form in map(str.lower, forms)}, key=len
    ):
        if not any(shorter in one for shorter in kept):
            kept.append(one)
    return tuple(kept)


class Needles:
    """What is looked for in raw texts to see whether a form may stand in them: rather too often than too seldom."""

    def __init__(self, found: Iterable[str]) -> None:
        every = tuple(found)
        self._found = tuple(one for one in every if len(one) < _HASH or not _HEX_ONLY.fullmatch(one))
        self._hashes = tuple(set(every).difference(self._found))
        self._escaped = _ESCAPED if all(one.isascii() for one in every) else _ANY_ESCAPED

    def occur_in(self, text: str) -> bool:
        """Return whether one of them occurs, in small letters, or may be written with JSON's escapes."""
        if not (self._found or self._hashes):
            return False
        small = text.lower()
        return (
            any(one in small for one in self._found)
            or ("\\u" in text and self._escaped.search(text) is not None)
            # Few texts hold a hash at all, and looking for each takes longer than seeing that.
            or ("0" * _HASH in small.translate(_HEX) and any(one in small for one in self._hashes))
        )


_HASH: Final = 32
"""Digits of the shortest hash."""
_HEX: Final = {at: "0" if chr(at) in "0123456789abcdef" else " " for at in range(128)}
_HEX_ONLY: Final = re.compile("[0-9a-f]+")
