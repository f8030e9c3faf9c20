"""Records whose fields are known by their position (``rules/segments.toml``): segments of HL7 v2 and of X12, lines of vCards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.detectors.tables import COLUMN_OF, TableColumn, column_of, judge
from freezeframe_redaction.model import EXAMINED, Candidate
from freezeframe_redaction.rules.read import Rules

_RULES = Rules("segments")
_FORMS = _RULES.forms
_Parts = Mapping[int, TableColumn]
"""Component of a field, counted from one -> what it holds."""
_COLUMNS: Final = COLUMN_OF | {row["name"]: column_of(row, _RULES) for row in _RULES.rows("column")}
_PARTS: Final[Mapping[str, _Parts]] = {
    name: {int(at): _COLUMNS[column] for at, column in parts.items()} for name, parts in _RULES.entries("parts").items()
}


def _fields(name: str) -> Mapping[str, Mapping[int, _Parts]]:
    """Return a table of segments: the name of each -> its fields, counted from one -> what their components hold."""
    return {
        segment: {int(at): _PARTS[part] for places, part in fields.items() for at in places.split()}
        for segment, fields in _RULES.entries(name).items()
    }


_HL7, _X12, _VCARD = map(_fields, ("hl7", "x12", "vcard"))
_LONGEST = 4000


def _hl7(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    return _read(text, at, high, _HL7[text[at - 4 : at - 1]], "|", "^", _FORMS.end_of_hl7)


def _x12(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended after the first fields."""
    name = _last(_FORMS.x12_name, text, max(low, at - 10), at)
    return _read(text, name.end(), high, _X12[name.group()[:-1]], "*", ":", _FORMS.end_of_x12) if name else ()


def _vcard(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended in the first field."""
    name = _last(_FORMS.vcard_name, text, max(low, at - 100), at)
    return _read(text, name.end(), high, _VCARD[name.group(1)], ";", ",", _FORMS.end_of_hl7) if name else ()


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


DETECTORS = made_of(_RULES, _hl7, _vcard, _x12)
