"""The forms that programs make of a private value: functions that work on a value and on its surrogate alike.

Pure, and without a key: `forms_of(member, text)` of the value and of its surrogate come in the same order.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
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
    for form in (text, text.lower()):
        data = form.encode("utf-8", "surrogatepass")
        yield Form("base64", base64.b64encode(data).decode())
        for kind in (hashlib.md5, hashlib.sha1, hashlib.sha256):
            yield Form("hash", kind(data, usedforsecurity=False).hexdigest())
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


class Needles:
    """What is looked for in raw texts to see whether a form may stand in them."""

    def __init__(self, found: frozenset[str]) -> None:
        self._found = found
        self._escaped = _ESCAPED if all(one.isascii() for one in found) else _ANY_ESCAPED

    def occur_in(self, text: str) -> bool:
        """Return whether one of them occurs, in small letters, or may be written with JSON's escapes."""
        small = text.lower()
        return any(one in small for one in self._found) or self._escaped.search(text) is not None
