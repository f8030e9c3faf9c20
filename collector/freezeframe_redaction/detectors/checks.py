"""Checks of a value, or of a match, that the tables of rules name (`where`, `take`) and no grammar says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.checksums import luhn
from freezeframe_redaction.surrogates.plans import is_assigned
from freezeframe_redaction.surrogates.shapes import digits_of

_LEAST_PIECE: Final = 10
_DATE: Final = re.compile("(?:19|20)[0-9]{2}-[01][0-9]-")
_YEAR: Final = re.compile("(?:19|20)[0-9]{2}$")


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _is_no_year(code: str) -> bool:
    return _YEAR.match(code) is None


def _is_random(token: str) -> bool:
    """Whether the token is random: words joined by dashes name a page; a random one mixes digits and letters."""
    longest = max(re.split(r"[-_.~]", token), key=len)
    mixed = sum(map(str.isdigit, longest)) > 1 and any(map(str.isalpha, longest))
    return len(longest) >= _LEAST_PIECE and mixed


def _may_be_document(value: str) -> bool:
    digits = sum(map(str.isdigit, value))
    # A few digits are enough among capitals (``KWT6HMWM1``); a word of prose has none.
    return 6 <= len(value) <= 24 and digits > 0 and (digits > 3 or value.isupper()) and _DATE.match(value) is None


def _code_of_dumped_card(match: re.Match[str]) -> tuple[Candidate, ...]:
    """``4000056655665556|12/27|911``: card, expiry, code."""
    return (Candidate(*match.span(2), "SECRET", "code"),) if luhn(digits_of(match[1])) else ()


WHERE: Final[Mapping[str, Callable[[str], bool]]] = {
    "has_digit": _has_digit,
    "is_assigned": is_assigned,
    "is_no_year": _is_no_year,
    "is_random": _is_random,
    "may_be_document": _may_be_document,
}
TAKES: Final[Mapping[str, Callable[[re.Match[str]], tuple[Candidate, ...]]]] = {"dumped": _code_of_dumped_card}
