"""US social security numbers: the dashed shape, or nine digits next to a word for them; never-issued areas are left alone."""

from __future__ import annotations

from freezeframe_redaction.detectors import runs
from freezeframe_redaction.model import CLAIM, Candidate, Example
from freezeframe_redaction.rules import context

CLASS = "US_SSN"


def _named(run: runs.Run) -> bool:
    return bool(run.hints & context.HINT_SSN) and context.SSN.search(run.before) is not None


def rule(run: runs.Run) -> Candidate | None:
    """Take a run that is a social security number."""
    digits = run.digits
    if len(digits) != 9 or run.international:
        return None
    shaped = run.groups == (3, 2, 4) and "." not in run.raw[:1]
    if not shaped and not (_named(run) and run.groups in ((9,), (3, 2, 4), (5, 4), (3, 6), (3, 3, 3))):
        return None
    # Source: SSA, "SSN randomization": areas 000, 666 and 900-999, group 00 and serial 0000 are never issued.
    if digits[:3] in ("000", "666") or digits[3:5] == "00" or digits[5:] == "0000":
        return None
    if digits[0] == "9":
        # A taxpayer number (ITIN) has group 50-65, 70-88, 90-92, 94-99.
        group = int(digits[3:5])
        if not (50 <= group <= 65 or 70 <= group <= 88 or group >= 90):
            return None
    return Candidate(run.start, run.end, CLASS)


def is_nobodys(run: runs.Run) -> Candidate | None:
    """Claim ``912-07-1234``, where surrogates are: no one has it, if no word near says that it is another number."""
    unissued = run.groups == (3, 2, 4) and run.digits[0] == "9" and run.digits[3] in "01234" and run.raw.count("-") == 2
    return Candidate(run.start, run.end, CLAIM) if unissued and not run.hints & context.HINT_BANK else None


NUMBER = runs.NumberKind(
    name="ssn",
    class_=CLASS,
    triggers=(r"(?i)(?:ssn|social security|my social|social is|social number)[^0-9\n\x1f]*[0-9]{3}[ .\-]?[0-9]{2}",),
    examples=(
        Example(text="SSN 123-45-6789", value="123-45-6789", near_miss="SSN 666-12-3456"),
        Example(text="my social security number is 123456789", value="123456789", near_miss="ticket 123456789"),
    ),
)
