"""Bank accounts other than IBANs (``rules/bank.toml``), and which runs of digits are account or routing numbers."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors import runs
from freezeframe_redaction.model import Candidate, Example
from freezeframe_redaction.rules import context
from freezeframe_redaction.rules.checksums import weighted
from freezeframe_redaction.rules.read import Rules

CLASS = "BANK_ACCOUNT"
_RULES = Rules("bank")
_ROUTING = re.compile(r"routing|\baba\b|\brtn\b|transit")
_ACCOUNT, _NOT_BANK = _RULES.form("account_said"), _RULES.form("not_bank")


def rule(run: runs.Run) -> Candidate | None:
    """Take a run that is an account or routing number."""
    if run.international or not run.hints & context.HINT_BANK:
        return None
    digits = run.digits
    near = run.before[-36:]
    if len(digits) == 9 and _ROUTING.search(near) and weighted(digits, (3, 7, 1) * 3) % 10 == 0:
        return Candidate(run.start, run.end, CLASS, "routing")
    if (
        len(digits) == 18
        and "clabe" in near
        and -sum(int(c) * w % 10 for c, w in zip(digits[:17], (3, 7, 1) * 6, strict=False)) % 10 == int(digits[17])
    ):
        return Candidate(run.start, run.end, CLASS, "clabe")
    if (
        7 <= len(digits) <= 20
        and _ACCOUNT.search(near)
        and not _NOT_BANK.search(near)
        and (run.bare or " " in run.raw or "-" in run.raw)
    ):
        return Candidate(run.start, run.end, CLASS, "account")
    return None


NUMBER = runs.NumberKind(
    name="bank: routing or account number",
    class_=CLASS,
    examples=(Example(text="ABA routing 021000021", value="021000021", near_miss="routing 021000022"),),
)
