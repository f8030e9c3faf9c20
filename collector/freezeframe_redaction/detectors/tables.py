"""Tables in text: CSV, TSV, markdown and the rows of an INSERT. The heading of a column says what its cells are.

A trigger fires on a heading; the rows below it are read as long as they have as many cells as the heading line. What a cell
holds must still look like its class, so a column of ``phone`` that holds ``n/a`` or ``string`` stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from freezeframe_redaction.detectors import dates, secrets
from freezeframe_redaction.detectors.people.names import is_known, is_plainly_given
from freezeframe_redaction.invented import holds_invented
from freezeframe_redaction.model import EXAMINED, Candidate
from freezeframe_redaction.plans import national_kind
from freezeframe_redaction.rows import made_of, never
from freezeframe_redaction.rule_tables import Rules

_RULES = Rules("columns")

_MOST_ROWS = 100_000
_MOST_WORDS = 4
"""Of a heading; anything longer is a sentence with commas."""
_DELIMITERS = "\t|;,"
_LONGEST = 1000
"""Characters of a line of headings."""
_LONGEST_ALONE = 40
"""Characters of a heading that is alone on its line."""
_HEADINGS_ONLY = re.compile(r"[\w .\-/#()\"'`*]{0,36}(?:[\t|;,][\w .\-/#()\"'`*]{0,36})+\r?")
_RULER = re.compile(r"[\s|:+-]+")
_QUOTED = re.compile(r" ?(?:\"(?:[^\"\n]|\"\")*\"|'(?:[^'\n]|'')*')")
_AROUND = " \"'\r"
_VALUES = re.compile(r"\)\s{0,4}VALUES\s{0,4}\(", re.IGNORECASE)
_COPIED = re.compile(r"\)\s{0,4}FROM\s{1,4}STDIN[^\n]{0,80}\n", re.IGNORECASE)
_TUPLE = re.compile(r"\((?:'(?:[^']|'')*'|[^()'])*\)\s{0,3},?\s{0,3}")

_NAME = re.compile(r"[^\W\d_][^\W\d_.'’-]*(?:[ .,'’-]{1,2}[^\W\d_]+){0,4}\.?")
_FULL_NAME = re.compile(r"[^\W\d_a-z][^\W\d_.'’-]*(?:(?:, |[ .'’-]{1,2})[^\W\d_]+){1,4}\.?")
"""Two words at least: a column with such a heading may hold teams and services too."""
_PHONE = re.compile(r"[+(]{0,2}[0-9][0-9 ().\-/]{5,20}[0-9](?:\.0)?")
_DATE = re.compile(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{2,4}")
_NUMBER = re.compile(r"(?=.*[0-9]{4})[A-Z0-9][A-Z0-9 -]{4,20}[A-Z0-9]", re.IGNORECASE)
_PASSWORD = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[!-~]{6,128}")
_STREET = re.compile(r"(?=.*[0-9])(?=.*[^\W\d_]{3}).{6,120}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What the cells of a column, or the fields at one position, hold."""

    class_: str
    words: str
    """The headings, as alternatives; a space stands for any joint (``birth date``, ``birth_date``)."""
    look: re.Pattern[str]
    """What a cell of it looks like."""
    is_marked: Callable[[str], bool] = never
    """Whether a cell holds a surrogate."""
    kind: str = ""
    fires: bool = True
    """Whether its headings alone make a table worth reading: ``address`` is too frequent in code."""

    @property
    def headings(self) -> str:
        return self.words.replace(" ", "[ _-]?")


