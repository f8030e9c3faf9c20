"""Tables in text:

CSV, TSV, markdown and the rows of an INSERT. The heading of a column determines the class of its cells; in a
record, the place of a field does.

A trigger fires on a heading; the rows below it are read as long as they have as many cells as the heading line.
A cell must still look like its class, so ``n/a`` or ``string`` in a column of ``phone`` stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from freezeframe_redaction.detectors import phone
from freezeframe_redaction.detectors.people.names import is_known, is_plain_given_name
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.leaves.tables import cells
from freezeframe_redaction.model import EXAMINED, Candidate
from freezeframe_redaction.rules.fields import field_of
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.marks import is_marked

_RULES = Rules("columns")
_FORMS = _RULES.forms

_MAX_ROWS = 100_000
_MAX_WORDS = 4
"""Words of a heading; anything longer is a sentence with commas."""
_DELIMITERS = "\t|;,"
_MAX_HEADINGS_LENGTH = 1000
"""Characters of a line of headings."""
_MAX_LONE_HEADING_LENGTH = 40
"""Characters of a heading that is alone on its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """Class of the cells of a column, or of the fields at one position."""

    class_: str
    words: str
    """The headings, as alternatives; a space stands for any joint (``birth date``, ``birth_date``)."""
    look: re.Pattern[str]
    """Form of its cells."""
    kind: str = ""

    @property
    def headings(self) -> str:
        return self.words.replace(" ", "[ _-]?")


_FULL_NAME = _RULES.text("full_name")


def _column_of(row: Mapping[str, Any], rules: Rules) -> TableColumn:
    return TableColumn(
        class_=row["class"],
        words=rules.filled(row.get("words", "")),
        look=re.compile(rules.filled(row["look"])),
        kind=row.get("kind", ""),
    )


_COLUMNS = tuple(_column_of(row, _RULES) for row in _RULES.rows("column"))
_COLUMN_OF = {column.class_: column for column in reversed(_COLUMNS)}
"""Class -> the first of its columns."""
_HEADINGS = tuple((re.compile(column.headings, re.IGNORECASE), column) for column in _COLUMNS)
_HALVES = (frozenset(["first", "last"]), frozenset(["given", "family"]))
"""Headings that mean names only together."""


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    return read_table(text, low, high, at, _column)


def read_table(
    text: str, low: int, high: int, at: int, column_of: Callable[[list[str], int], TableColumn | None]
) -> tuple[Candidate, ...]:
    """Read the table that has a heading which ended just before `at`: all its columns at once.

    `column_of` gives the column of the heading at a place among all headings.
    """
    floor = max(low, at - _MAX_HEADINGS_LENGTH)
    begin = max(floor, text.rfind("\n", floor, at - 1) + 1)
    opening, closing = text.rfind("(", begin, at - 1), text.find(")", at - 1, min(high, at + 400))
    inserted = _FORMS.values.match(text, closing, high) if opening >= 0 and closing >= 0 else None
    copied = _FORMS.copied.match(text, closing, high) if inserted is None and opening >= 0 and closing >= 0 else None
    if inserted is None and copied is None:
        stop = text.find("\n", at - 1, min(high, at + _MAX_HEADINGS_LENGTH))
        delimiter = next((one for one in _DELIMITERS if one in text[begin:stop]), "") if stop >= 0 else ""
    else:
        begin, stop, delimiter = opening + 1, closing, ","
    if not delimiter and stop - begin > _MAX_LONE_HEADING_LENGTH:
        return ()
    if not delimiter and stop >= 0:
        return _single(text, begin, stop, high, column_of)
    if not _FORMS.headings_only.fullmatch(text, begin, stop):
        return ()
    headings = list(cells(text, begin, stop, delimiter))
    if any(text.count(" ", a, b) >= _MAX_WORDS for a, b in headings):
        return ()
    names = [text[a:b].strip(" \"'`*") for a, b in headings]
    columns = [(at, column) for at in range(len(names)) if (column := column_of(names, at)) is not None]
    # A list in source code with one value per line has a comma at the end of each, and is not a table of two columns.
    if sum(map(bool, names)) < (1 if delimiter == "|" else 2) or not columns:
        return ()
    out: list[Candidate] = []
    read = stop
    if inserted is not None:
        rows = _tuples(text, inserted.end() - 1, high)
    elif copied is not None:
        rows, delimiter = _lines(text, copied.end(), high), "\t"
    else:
        rows = _lines(text, stop + 1, high)
    for start, end in rows:
        row = list(cells(text, start, end, delimiter))
        if len(row) != len(headings):
            if _FORMS.ruler.fullmatch(text, start, end):
                continue
            break
        read = end
        for at_cell, column in columns:
            found = _judge(text, *row[at_cell], column)
            if found is not None:
                out.append(found)
    # Headings inside the table are not read again, so that hostile ones cost no more than their length.
    return (*out, Candidate(begin, read, EXAMINED))


def _single(
    text: str, begin: int, stop: int, high: int, column_of: Callable[[list[str], int], TableColumn | None]
) -> tuple[Candidate, ...]:
    """Read a table of one column: a heading alone on its line, and below it lines that all look like its cells."""
    column = column_of([text[begin:stop].strip(" \"'`*\r")], 0)
    if column is None or column.class_ not in _ALONE:
        return ()
    out: list[Candidate] = []
    end = stop
    for start, end in _lines(text, stop + 1, high):
        found = _judge(text, *next(cells(text, start, end, "\n")), column)
        if found is None:
            break
        out.append(found)
    return (*out, Candidate(begin, end, EXAMINED))


_ALONE = frozenset(column.class_ for column in _COLUMNS) - {"PERSON", "ADDRESS", "SECRET", "EMAIL"}
"""Classes whose cells do not look like any line."""


