"""Medical identifiers (``rules/medical.toml``), and which runs of digits are provider or record numbers."""

from __future__ import annotations

from freezeframe_redaction.detectors import runs
from freezeframe_redaction.model import Candidate, Example
from freezeframe_redaction.rules import checksums, context
from freezeframe_redaction.rules.read import Rules

CLASS = "MEDID"
_RULES = Rules("medical")
_NPI, _WORD = _RULES.form("npi_said"), context.words(_RULES.text("record_said"))


def rule(run: runs.Run) -> Candidate | None:
    """Take a run that is a provider or record number."""
    if run.international or not run.hints & context.HINT_MEDICAL:
        return None
    digits = run.digits
    if len(digits) == 10 and digits[0] in "12" and _NPI.search(run.before) and checksums.luhn("80840" + digits):
        return Candidate(run.start, run.end, CLASS, "npi")
    if run.bare and 5 <= len(digits) <= 12 and _WORD.search(run.before[-40:]):
        return Candidate(run.start, run.end, CLASS, "record")
    if run.groups[:3] == (4, 5, 1) and "medicare" in run.before:
        return Candidate(run.start, run.end, CLASS, "record")
    return None


NUMBER = runs.NumberKind(
    name="medical: provider or record number",
    class_=CLASS,
    examples=(Example(text="NPI 1234567893", value="1234567893", near_miss="NPI 1234567890"),),
)
