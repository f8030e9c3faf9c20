"""Records whose fields are known by their position: segments of HL7 v2 and of X12, lines of vCards.

Source: HL7 v2.5.1, chapters 3 and 6 (PID, NK1, PV1, GT1, IN1); ASC X12, segments NM1, N3, N4, DMG, REF, PER; RFC 6350, 6.2.2
and 6.3.1 (N, ADR).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from freezeframe_redaction.detectors import dates, postcodes
from freezeframe_redaction.detectors.rows import by_name, made_of
from freezeframe_redaction.detectors.tables import COLUMN_OF, Column, judge
from freezeframe_redaction.model import EXAMINED, Candidate
from freezeframe_redaction.rules.read import Rules

_RULES = Rules("segments")
_DATE = Column(class_="DOB", words="", look=re.compile(r"(?:19|20)[0-9]{6}"), is_marked=dates.is_surrogate)
_POSTCODE = Column(class_="ADDRESS", words="", look=re.compile(r"[A-Z0-9]{4,9}(?: [A-Z0-9]{3})?"), kind=postcodes.KIND)
_MEDICAL = Column(class_="MEDID", words="", look=re.compile(r"(?=.*[0-9])[A-Z0-9-]{5,24}", re.IGNORECASE))
_NAME, _STREET, _PHONE, _SSN, _LICENCE = (
    COLUMN_OF[class_] for class_ in ("PERSON", "ADDRESS", "PHONE", "US_SSN", "DRIVING_LICENCE")
)
_Parts = Mapping[int, Column]
"""Component of a field, counted from one -> what it holds."""
_WHOLE_NAME: Final[_Parts] = {1: _NAME, 2: _NAME, 3: _NAME}
_NAME_BEHIND_ID: Final[_Parts] = {2: _NAME, 3: _NAME, 4: _NAME}
_ADDRESS: Final[_Parts] = {1: _STREET, 2: _STREET, 5: _POSTCODE}
_NUMBER: Final[_Parts] = {1: _PHONE}
_RECORD: Final[_Parts] = {1: _MEDICAL}
_ONE_NAME: Final[_Parts] = {1: _NAME}

_HL7: Final[Mapping[str, Mapping[int, _Parts]]] = {
    "PID": {
        **dict.fromkeys((2, 3, 4, 18), _RECORD),
        **dict.fromkeys((5, 6, 9), _WHOLE_NAME),
        **dict.fromkeys((13, 14), _NUMBER),
        7: {1: _DATE},
        11: _ADDRESS,
        19: {1: _SSN},
        20: {1: _LICENCE},
    },
    "NK1": {2: _WHOLE_NAME, 4: _ADDRESS, 5: _NUMBER, 6: _NUMBER},
    "PV1": dict.fromkeys((7, 8, 9, 17), _NAME_BEHIND_ID),
    "GT1": {3: _WHOLE_NAME, 5: _ADDRESS, 6: _NUMBER, 7: _NUMBER, 8: {1: _DATE}, 12: {1: _SSN}},
    "IN1": {16: _WHOLE_NAME, 18: {1: _DATE}, 19: _ADDRESS, 36: _RECORD, 49: _RECORD},
}
_X12: Final[Mapping[str, Mapping[int, _Parts]]] = {
    "NM1": {**dict.fromkeys((3, 4, 5), _ONE_NAME), 9: _RECORD},
    "N3": {1: {1: _STREET}, 2: {1: _STREET}},
    "N4": {3: {1: _POSTCODE}},
    "DMG": {2: {1: _DATE}},
    "REF": {2: {1: _SSN}},
    "PER": {2: {1: _NAME}, 4: {1: _PHONE}, 6: {1: _PHONE}},
}
_VCARD: Final[Mapping[str, Mapping[int, _Parts]]] = {
    "ADR": {3: {1: _STREET}, 6: {1: _POSTCODE}},
    "N": {1: _ONE_NAME, 2: _ONE_NAME, 3: _ONE_NAME},
}
_LONGEST = 4000
_END_OF_HL7 = re.compile(r"[\r\n]|\\r|\\n")
_END_OF_X12 = re.compile(r"[~\r\n]")


def _hl7(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    return _read(text, at, high, _HL7[text[at - 4 : at - 1]], "|", "^", _END_OF_HL7)


_X12_NAME = re.compile(r"\b(?:NM1|N3|N4|DMG|REF|PER)\*")


def _x12(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended after the first fields."""
    name = _last(_X12_NAME, text, max(low, at - 10), at)
    return _read(text, name.end(), high, _X12[name.group()[:-1]], "*", ":", _END_OF_X12) if name else ()


_VCARD_NAME = re.compile(r"(?<![\w.])(?:item[0-9]+\.)?(ADR|N)(?:;[^:\r\n]{0,80})?:")


def _vcard(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended in the first field."""
    name = _last(_VCARD_NAME, text, max(low, at - 100), at)
    return _read(text, name.end(), high, _VCARD[name.group(1)], ";", ",", _END_OF_HL7) if name else ()


def _last(pattern: re.Pattern[str], text: str, start: int, at: int) -> re.Match[str] | None:
    """Return the match nearest to the trigger: those before it are of earlier segments."""
    return next(reversed([*pattern.finditer(text, start, at)]), None)


def _read(
    text: str, at: int, high: int, fields: Mapping[int, _Parts], field: str, component: str, ends: re.Pattern[str]
) -> tuple[Candidate, ...]:
    """Read the segment whose first field begins at `at`."""
    limit = min(high, at + _LONGEST)
    ending = ends.search(text, at, limit)
    end = ending.start() if ending else limit
    out: list[Candidate] = []
    for place, (start, stop) in enumerate(_split(text, at, end, field), 1):
        for first, last in _split(text, start, stop, "~") if place in fields else ():
            for part, (a, b) in enumerate(_split(text, first, last, component), 1):
                column = fields[place].get(part)
                found = judge(text, a, b, column) if column is not None else None
                if found is not None:
                    out.append(found)
    # Segments inside this one are not read again, so that hostile ones cost no more than their length.
    return (*out, Candidate(at, end, EXAMINED))


def _split(text: str, start: int, end: int, sign: str) -> Iterator[tuple[int, int]]:
    while True:
        stop = text.find(sign, start, end)
        if stop < 0:
            yield start, end
            return
        yield start, stop
        start = stop + 1


DETECTORS = made_of(_RULES, by_name(_hl7, _vcard, _x12))
