"""Tables in text: CSV, TSV, markdown and the rows of an INSERT. The heading of a column says what its cells are.

A trigger fires on a heading; the rows below it are read as far as they have as many cells as the heading line. What a cell
holds must still look like its class, so a column of ``phone`` that holds ``n/a`` or ``string`` stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from freezeframe_redaction.detectors import dates, runs
from freezeframe_redaction.invented import holds_invented
from freezeframe_redaction.model import Candidate, Detector, Example
from freezeframe_redaction.shapes import is_marked_number, is_marked_subscriber
from freezeframe_redaction.surrogates import is_marked_identifier

_MOST_ROWS = 100_000
_MOST_WORDS = 4
"""Of a heading; what is longer is a sentence with commas."""
_DELIMITERS = "\t|;,"
_LONGEST = 1000
"""Characters of a line of headings."""
_HEADINGS_ONLY = re.compile(r"[\w .\-/#()\"'`*]{0,36}(?:[\t|;,][\w .\-/#()\"'`*]{0,36})+\r?")
_RULER = re.compile(r"[\s|:+-]+")
_QUOTED = re.compile(r" ?(?:\"(?:[^\"\n]|\"\")*\"|'(?:[^'\n]|'')*')")
_AROUND = " \"'\r"
_VALUES = re.compile(r"\)\s{0,4}VALUES\s{0,4}\(", re.IGNORECASE)
_TUPLE = re.compile(r"\((?:'(?:[^']|'')*'|[^()'])*\)\s{0,3},?\s{0,3}")

_NAME = re.compile(r"[^\W\d_][^\W\d_.'’-]*(?:[ .,'’-]{1,2}[^\W\d_]+){0,4}\.?")
_PHONE = re.compile(r"[+(]{0,2}[0-9][0-9 ().\-/]{5,20}[0-9]")
_DATE = re.compile(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{2,4}")
_NUMBER = re.compile(r"(?=.*[0-9]{4})[A-Z0-9][A-Z0-9 -]{4,20}[A-Z0-9]", re.IGNORECASE)
_STREET = re.compile(r"(?=.*[0-9])(?=.*[^\W\d_]{3}).{6,120}")


def _is_phone_mark(value: str) -> bool:
    digits = "".join(filter(str.isdigit, value))
    return is_marked_number(digits) or is_marked_subscriber(digits, international=value.startswith("+"))


_Kind = tuple[str, re.Pattern[str], Callable[[str], bool]]
"""Class, what a cell of it looks like, and whether a cell holds a surrogate."""
_COLUMNS: tuple[tuple[str, str, re.Pattern[str], Callable[[str], bool]], ...] = (
    ("PERSON", r"(?:full|first|last|given|family|sur|middle|maiden|customer|patient|employee|contact|client|cardholder|holder)[ _-]?name|surname|vorname|nachname|pr[eé]nom|apellidos?|cognome|imi[eę]|nazwisko", _NAME, holds_invented),
    ("PHONE", r"(?:home|work|cell|mobile|contact|day|customer)?[ _-]?(?:tele)?phone(?:[ _-]?(?:no|number|num))?|mobile(?:[ _-]?(?:no|number))?|cell|fax|telefon|handy|t[eé]l[eé]phone|tel[eé]fono|m[oó]vil|celular|telefone|telefoon", _PHONE, _is_phone_mark),
    ("DOB", r"dob|d\.o\.b\.?|(?:date[ _-]?of[ _-]?)?birth(?:[ _-]?da(?:te|y))?|geburtsdatum|date[ _]de[ _]naissance|fecha[ _]de[ _]nacimiento|data[ _]de[ _]nascimento|data[ _]di[ _]nascita|geboortedatum", _DATE, dates.is_surrogate),
    ("US_SSN", r"ssn|social[ _]security(?:[ _](?:no|number))?", re.compile(r"[0-9]{3}-?[0-9]{2}-?[0-9]{4}"), is_marked_identifier),
    ("NATID", r"national[ _]?id(?:[ _]?(?:no|number))?|tax[ _]?(?:id|no|number)|id[ _]?(?:card|number)|nin|nino|pesel|cpf|dni|bsn|aadhaar|nhs[ _]?(?:no|number)", _NUMBER, is_marked_identifier),
    ("MEDID", r"mrn|medical[ _]record(?:[ _](?:no|number))?|patient[ _]?(?:id|no|number)|member[ _]?id|insurance[ _]?(?:id|no|number)", _NUMBER, is_marked_identifier),
    ("PASSPORT", r"passport(?:[ _]?(?:no|num|number))?", _NUMBER, is_marked_identifier),
    ("DRIVING_LICENCE", r"(?:driv(?:er'?s?|ing)[ _]?)licen[cs]e(?:[ _]?(?:no|number))?", _NUMBER, is_marked_identifier),
    ("BANK_ACCOUNT", r"account[ _]?(?:no|number)|acct(?:[ _]?no)?|kontonummer", re.compile(r"[0-9][0-9 -]{4,20}[0-9]"), is_marked_identifier),
    ("ADDRESS", r"(?:street|home|mailing|postal|billing|shipping)[ _-]?address|street|address(?:[ _]?(?:line)?[ _]?1)?|adresse|anschrift|direcci[oó]n|endere[cç]o|indirizzo", _STREET, holds_invented),
)  # fmt: skip
_HEADINGS: tuple[tuple[re.Pattern[str], _Kind], ...] = tuple(
    (re.compile(words, re.IGNORECASE), (class_, look, marked)) for class_, words, look, marked in _COLUMNS
)
_PLAIN_NAME = re.compile(r"name|kunde|nom|naam|nombre|customer|patient|employee", re.IGNORECASE)


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """Read the table one of whose headings ended just before `at`: all its columns at once."""
    floor = max(low, at - _LONGEST)
    begin = max(floor, text.rfind("\n", floor, at - 1) + 1)
    opening, closing = text.rfind("(", begin, at - 1), text.find(")", at - 1, min(high, at + 400))
    inserted = _VALUES.match(text, closing, high) if opening >= 0 and closing >= 0 else None
    if inserted is None:
        stop = text.find("\n", at - 1, min(high, at + _LONGEST))
        delimiter = next((one for one in _DELIMITERS if one in text[begin:stop]), "") if stop >= 0 else ""
    else:
        begin, stop, delimiter = opening + 1, closing, ","
    if not delimiter or not _HEADINGS_ONLY.fullmatch(text, begin, stop):
        return ()
    headings = list(_cells(text, begin, stop, delimiter))
    if any(text.count(" ", a, b) >= _MOST_WORDS for a, b in headings):
        return ()
    names = [text[a:b].strip(" \"'`*") for a, b in headings]
    columns = [(n, *kind) for n in range(len(names)) if (kind := _kind_of(names, n)) is not None]
    if len(names) < 2 or not columns:
        return ()
    out: list[Candidate] = []
    read = stop
    for start, end in _tuples(text, inserted.end() - 1, high) if inserted else _lines(text, stop + 1, high):
        cells = list(_cells(text, start, end, delimiter))
        if len(cells) != len(headings):
            if _RULER.fullmatch(text, start, end):
                continue
            break
        read = end
        for column, class_, look, marked in columns:
            value = text[slice(*cells[column])]
            if look.fullmatch(value) and not (class_ == "PERSON" and value[0].islower()):
                dialled = ("international" if value[0] == "+" else "national") if class_ == "PHONE" else ""
                out.append(Candidate(*cells[column], "*" if marked(value) else class_, dialled))
    # Headings inside the table are not read again, so that hostile ones cost no more than their length.
    return (*out, Candidate(begin, read, runs.EXAMINED))


def _kind_of(names: list[str], column: int) -> _Kind | None:
    for heading, kind in _HEADINGS:
        if heading.fullmatch(names[column]):
            return kind
    if _PLAIN_NAME.fullmatch(names[column]) and any(heading.fullmatch(name) for name in names for heading, _ in _HEADINGS):
        return "PERSON", _NAME, holds_invented  # products have names too, but neither telephones nor birthdays
    return None


def _lines(text: str, start: int, high: int) -> Iterator[tuple[int, int]]:
    for _ in range(_MOST_ROWS):
        end = text.find("\n", start, high)
        end = high if end < 0 else end
        if end <= start:
            return
        yield start, end - (text[end - 1] == "\r")
        start = end + 1


def _tuples(text: str, start: int, high: int) -> Iterator[tuple[int, int]]:
    for _ in range(_MOST_ROWS):
        match = _TUPLE.match(text, start, min(high, start + 2000))
        if match is None:
            return
        yield start + 1, text.rfind(")", start, match.end())
        start = match.end()


def _cells(text: str, start: int, end: int, delimiter: str) -> Iterator[tuple[int, int]]:
    """Yield the span of each cell, without the quotes and spaces around it; a delimiter inside quotes divides nothing."""
    position = start
    while True:
        quoted = _QUOTED.match(text, position, end)
        stop = text.find(delimiter, quoted.end() if quoted else position, end)
        stop = end if stop < 0 else stop
        cell = text[position:stop]
        first = position + len(cell) - len(cell.lstrip(_AROUND))
        yield first, max(first, position + len(cell.rstrip(_AROUND)))
        if stop == end:
            return
        position = stop + 1


_WORDS = (
    r"(?:(?:full|first|last|given|family|sur|middle|customer|patient|employee|contact|client|holder)[ _\-]?name|surname|vorname|nachname|pr\xe9nom|apellidos?|cognome|nazwisko"
    r"|(?:tele)?phone(?:[ _\-]?(?:no|number|num))?|mobile(?:[ _\-]?(?:no|number))?|cell|fax|telefon|handy|t\xe9l\xe9phone|tel\xe9fono|m\xf3vil|celular|telefone|telefoon"
    r"|dob|birth[ _\-]?da(?:te|y)|date[ _\-]?of[ _\-]?birth|geburtsdatum|ssn|national[ _]?id|tax[ _]?(?:id|no|number)|id[ _]?number|pesel|cpf|dni|bsn|aadhaar|mrn|patient[ _]?(?:id|no|number)|member[ _]?id"
    r"|passport(?:[ _]?(?:no|num|number))?|licen[cs]e(?:[ _]?(?:no|number))?|account[ _]?(?:no|number)|acct|kontonummer|adresse|anschrift|direcci\xf3n|indirizzo)"
)
"""``name`` and ``address`` are too frequent in code to fire: they are read where another column does."""
DETECTORS = (
    Detector(
        name="column of a table",
        class_="PERSON",
        triggers=(
            rf"(?i)[,;\t|(\n] ?[\"'`]?{_WORDS}[\"'`]? ?[,;\t|)\n]",
            rf"(?i)^[\"']?{_WORDS}[\"']?[,;\t|]",
        ),
        find=_find,
        examples=(
            Example(
                text="id,last_name,birth_date\n1,Krzyzewski,1991-03-05\n",
                value="Krzyzewski",
                near_miss="field,last_name,birth_date\ntype,string(20),date\n",
            ),
        ),
    ),
)
