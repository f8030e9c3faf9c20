"""Names of people in other scripts: Cyrillic and Greek by the form of surnames, East Asian by a label, a title or a verb of
naming next to a surname, Semitic and Hindi by the word before.
"""

from __future__ import annotations

import re
from functools import cache

from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.detectors.people.names import CLASS
from freezeframe_redaction.detectors.rows import made_of, reaching
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules

_LETTERS = rf"(?:[^\W\d_a-zA-Z]|[{names.MARKS}])"
_RULES = Rules("people_scripts", {"letters": _LETTERS})
_FORMS = _RULES.forms

_CLAUSE_ENDS = r"[ \t]?(?=[,.!?;:()\n\x1f\u060c\u061b\u061f\u06d4\u0964\u0965\"]|$)"


def _announced(said: str, fields: str, stop: str, most: int, glue: str, *, spaced: bool) -> str:
    """Return the pattern of a name of up to `most` words (one more if a clause ends with it) after its announcement.

    These scripts have no capitals, so a name ends by grammar or not at all.
    """
    word = rf"(?!(?:{stop})(?!{_LETTERS})){_LETTERS}{{2,24}}"
    glued = rf"(?:[ ](?:{glue})[ ]?{_LETTERS}{{1,20}})*"
    gap = r"[ \t\n]{1,2}" if spaced else r"[ \t\n]{0,2}"
    return (
        rf"(?<!{_LETTERS})(?:(?:{said}){gap}|(?:{said}|{fields})[ ]?:[ \t\n]{{0,2}})"
        rf"({word}{glued}(?:[ ]{word}){{0,{most - 1}}}{glued}(?:[ ]{word}{_CLAUSE_ENDS})?)(?!{_LETTERS})"
    )


_compiled = cache(re.compile)
"""Compiled when its script is first met: two dozen of them took half the time of importing the redactor."""


def _slavic(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    for pattern in (_FORMS.slavic_official, _FORMS.slavic_full, _FORMS.slavic):
        match = reaching(pattern, text, low, high, at, _REACH, _REACH, begun=True)
        if match is not None:
            good = pattern is not _FORMS.slavic or match[2] or any(map(_FORMS.slavic_surname.search, match.group(1, 3)))
            return (Candidate(*match.span(), CLASS, "slavic"),) if good else ()
    return ()


def _east_asian(text: str, floor: int, ceiling: int) -> tuple[Candidate, ...]:
    # The trigger ends with a run of letters, which East Asian text does not break at names.
    found = (match for pattern in _EAST_ASIAN for match in pattern.finditer(text, floor, ceiling))
    return tuple(Candidate(*match.span(match.lastindex or 0), CLASS, "script") for match in found)


_EAST_ASIAN = tuple(map(_RULES.form, _RULES.entries("east_asian")["forms"]))


def _reads() -> dict[int, list[str]]:
    """Return how names are announced in the languages of each half block of Unicode."""
    made = {0x0300: [_RULES.text("greek")], 0x0380: [_RULES.text("greek")]}
    for row in _RULES.rows("announced"):
        said, fields, stop = (_RULES.filled(row[name]) for name in ("said", "fields", "stop"))
        pattern = _announced(said, fields, stop, row.get("most", 2), row.get("glue", "(?!)"), spaced=row.get("spaced", True))
        for block in row["blocks"]:
            made.setdefault(block, []).append(pattern)
    return made


_READS = _reads()


def _foreign(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended with, or one after, a letter beyond Latin-1, or of Latin-1 beyond ASCII."""
    code = ord(text[at - 1] if text[at - 1].isalpha() or at - 2 < low else text[at - 2])
    floor, ceiling = max(low, at - _REACH), min(high, at + _REACH)
    if code < 0x0370:
        return ()
    if code >= 0x2E80 or 0x1100 <= code < 0x1200:
        return _east_asian(text, floor, ceiling)
    if 0x0400 <= code < 0x0530:
        return _slavic(text, low, high, at)
    for pattern in _READS.get(code & ~0x7F, ()):
        for match in _compiled(pattern).finditer(text, floor, ceiling):
            if match.start() < at <= match.end() + 1:
                return (Candidate(match.start(1), match.end(1), CLASS, "script"),)
    return ()


_REACH = 64
"""Characters before and after a trigger in which a name is read."""

DETECTORS = made_of(_RULES, _foreign)
