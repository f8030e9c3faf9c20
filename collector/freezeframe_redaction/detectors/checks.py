"""Checks of a value, or of a match, that the tables of rules name (`where`, `take`) and no grammar says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from freezeframe_redaction.model import CLAIM, Candidate
from freezeframe_redaction.rules.checksums import luhn
from freezeframe_redaction.surrogates.marks import is_marked
from freezeframe_redaction.surrogates.plans import is_assigned
from freezeframe_redaction.surrogates.shapes import bare, digits_of

_LEAST_PIECE: Final = 10
_DATE: Final = re.compile("(?:19|20)[0-9]{2}-[01][0-9]-")
_FEAST: Final = re.compile(r"(?i)\bfor (?:my|his|her|our|their) birthday\W?\Z")
"""What happens on a birthday is not on the date of birth: ``for my birthday on March 22, 2021``."""
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


def _birthday(match: re.Match[str]) -> tuple[Candidate, ...]:
    """A date, or a year that is said to be one of birth: ``born 1985``."""
    if _FEAST.search(match.string, max(0, match.start() - 24), match.start()):
        return ()
    said = match.string[max(0, match.start() - 9) : match.start() + 1].rpartition("\x1f")[2].lower()
    if match[1].isdigit() and len(match[1]) == len("1985") and "born" not in said:
        return ()
    return (Candidate(*match.span(1), CLAIM if is_marked("DOB", match[1]) else "DOB"),)


WHERE: Final[Mapping[str, Callable[[str], bool]]] = {
    "has_digit": _has_digit,
    "is_assigned": is_assigned,
    "is_no_number": lambda text: not text.isdigit(),
    "is_no_year": _is_no_year,
    "is_one_of_many": lambda mac: len(set(bare(mac)) - {"0"}) > 0 and set(bare(mac)) != {"F"},
    "is_random": _is_random,
    "may_be_document": _may_be_document,
}
TAKES: Final[Mapping[str, Callable[[re.Match[str]], tuple[Candidate, ...]]]] = {
    "birthday": _birthday,
    "dumped": _code_of_dumped_card,
}
