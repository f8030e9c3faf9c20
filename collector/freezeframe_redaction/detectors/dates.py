"""Dates of birth: a date right after a word for birth, or right before one (``rules/dates.toml``)."""

from __future__ import annotations

from freezeframe_redaction.detectors.rows import by_name, made_of, value
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules

CLASS = "DOB"
_RULES = Rules("dates")
_AFTER, _BEFORE = map(_RULES.form, ("after", "before"))


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    limit = min(high, at + 90)
    match = _AFTER.match(text, at, limit) or _AFTER.match(text, at - 1, limit)
    if match and match[1].isdigit() and len(match[1]) == 4 and "born" not in text[max(low, at - 10) : at].lower():
        return ()
    return value(match, CLASS)


def _find_before(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``am 4. März 1985 geboren``: the trigger ended in the word after the date."""
    for match in _BEFORE.finditer(text, max(low, at - 34), min(high, at + 8)):
        if match.end() >= at and not match[1].isdigit():
            return value(match, CLASS)
    return ()


DETECTORS = made_of(_RULES, by_name(_find, _find_before))
