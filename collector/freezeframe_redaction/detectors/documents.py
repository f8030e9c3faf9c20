"""Passports, identity cards and driving licences: the checks that ``rules/documents.toml`` names."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.rows import by_name, made_of, reaching, value
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules

_RULES = Rules("documents")
_ZONE_NAMES, _ZONE_NUMBERS = _RULES.form("zone_names"), _RULES.form("zone_numbers")


def _may_be_number(value: str) -> bool:
    digits = sum(map(str.isdigit, value))
    # A few digits are enough among capitals (``KWT6HMWM1``); a word of prose has none.
    return (
        6 <= len(value) <= 24
        and digits > 0
        and (digits > 3 or value.isupper())
        and re.match(r"(?:19|20)[0-9]{2}-[01][0-9]-", value) is None
    )


def _zone(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The machine-readable zone of a passport or card: a line of names, a line of numbers."""
    match = reaching(_ZONE_NAMES, text, low, high, at, 48, 48, begun=True)
    if match is not None:
        return value(match, "PASSPORT", group=1)
    return value(reaching(_ZONE_NUMBERS, text, low, high, at, 48, 48, begun=True), "PASSPORT", group=0)


DETECTORS = made_of(_RULES, by_name(_zone), {"may_be_number": _may_be_number})
