"""Numbers that are spelled digit by digit, as in transcripts of calls."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors import phone
from freezeframe_redaction.detectors.rows import by_name, made_of, reaching
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules import context
from freezeframe_redaction.rules.checksums import luhn
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates import spoken
from freezeframe_redaction.surrogates.shapes import is_marked_card

_REACH = 320
"""Characters that the longest run may take before the trigger's end, or after it."""
_CODE = re.compile(r"\b(?:pin|code|passcode|otp|cvv|cvc)\b[^.?!]{0,24}$")


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    match = reaching(spoken.RUN, text, low, high, at, _REACH, _REACH)
    if match is None or match.start() >= at:
        return ()
    class_ = _class_of(spoken.digits_in(match.group()), context.before(text, low, match.start()))
    return (Candidate(*match.span(), class_, "code" if class_ == "SECRET" else spoken.KIND),)


def _class_of(digits: str, before: str) -> str:
    """Return what the digits are: an empty text if they are few and no word says what they are for."""
    length = len(digits)
    if length == 9 and context.SSN.search(before):
        return "US_SSN"
    if 13 <= length <= 19 and luhn(digits):
        return "*" if is_marked_card(digits) else "CARD"
    if 4 <= length <= 8 and _CODE.search(before):
        return "SECRET"
    if length >= _LEAST_PHONE and (length >= _LEAST_UNSAID or context.PHONE.search(before)):
        return phone.CLASS
    return ""


_LEAST_PHONE = 7
_LEAST_UNSAID = 9
"""Digits of a number that needs no word: no one counts that far."""

DETECTORS = made_of(Rules("spelled", spoken.DIGITS), by_name(_find))
