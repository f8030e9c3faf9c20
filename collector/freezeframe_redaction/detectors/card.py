"""Payment cards: network prefix and Luhn, or Luhn alone next to a word for a card."""

from __future__ import annotations

from freezeframe_redaction.detectors import runs
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules import checksums, context
from freezeframe_redaction.rules.read import Rules

CLASS = "CARD"
_RULES = Rules("card")
_FORMS = _RULES.forms

# Issuer prefixes of Visa, Mastercard, Amex, Discover, JCB, Diners, UnionPay, Maestro, Mir, RuPay, Elo.
_GROUPINGS = frozenset(
    {(4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3), (4, 4, 4, 1), (4, 5, 6), (8, 8), (6, 10),
     (4, 4, 4, 4, 2), (4, 8, 4), (4, 12), (6, 13), (5, 4, 6), (4, 4, 5), (4, 4, 4, 3), (4, 4, 6)}
)  # fmt: skip
_COMMON_LENGTHS = frozenset({14, 15, 16})


def rule(run: runs.NumberRun) -> Candidate | None:
    """Take a run that is a card number."""
    length = len(run.digits)
    if (
        run.international
        or not 12 <= length <= 19
        or (run.raw.count(".") == 3 and len(run.groups) == 4 and max(run.groups) < 4)
        or not checksums.luhn(run.digits)
        or not any(char != "0" for char in run.digits)
    ):
        return None
    named = (bool(run.hints & context.HINT_CARD) and context.CARD.search(run.before) is not None) or (
        _FORMS.behind.match(run.text, run.end, run.high) is not None
    )
    ordered = bool(run.hints & context.HINT_ORDER) and context.is_order(run.before)
    if run.bare and ordered:
        return None
    if _FORMS.issuer.match(run.digits) and (run.bare or run.groups in _GROUPINGS) and length >= 13:
        if named or (not run.bare and length != 13):
            return Candidate(run.start, run.end, CLASS, str(length))
        if length in _COMMON_LENGTHS and not ordered:
            return Candidate(run.start, run.end, CLASS, str(length))
    return Candidate(run.start, run.end, CLASS, str(length)) if named and not ordered else None
