"""The marks by which a surrogate is recognised without a list, for classes in which no real value has such a mark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from freezeframe_redaction.rules.checksums import BECH32
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.invented import holds_invented
from freezeframe_redaction.surrogates.shapes import bare

_IN_SECRETS: Final = ("rDxrDx", "facadefacade", "RDXRDX")
"""Marks that the redactor writes into a secret's surrogate; a credential with one is not replaced again.

Surrogates of short values have no room for one: only the list identifies them.
"""
IN_WALLETS: Final = b"\xfa\xca\xde\x00"
"""Begins the payload of each wallet's surrogate, and ``facadefacade`` that of Ethereum's."""
_FIRST_OF_JANUARY: Final = Rules("dates").form("first_of_january")
_YEAR: Final = re.compile("(?:19|20|18)[0-9]{2}")


def is_marked_secret(value: str) -> bool:
    """Return whether the value is a secret's surrogate."""
    return any(mark in value for mark in _IN_SECRETS)


def _is_marked_wallet(value: str) -> bool:
    """Return whether the witness program begins with the mark, or the digits of Ethereum's."""
    data = value.lower()[value.rfind("1") + 2 : -6]
    bits = "".join(f"{BECH32.find(char):05b}" for char in data[:7])
    return value[2:14].lower() == "facadefacade" or bits[:32] == "".join(f"{byte:08b}" for byte in IN_WALLETS)


def _is_coarse(value: str) -> bool:
    """Return whether the date is the first of January, to which dates of birth are coarsened."""
    return _FIRST_OF_JANUARY.match(value) is not None or _YEAR.fullmatch(value) is not None


_MARKED: Final[Mapping[str, Callable[[str], bool]]] = {
    "SECRET": is_marked_secret,
    "CRYPTO": _is_marked_wallet,
    "DOB": _is_coarse,
    "MAC": lambda value: bare(value).startswith("02005E"),
    "PERSON": holds_invented,
    "ADDRESS": holds_invented,
}


def is_marked(class_: str, value: str) -> bool:
    """Return whether the value is marked as a surrogate of the class.

    For other classes, only the list identifies surrogates.
    """
    return class_ in _MARKED and _MARKED[class_](value)
