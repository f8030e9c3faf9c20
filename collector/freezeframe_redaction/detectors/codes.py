"""Short codes that open something, next to their name: the checks that ``rules/codes.toml`` names."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.rows import by_name, made_of, reaching, value
from freezeframe_redaction.detectors.secrets import CLASS
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.checksums import luhn
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.shapes import digits_of

_RULES = Rules("codes")
_VALUE_FOR = _RULES.form("value_for")
_VALUE, _ASSIGNED, _PIN_BESIDE = map(_RULES.form, ("value", "assigned", "pin_beside"))
_CARD_BESIDE, _DUMP = map(_RULES.form, ("card_beside", "dump"))
_LAST_FOUR, _LAST_FOUR_BEHIND = map(_RULES.form, ("last_four", "last_four_behind"))
_SAID, _YOURS, _BEFORE = map(_RULES.form, ("said", "yours", "before"))
_THE_CODE, _CODE_BEHIND = map(_RULES.form, ("the_code", "code_behind"))
"""What only someone's code is called: ``4041 is the error code`` is not one."""


def _candidate(match: re.Match[str] | None) -> tuple[Candidate, ...]:
    return value(match, CLASS, "code")


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    return _candidate(_VALUE.match(text, at, min(high, at + 40)) or _VALUE_FOR.match(text, at, min(high, at + 60)))


def _find_pin(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    assigned = _ASSIGNED.match(text, at, min(high, at + 16))
    if assigned is not None:
        return _candidate(assigned)
    match = _VALUE_FOR.match(text, at, min(high, at + 60))
    if match is None and text[max(low, at - 3) : at] == "PIN":
        match = _PIN_BESIDE.match(text, at, min(high, at + 16))
    return _candidate(match) if match and len(match.group(1)) > 3 else ()


def _find_last_four(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``last 4 of my SSN 8713``, ``ssn_last4=8713``: what call centres ask for."""
    match = _LAST_FOUR.match(text, at, min(high, at + 80))
    return _candidate(match or _LAST_FOUR_BEHIND.search(text, max(low, at - 16), min(high, at + 12)))


def _find_in_dump(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``4000056655665556|12/27|911``: card, expiry, code."""
    match = reaching(_DUMP, text, low, high, at, 40, 4)
    return value(match, CLASS, "code", 2) if match and luhn(digits_of(match[1])) else ()


def _find_beside_card(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``exp 11/28 cid 4412``: a short word for the code, which means that only next to a card."""
    return _candidate(_VALUE.match(text, at, min(high, at + 16))) if _CARD_BESIDE.search(text, max(low, at - 64), at) else ()


def _find_said(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended on the verb of ``your code is 482913``."""
    if _YOURS.search(text, max(low, at - 48), at) is None and " you " not in text[max(low, at - 24) : at]:
        return ()
    return _candidate(_SAID.match(text, at, min(high, at + 16)))


def _find_before(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended on ``your`` in ``583920 is your verification code``."""
    strict = text[max(low, at - 4) : at].lower() == " the"
    said = (_THE_CODE if strict else _CODE_BEHIND).match(text, at, min(high, at + 40))
    return _candidate(_BEFORE.search(text, max(low, at - 24), at)) if said else ()


DETECTORS = made_of(
    _RULES, by_name(_find, _find_pin, _find_beside_card, _find_last_four, _find_in_dump, _find_said, _find_before)
)