_COLUMNS = (
    Column(
        class_="PERSON",
        words="(?:full|first|last|given|family|sur|middle|maiden|customer|patient|employee|contact|client|cardholder|holder) name|surname|vorname|nachname"
        "|pr[eé]nom|apellidos?|cognome|imi[eę]|nazwisko",
        look=_NAME,
        is_marked=holds_invented,
    ),
    Column(
        class_="PHONE",
        words="(?:(?:home|work|cell|mobile|contact|day|customer) )?(?:tele)?phone(?: (?:no|number|num))?|mobile(?: (?:no|number))?|cell|fax|gsm|msisdn"
        "|whatsapp|telefon(?:nummer)?|handy(?:nummer)?|t[eé]l[eé]phone|tel[eé]fono|m[oó]vil|celular|telefone|telefoon|(?:nr|numer|nomor) tel(?:efonu"
        "|epon)?|puhelin",
        look=_PHONE,
    ),
    Column(
        class_="DOB",
        words=r"dob|d\.o\.b\.?|(?:date of )?birth(?: da(?:te|y))?|geburtsdatum|geburtstag|geb datum|(?:date de )?naissance|(?:fecha(?: de)? )?nacimiento"
        r"|(?:data(?: de)? )?nascimento|(?:data(?: di)? )?nascita|cumplea[nñ]os|compleanno|verjaardag|geboortedatum|data urodzenia"
        r"|f[öø]de?lse?sdato?u?m?|do[gğ]um tarihi",
        look=_DATE,
        is_marked=dates.is_surrogate,
    ),
    Column(
        class_="US_SSN",
        words="ssn|social security(?: (?:no|number))?",
        look=re.compile(r"[0-9]{3}-?[0-9]{2}-?[0-9]{4}"),
    ),
    Column(
        class_="NATID",
        words="national id(?: (?:no|number))?|identity (?:no|number)|tax (?:id|no|number)|id (?:card|number|no)|nin|nino|pesel|cpf|cnp|egn|dni|nie|nif|nik"
        "|curp|cui[tl]|rut|oib|jmbg|bsn|cpr|personnummer|codice fiscale|steuer id|tc kimlik(?: no)?|aadhaar|nhs (?:no|number)",
        look=_NUMBER,
    ),
    Column(
        class_="MEDID",
        words="mrn|medical record(?: (?:no|number))?|patient (?:id|no|number)|member id|insurance (?:id|no|number)",
        look=_NUMBER,
    ),
    Column(class_="PASSPORT", words="passport(?: (?:no|num|number))?|passeport|pasaporte|reisepass(?:nummer)?", look=_NUMBER),
    Column(
        class_="DRIVING_LICENCE", words="(?:driv(?:er'?s?|ing) )?licen[cs]e(?: (?:no|number))?|dl (?:no|number)", look=_NUMBER
    ),
    Column(
        class_="BANK_ACCOUNT",
        words="account (?:no|number)|acct(?: no)?|konto(?:nummer|nr)|numer konta",
        look=re.compile(r"[0-9][0-9 -]{4,20}[0-9]"),
    ),
    Column(
        class_="SECRET",
        words="cvv2?|cvc2?|cvn|security code|pin(?: code)?|otp",
        look=re.compile(r"[0-9]{3,8}"),
        kind="code",
    ),
    Column(
        class_="SECRET",
        words="password|passwd|pwd|passwort|contraseña|senha|has[lł]o|mot de passe|secret|api key|(?:access )?token|(?:password|pwd|pass) (?:hash|digest)",
        look=_PASSWORD,
        is_marked=secrets.is_marked_secret,
        kind="password",
    ),
    Column(class_="SECRET", words="pass", look=_PASSWORD, is_marked=secrets.is_marked_secret, kind="password", fires=False),
    Column(
        class_="ADDRESS",
        words="(?:street|home|mailing|postal|billing|shipping) address|street|address(?:(?: line)? 1)?|adresse?|anschrift|direcci[oó]n|endere[cç]o|indirizzo",
        look=_STREET,
        is_marked=holds_invented,
        fires=False,
    ),
    Column(
        class_="PERSON",
        words="patient|employee|assignee|owner|reporter|passenger|attendee|participant|applicant|requester",
        look=_FULL_NAME,
        is_marked=holds_invented,
    ),
    Column(
        class_="PERSON",
        words="student|candidate|tenant|guest|author|doctor|manager|player|speaker",
        look=_FULL_NAME,
        is_marked=holds_invented,
        fires=False,
    ),
    Column(
        class_="PHONE",
        words="電話(?:番号)?|电话|手机(?:号)?|전화(?:번호)?|телефон|тел\\.?|τηλ[έε]φωνο|هاتف|โทร",
        look=_PHONE,
        fires=False,
    ),
    # E-mails are found without it; the column shows that the table is one of people.
    Column(class_="EMAIL", words="e-?mail(?: address)?", look=re.compile("(?!)")),
)
COLUMN_OF = {column.class_: column for column in reversed(_COLUMNS)}
"""Class -> the first of its columns."""
_HEADINGS = tuple((re.compile(column.headings, re.IGNORECASE), column) for column in _COLUMNS)
_HALVES = (frozenset(["first", "last"]), frozenset(["given", "family"]))
"""Headings that mean names only together."""
_PLAIN_NAME = re.compile(r"name|kunde|nom|naam|nombre|customer|patient|employee", re.IGNORECASE)


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """Read the table that has a heading which ended just before `at`: all its columns at once."""
    floor = max(low, at - _LONGEST)
    begin = max(floor, text.rfind("\n", floor, at - 1) + 1)
    opening, closing = text.rfind("(", begin, at - 1), text.find(")", at - 1, min(high, at + 400))
    inserted = _VALUES.match(text, closing, high) if opening >= 0 and closing >= 0 else None
    copied = _COPIED.match(text, closing, high) if inserted is None and opening >= 0 and closing >= 0 else None
    if inserted is None and copied is None:
        stop = text.find("\n", at - 1, min(high, at + _LONGEST))
        delimiter = next((one for one in _DELIMITERS if one in text[begin:stop]), "") if stop >= 0 else ""
    else:
        begin, stop, delimiter = opening + 1, closing, ","
    if not delimiter and stop - begin > _LONGEST_ALONE:
        return ()
    if not delimiter and stop >= 0:
        return _single(text, begin, stop, high)
    if not _HEADINGS_ONLY.fullmatch(text, begin, stop):
        return ()
    headings = list(_cells(text, begin, stop, delimiter))
    if any(text.count(" ", a, b) >= _MOST_WORDS for a, b in headings):
        return ()
    names = [text[a:b].strip(" \"'`*") for a, b in headings]
    columns = [(at, column) for at in range(len(names)) if (column := _column(names, at)) is not None]
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
        cells = list(_cells(text, start, end, delimiter))
        if len(cells) != len(headings):
            if _RULER.fullmatch(text, start, end):
                continue
            break
        read = end
        for at_cell, column in columns:
            found = judge(text, *cells[at_cell], column)
            if found is not None:
                out.append(found)
    # Headings inside the table are not read again, so that hostile ones cost no more than their length.
    return (*out, Candidate(begin, read, EXAMINED))


