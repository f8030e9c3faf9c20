"""The forms that programs make of a private value: functions that work on a value and on its surrogate alike.

Pure, and without a key: `forms_of(member, text)` of the value and of its surrogate come in the same order.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import quote

_ESCAPED: Final = re.compile(r"\\u00[2-7]")
_ANY_ESCAPED: Final = re.compile(r"\\u")
NAME: Final = "PERSON"


def forms_of(class_: str, text: str) -> Iterator[str]:
    """Yield the forms of a value, or of its surrogate, in an order that depends only on the class."""
    yield text
    yield text.upper()
    yield text.lower()
    if class_ == NAME:
        yield text.capitalize()
        return
    yield quote(text, safe="")
    yield base64.b64encode(_bytes(text)).decode()
    yield base64.b64encode(_bytes(text.lower())).decode()
    if class_ == "EMAIL":
        local = text.rpartition("@")[0]
        for form in (local, local.lower(), local.upper()):
            yield form if len(form) >= _LEAST_LOCAL and not form.isalpha() else ""
    if class_ in _NUMBERS:
        digits = "".join(char for char in text if char.isascii() and char.isdigit())
        yield digits if len(digits) >= _LEAST_DIGITS else ""
    if class_ == "IBAN":
        bare = "".join(filter(str.isalnum, text))
        yield bare
        yield " ".join(bare[at : at + 4] for at in range(0, len(bare), 4))


def hashes_of(text: str) -> Iterator[str]:
    """Yield the hashes of a value, or of its surrogate, and of it in small letters."""
    for form in (text, text.lower()):
        for kind in (hashlib.md5, hashlib.sha1, hashlib.sha256):
            yield kind(_bytes(form), usedforsecurity=False).hexdigest()


def may_hold_a_hash(text: str) -> bool:
    """Return whether the text, in small letters, has as many hexadecimal digits in a row as a hash; most texts have not."""
    return _SHORTEST_HASH in _bytes(text).translate(_HEX)


_SHORTEST_HASH: Final = b"0" * 32
_HEX: Final = bytes(48 if at in b"0123456789abcdef" else 32 for at in range(256))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


_NUMBERS: Final = frozenset(["PHONE", "CARD", "US_SSN", "BANK_ACCOUNT"])
_LEAST_DIGITS: Final = 7
_LEAST_LOCAL: Final = 6
"""Letters of the shortest local part that is looked for by itself; one of letters only may be any word (``support``)."""


def forms_of_name(words: tuple[str, ...]) -> Iterator[str]:
    """Yield the forms of a name of several words."""
    first, last = words[0], words[-1]
    for sign in "_-.+":
        yield f"{first}{sign}{last}"
        yield f"{first}{sign}{last}".lower()
    yield f"{first}%20{last}"
    yield f"{first}{last}"
    yield f"{first}{last}".lower()
    yield f"{last}{first}".lower()
    for sign in "_-.":
        yield f"{last}{sign}{first}".lower()
        yield f"{first[0]}{sign}{last}".lower()
    yield f"{first[0]}{last}".lower()


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

    def __init__(self, found: Iterable[str], hashed: Sequence[str] = ()) -> None:
        """`hashed` are values of which a hash may stand there."""
        self._found = tuple(found)
        self._hashed = hashed
        self._escaped = _ESCAPED if all(one.isascii() for one in self._found) else _ANY_ESCAPED

    def occur_in(self, text: str) -> bool:
        """Return whether one of them occurs, in small letters, or may be written with JSON's escapes."""
        if not self._found:
            return False
        small = text.lower()
        return (
            any(one in small for one in self._found)
            or ("\\u" in text and self._escaped.search(text) is not None)
            or (may_hold_a_hash(small) and any(made in small for value in self._hashed for made in hashes_of(value)))
        )