def _judge(text: str, start: int, end: int, column: TableColumn) -> Candidate | None:
    """Return the cell's finding, or None if it does not look like its column."""
    value = text[start:end]
    if column.class_ == "PERSON":
        if not _is_name(value, column):
            return None
    elif not column.look.fullmatch(value):
        return None
    kind = column.kind
    if column.class_ == "PHONE":
        if value.endswith(".0"):  # a spreadsheet's number
            value, end = value[:-2], end - 2
        kind = phone.kind_of(value)
    return Candidate(start, end, "*" if is_marked(column.class_, value) else column.class_, kind)


def _is_name(value: str, column: TableColumn) -> bool:
    if column.look.pattern == _FULL_NAME and is_plain_given_name(value):
        return True  # "Assignee", and below it first names
    return len(value) > 1 and column.look.fullmatch(value) is not None and (not value[0].islower() or is_known(value))


@lru_cache(maxsize=4096)
def _named(heading: str) -> TableColumn | None:
    """Return the column of a heading alone. Cached: the same few headings recur."""
    held = next((column for pattern, column in _HEADINGS if pattern.fullmatch(heading)), None)
    field = field_of(heading) if held is None else None
    if field is None or not field.sure:
        return held
    return TableColumn(class_=field.class_, words="", look=field.look, kind=field.kind)


def _column(names: list[str], at: int) -> TableColumn | None:
    column = _named(names[at])
    if column is not None:
        return column
    if any({names[at].lower()} < halves <= {name.lower() for name in names} for halves in _HALVES):
        return _COLUMNS[0]
    if _FORMS.plain_name.fullmatch(names[at]) and any(map(_named, names)):
        return _COLUMNS[0]  # products have names too, but neither phone numbers nor birthdays
    return None


def _lines(text: str, start: int, high: int) -> Iterator[tuple[int, int]]:
    for _ in range(_MAX_ROWS):
        end = text.find("\n", start, high)
        end = high if end < 0 else end
        if end <= start:
            return
        yield start, end - (text[end - 1] == "\r")
        start = end + 1


def _tuples(text: str, start: int, high: int) -> Iterator[tuple[int, int]]:
    for _ in range(_MAX_ROWS):
        match = _FORMS.tuple.match(text, start, min(high, start + 2000))
        if match is None:
            return
        yield start + 1, text.rfind(")", start, match.end())
        start = match.end()


# -- records whose fields are known by their position: segments of HL7 v2 and of X12, lines of vCards ----------------------

_RECORDS = Rules("segments")
_Parts = Mapping[int, TableColumn]
"""Component of a field, counted from one -> its class."""
_FIELDS: Final = _COLUMN_OF | {row["name"]: _column_of(row, _RECORDS) for row in _RECORDS.rows("column")}
_PARTS: Final[Mapping[str, _Parts]] = {
    name: {int(at): _FIELDS[column] for at, column in parts.items()} for name, parts in _RECORDS.entries("parts").items()
}


def _fields(name: str) -> Mapping[str, Mapping[int, _Parts]]:
    """Return a table of segments: the name of each -> its fields, counted from one -> the classes of their components."""
    return {
        segment: {int(at): _PARTS[part] for places, part in fields.items() for at in places.split()}
        for segment, fields in _RECORDS.entries(name).items()
    }


_HL7, _X12, _VCARD = map(_fields, ("hl7", "x12", "vcard"))
_MAX_RECORD_LENGTH = 4000


def _hl7(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    return _read_record(text, at, high, _HL7[text[at - 4 : at - 1]], "|", "^", _RECORDS.forms.end_of_hl7)


def _x12(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended after the first fields."""
    name = _last(_RECORDS.forms.x12_name, text, max(low, at - 10), at)
    return _read_record(text, name.end(), high, _X12[name.group()[:-1]], "*", ":", _RECORDS.forms.end_of_x12) if name else ()


def _vcard(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """Handle a trigger that ended in the first field."""
    name = _last(_RECORDS.forms.vcard_name, text, max(low, at - 100), at)
    return _read_record(text, name.end(), high, _VCARD[name.group(1)], ";", ",", _RECORDS.forms.end_of_hl7) if name else ()


def _last(pattern: re.Pattern[str], text: str, start: int, at: int) -> re.Match[str] | None:
    """Return the match nearest to the trigger: those before it are of earlier segments."""
    return next(reversed([*pattern.finditer(text, start, at)]), None)


def _read_record(
    text: str, at: int, high: int, fields: Mapping[int, _Parts], field: str, component: str, ends: re.Pattern[str]
) -> tuple[Candidate, ...]:
    """Read the segment whose first field begins at `at`."""
    limit = min(high, at + _MAX_RECORD_LENGTH)
    ending = ends.search(text, at, limit)
    end = ending.start() if ending else limit
    out: list[Candidate] = []
    for place, (start, stop) in enumerate(_fields_of(text, at, end, field), 1):
        for first, last in _fields_of(text, start, stop, "~") if place in fields else ():
            for part, (a, b) in enumerate(_fields_of(text, first, last, component), 1):
                column = fields[place].get(part)
                found = _judge(text, a, b, column) if column is not None else None
                if found is not None:
                    out.append(found)
    # Segments inside this one are not read again, so that hostile ones cost no more than their length.
    return (*out, Candidate(at, end, EXAMINED))


def _fields_of(text: str, start: int, end: int, sign: str) -> Iterator[tuple[int, int]]:
    while True:
        stop = text.find(sign, start, end)
        if stop < 0:
            yield start, end
            return
        yield start, stop
        start = stop + 1


DETECTORS = (*made_of(_RULES, _find), *made_of(_RECORDS, _hl7, _vcard, _x12))