def _single(text: str, begin: int, stop: int, high: int) -> tuple[Candidate, ...]:
    """Read a table of one column: a heading alone on its line, and below it lines that all look like its cells."""
    column = _column([text[begin:stop].strip(" \"'`*\r")], 0)
    if column is None or column.class_ in _NOT_ALONE:
        return ()
    out: list[Candidate] = []
    end = stop
    for start, end in _lines(text, stop + 1, high):
        found = judge(text, *next(_cells(text, start, end, "\n")), column)
        if found is None:
            break
        out.append(found)
    return (*out, Candidate(begin, end, EXAMINED))


_NOT_ALONE = frozenset(["PERSON", "ADDRESS", "SECRET", "EMAIL"])
"""Classes whose cells look like any line."""


def judge(text: str, start: int, end: int, column: Column) -> Candidate | None:
    """Return what the cell holds, or None if it does not look like its column."""
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
        kind = "international" if value[0] == "+" else national_kind("".join(filter(str.isdigit, value)))
    return Candidate(start, end, "*" if column.is_marked(value) else column.class_, kind)


def _is_name(value: str, column: Column) -> bool:
    if column.look is _FULL_NAME and is_plainly_given(value):
        return True  # "Assignee", and below it first names
    return len(value) > 1 and column.look.fullmatch(value) is not None and (not value[0].islower() or is_known(value))


@lru_cache(maxsize=4096)
def _named(heading: str) -> Column | None:
    """Return the column that the heading is by itself; the same few occur again and again."""
    return next((column for pattern, column in _HEADINGS if pattern.fullmatch(heading)), None)


def _column(names: list[str], at: int) -> Column | None:
    column = _named(names[at])
    if column is not None:
        return column
    if any({names[at].lower()} < halves <= {name.lower() for name in names} for halves in _HALVES):
        return _COLUMNS[0]
    if _PLAIN_NAME.fullmatch(names[at]) and any(map(_named, names)):
        return _COLUMNS[0]  # products have names too, but neither phone numbers nor birthdays
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
    """Yield the span of each cell, without the quotes and spaces around it; a delimiter inside quotes does not count."""
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


def _without_options(words: str) -> str:
    """Return the expression without its optional groups: ``(?:tele)?phone(?: number)?`` as ``phone``."""
    opened: list[int] = []
    for at, char in enumerate(words):
        if char == "(":
            opened.append(at)
        elif char == ")":
            start = opened.pop()
            if words[at + 1 : at + 2] == "?" and not opened:
                return words[:start] + _without_options(words[at + 2 :])
    return words


_WORDS = "|".join(_without_options(column.words).replace(" ", "[ _-]?") for column in _COLUMNS if column.fires)

DETECTORS = made_of(_RULES, {"find": _find})
