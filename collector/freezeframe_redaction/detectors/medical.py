"""Medical identifiers: record numbers, NPI, DEA, Medicare beneficiary and insurance member numbers."""

from __future__ import annotations

import re

from freezeframe_redaction import checksums
from freezeframe_redaction.detectors import context, runs
from freezeframe_redaction.model import Candidate, Example
from freezeframe_redaction.rows import after, around, reaching, row, value

CLASS = "MEDID"

_NPI = re.compile(r"\bnpi\b|provider (?:id|number)|national provider")
_WORD = context.words(
    r"\bmrn\b|medical rec|patient[ _-]?(?:id|no|number|mrn)|health (?:card|insurance|plan)|chart (?:no|number)|member[ _]?id|beneficiary|medicare|medicaid"
    r"|krankenversich|versicherten-?(?:nummer|nr)|patienten-?(?:nummer|nr|id)|hospital (?:no|number|id)|num[eé]ro de dossier|kvnr|dossier (?:m[eé]dical"
    r"|patient)|policy (?:no|number)|adh[ée]rent|subscriber|historia cl[ií]nica|prontu[aá]rio|cartella clinica|numer pacjenta|病历|病歴|カルテ")  # fmt: skip
_MBI = re.compile(
    r"(?<![0-9A-Za-z])[1-9][AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9][0-9]-?[AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9][0-9]-?[AC-HJKMNP-RT-Y]{2}[0-9]{2}(?![0-9A-Za-z])"
)
_DEA = re.compile(r"(?<![0-9A-Za-z])[ABCDEFGHJKLMPRSTUX][A-Z9][0-9]{7}(?![0-9A-Za-z])")
_DEA_WORD = context.words(r"\bdea\b")
_NAMED = re.compile(
    context.TAGS
    + r"(?:[\s_-]{0,2}(?:number|num|no|nr|nummer|numero|número|numéro|id|card|record|code)\b\.?){0,3}(?:[.·_]{3,60})?[\s\"'()\]:=#：]{0,6}(?:is |was |ist "
    r"|est |es |[eé] )?[\"'#]{0,2}"
    r"((?=[A-Z0-9-]{0,12}[0-9]{3})[A-Z0-9][A-Z0-9-]{3,15}[A-Z0-9](?: [0-9]{2,6}){0,2})(?![\w-])",
    re.IGNORECASE,
)


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


_mbi = around(_MBI, CLASS, 14, 1, "mbi", group=0)


def _dea(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    match = reaching(_DEA, text, low, high, at, 10, 1)
    return value(match, CLASS, "dea", 0) if match and _DEA_WORD.search(context.before(text, low, match.start(), 24)) else ()


_named = after(_NAMED, CLASS, 64, "record", back=1)


_SAID = re.compile(r"MRN[-_]?[0-9]{5,12}(?![\w-])")


_said = around(_SAID, CLASS, 12, 12, "record", group=0, begun=True)
"""``MRN4482719``: the number begins with its name."""


NUMBER = runs.NumberKind(
    name="medical: npi",
    class_=CLASS,
    examples=(Example(text="NPI 1234567893", value="1234567893", near_miss="NPI 1234567890"),),
)
DETECTORS = (
    row("medical: medicare beneficiary", CLASS, _mbi,
        r"(?#codes)\b[1-9][AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9][0-9]-?[AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9][0-9]-?[AC-HJKMNP-RT-Y]{2}[0-9]{2}\b",
        shows=("MBI ⟦1EG4-TE5-MK73⟧",)),
    row("medical: dea", CLASS, _dea, r"(?#codes)\b[ABCDEFGHJKLMPRSTUX][A-Z9][0-9]{7}\b",
        shows=("DEA number ⟦AB1234563⟧", "part AB1234567")),
    row("medical: record number that says so", CLASS, _said, r"\bMRN[\-_]?[0-9]{5}",
        shows=("admitted as ⟦MRN4482719⟧", "MRN12")),
    row("medical: record number", CLASS, _named,
        r"(?i)(?:^|[^A-Za-z0-9])(?:mrn|medical record|patient[ _\-]?(?:id|mrn|no|number)|health card|member ?(?:id|_id|#|no|number)|hicn|medicare|medicaid"
        r"|versicherten-?(?:nummer|nr)|patienten-?(?:nummer|nr|id)|kranken(?:versicherten|versicherungs|kassen)-?(?:nummer|nr)|hospital (?:no|number|id)"
        r"|numéro de dossier|n° de dossier|kvnr|insurance (?:policy )?(?:no|number|#|id)|policy (?:no|number|#)|subscriber (?:id|no|number)|adhérent n°"
        r"|n° adhérent|numéro d.adhérent|historia clínica|dossier médical|prontuário|chart ?(?:no|number|#))(?:[^A-Za-z0-9]|_|$)",
        shows=("MRN: ⟦00482913⟧", "MRN is required")),
)  # fmt: skip
