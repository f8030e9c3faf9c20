"""Dates of birth: a date right after a word for birth, or right before one (``rules/dates.toml``)."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.rows import by_name, made_of, value
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules

CLASS = "DOB"
_RULES = Rules("dates")
_AFTER, _BEFORE, _FIRST_OF_JANUARY = map(_RULES.form, ("after", "before", "first_of_january"))


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    limit = min(high, at + 90)
    match = _AFTER.match(text, at, limit) or _AFTER.match(text, at - 1, limit)
    if match and match[1].isdigit() and len(match[1]) == 4 and "born" not in text[max(low, at - 10) : at].lower():
        return ()
    return value(match, CLASS, is_marked=is_surrogate)


def is_surrogate(value: str) -> bool:
    """Whether the date is the first of January, to which dates of birth are coarsened."""
    return bool(_FIRST_OF_JANUARY.match(value)) or bool(re.fullmatch(r"(?:19|20|18)[0-9]{2}", value))


def _find_before(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``am 4. März 1985 geboren``: the trigger ended in the word after the date."""
    for match in _BEFORE.finditer(text, max(low, at - 34), min(high, at + 8)):
        if match.end() >= at and not match[1].isdigit():
            return value(match, CLASS, is_marked=is_surrogate)
    return ()


DETECTORS = made_of(_RULES, by_name(_find, _find_before))
