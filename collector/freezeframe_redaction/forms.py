"""The forms that programs make of a private value: functions that work on a value and on its surrogate alike.

Pure, and without a key: `forms_of(member, text)` of the value and of its surrogate come in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

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


def forms_of_name(words: tuple[str, ...]) -> Iterator[Form]:
    """Yield the forms of a name of several words."""
    first, last = words[0], words[-1]
    for sign in "_-.+":
        yield Form("slug", f"{first}{sign}{last}")
        yield Form("slug", f"{first}{sign}{last}".lower())
    yield Form("glued", f"{first}{last}")
    yield Form("glued", f"{first}{last}".lower())


class Needles:
    """What is looked for in raw texts to see whether a form may stand in them."""

    def __init__(self, found: frozenset[str]) -> None:
        self._found = found
        self._escaped = _ESCAPED if all(one.isascii() for one in found) else _ANY_ESCAPED

    def occur_in(self, text: str) -> bool:
        """Return whether one of them occurs, in small letters, or may be written with JSON's escapes."""
        small = text.lower()
        return any(one in small for one in self._found) or self._escaped.search(text) is not None
