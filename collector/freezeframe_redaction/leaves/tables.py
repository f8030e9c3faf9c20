"""Find the tables of many rows in a text:

CSV and TSV, markdown, output of database clients, rows of an INSERT, lines of JSON. Only their places and cells: the class of a
column is judged once for all of its cells (`redacting.columns`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

MIN_ROWS: Final = 20
"""Rows of a table that is judged by its columns."""
_MAX_STARTS: Final = 40
"""Places of a text where a table without a ruler is searched."""
_MAX_HEADINGS_LENGTH: Final = 1000
"""Characters of a line of headings."""
_DELIMITERS: Final = "\t|;,"
_AROUND: Final = " \"'`*\r"
_HEADING: Final = re.compile(r"(?=[^\W\d_]|[ \"'`*#]*[^\W\d_])[\w .\-/#()\"'`*:]{1,40}")
_MAX_HEADING_WORDS: Final = 4
_RULER: Final = re.compile(r"(?m)^[ \t]*+[|+]?(?=[ :=]*+-)[-:= ]*+(?:[|+](?=[ :]*+-)[-: ]*+)*+[|+]?[ \t]*+\r?$")
_QUOTED: Final = re.compile(r""" ?(?:"(?:[^"\n]|"")*"|'(?:[^'\n]|'')*')""")
_INSERT: Final = re.compile(r"(?i)\(([\w ,.\"`]{1,400})\)\s{0,4}VALUES\s{0,4}(?=\()")
_TUPLE: Final = re.compile(r"(\((?:'(?:[^'\n]|'')*+'|[^()'\n])*+\))\s{0,4}[,;]?\s{0,4}")
_FENCE: Final = re.compile(r"(?m)^[ \t]*```\w{0,12}\r?\n|^\r?\n")

Cell = tuple[int, int]
"""Start and end of its text, without quotes and spaces around it."""


class Table(NamedTuple):
    headings: Sequence[str]
    begin: int
    """Start of its rows."""
    rows: Sequence[Sequence[Cell]]
    end: int


def tables_in(text: str) -> Iterator[Table]:
    """Yield the tables of a text, in order, without overlap."""
    if text.count("\n") < MIN_ROWS:
        return
    past = 0
    for start in sorted(_starts(text)):
        if start < past:
            continue
        table = _read_insert(text, start) if text.startswith("(", start) else _read(text, start)
        if table is not None:
            past = table.end
            yield table


def lines_of_json(text: str) -> bool:
    """Return whether the text is lines of JSON objects, as databases and logs are dumped."""
    return text[:1] == "{" and text.count("\n{") >= MIN_ROWS - 1


def cells(text: str, start: int, end: int, delimiter: str) -> Iterator[Cell]:
    """Yield the span of each cell; a delimiter inside quotes does not count."""
    line = text[start:end]
    if '"' not in line and "'" not in line:
        position = start
        for part in line.split(delimiter):
            first = position + len(part) - len(part.lstrip(_SPACES))
            yield first, max(first, position + len(part.rstrip(_SPACES)))
            position += len(part) + 1
        return
    position = start
    while True:
        quoted = _QUOTED.match(text, position, end)
        stop = text.find(delimiter, quoted.end() if quoted else position, end)
        stop = end if stop < 0 else stop
        cell = text[position:stop]
        first = position + len(cell) - len(cell.lstrip(_QUOTES))
        yield first, max(first, position + len(cell.rstrip(_QUOTES)))
        if stop == end:
            return
        position = stop + 1


_SPACES: Final = " \r"
_QUOTES: Final = " \"'\r"


def _starts(text: str) -> Iterator[int]:
    """Yield possible starts of headings: in an INSERT, before a ruler, at the beginning of a text, a block or a paragraph."""
    yield from (match.start() for match in islice(_INSERT.finditer(text), _MAX_STARTS))
    if "--" in text:
        for ruler in _RULER.finditer(text):
            yield text.rfind("\n", 0, max(0, ruler.start() - 1)) + 1
    at = 0
    for _ in range(3):
        yield at
        at = text.find("\n", at) + 1
        if not at:
            return
    for count, fence in enumerate(_FENCE.finditer(text)):
        if count == _MAX_STARTS:
            break
        yield fence.end()


def _read_insert(text: str, start: int) -> Table | None:
    """Return the rows below the names of columns that begin here."""
    names = _INSERT.match(text, start)
    if names is None:
        return None
    headings = [name.strip(_AROUND) for name in names[1].split(",")]
    rows: list[Sequence[Cell]] = []
    begin = end = names.end()
    while (row := _TUPLE.match(text, end)) is not None:
        rows.append(list(cells(text, row.start() + 1, row.end(1) - 1, ",")))
        if len(rows[-1]) != len(headings):
            return None
        end = row.end()
    return Table(headings, begin, rows, end) if len(rows) >= MIN_ROWS else None


def _read(text: str, start: int) -> Table | None:
    """Return the table whose line of headings begins here; None if no table does, or it has too few rows."""
    stop = text.find("\n", start, start + _MAX_HEADINGS_LENGTH)
    if stop <= start:
        return None
    line = text[start:stop]
    delimiter = next((one for one in _DELIMITERS if one in line), "")
    if not delimiter:
        return None
    headings = [text[a:b].strip(_AROUND) for a, b in cells(text, start, stop, delimiter)]
    named = [one for one in headings if one]
    if len(named) < (1 if delimiter == "|" else 2) or len(set(named)) < len(named):
        return None
    if not all(_HEADING.fullmatch(one) and one.count(" ") < _MAX_HEADING_WORDS for one in named):
        return None
    rows: list[Sequence[Cell]] = []
    begin, end = stop + 1, stop
    while end < len(text):
        first = end + 1
        last = text.find("\n", first)
        last = len(text) if last < 0 else last
        if last <= first:
            break
        row = list(cells(text, first, last, delimiter))
        if len(row) == len(headings):
            if not rows and _RULER.fullmatch(text, first, last):
                begin = last + 1
            else:
                rows.append(row)
        elif not _RULER.fullmatch(text, first, last) or rows:
            break
        else:
            begin = last + 1
        end = last
    return Table(headings, begin, rows, end) if len(rows) >= MIN_ROWS else None
