"""Phone numbers: international numbers that their country's plan allows, and national ones next to a word for a phone."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors import runs
from freezeframe_redaction.detectors.people.classes import test_of
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import CLAIM, EXAMINED, Candidate
from freezeframe_redaction.rules import context
from freezeframe_redaction.rules.checksums import luhn
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates import spoken
from freezeframe_redaction.surrogates.plans import is_assigned, is_assigned_in, is_assigned_somewhere, national_kind
from freezeframe_redaction.surrogates.shapes import is_marked_card

CLASS = "PHONE"
_RULES = Rules("phone")
_FORMS = _RULES.forms

_NANP_GROUPS = frozenset({(3, 3, 4), (1, 3, 3, 4)})
_TELLING: dict[tuple[int, ...], tuple[str, ...]] = {(2, 2, 2, 2, 2): ("33",), (5, 6): ("44",), (3, 4, 4): ("44", "81", "82")}
"""Layouts with a leading zero that are sufficient evidence.

``06 12 34 56 78`` in France, ``07812 448271`` in Britain, ``020 7946 0018`` in Britain, Japan and Korea.
"""


def kind_of(value: str) -> str:
    """Return the kind of a number that a key or a heading marks as a phone number."""
    digits = "".join(filter(str.isdigit, value))
    return "international" if value[0] == "+" else "international00" if digits[:2] == "00" else national_kind(digits)


def is_announced(run: runs.NumberRun) -> bool:
    """Return whether a word for a phone is before or right after the run."""
    return (
        bool(run.hints & context.HINT_PHONE)
        and (
            context.PHONE.search(run.before) is not None
            or _FORMS.letter.search(run.text, max(run.low, run.start - 4), run.start) is not None
        )
    ) or is_labelled_behind(run.text, run.end, run.high)


def has_area_in_brackets(run: runs.NumberRun) -> bool:
    """Return whether the run is written in a way that only phone numbers are: ``(21) 3333-4444``."""
    return run.raw[0] == "(" and ")" in run.raw and len(run.groups) == 3 and len(run.digits) >= 10


def is_labelled_behind(text: str, end: int, high: int) -> bool:
    """Return whether a word for a phone follows directly: ``22 498317 office``, ``(37) 788-063-Fax``."""
    return _FORMS.after.match(text, end, high) is not None


def rule(run: runs.NumberRun) -> Candidate | None:
    """Take a run that is a phone number."""
    length = len(run.digits)
    if not 7 <= length <= 17 or _FORMS.fractions.match(run.raw):
        return None
    if run.international:
        if not 8 <= length <= 15:
            return None
        if length == 11 and run.digits[0] == "1" and _is_fictional(run.digits):
            return Candidate(run.start, run.end, CLAIM)
        if is_assigned(run.digits):
            return _extended(run, "international")
        first = run.groups[0]
        if _MIN_INTERNATIONAL_DIGITS <= first < length and run.raw[0] == "+" and is_assigned(run.digits[:first]):
            return Candidate(run.start, run.start + 1 + first, CLASS, "international")  # "%2B525512348890 200 34ms" of a log
        return _extended(run, "international") if is_announced(run) else None
    if run.hints & context.HINT_ORDER and context.is_order(run.before):
        return None
    if run.digits[:2] == "00" and length >= 10 and set(run.groups) != {2} and is_assigned(run.digits[2:]):
        return _extended(run, "international00")
    if run.groups in _NANP_GROUPS and _is_nanp_shaped(run.digits):
        if _is_fictional(run.digits):
            return Candidate(run.start, run.end, CLAIM)
        return _extended(run, "nanp") if _looks_written(run) or is_announced(run) else None
    countries = _TELLING.get(run.groups, ()) if run.digits[0] == "0" else ()
    if countries and _stands_alone(run) and any(is_assigned(country + run.digits[1:]) for country in countries):
        return _extended(run, "national")
    if has_area_in_brackets(run) and is_assigned_somewhere(run.digits):
        return _extended(run, "national")
    if run.bare and (_FORMS.counted.match(run.text, run.end, run.high) or _FORMS.measured.search(run.before)):
        return None
    if length > 13 or (run.raw.count(".") == 3 and len(run.groups) == 4):
        return None
    if not is_announced(run):
        return _extended(run, "national") if _is_someones(run) and is_assigned_somewhere(run.digits) else None
    near = _FORMS.near.search(run.before) is not None or is_labelled_behind(run.text, run.end, run.high)
    if near or is_assigned_somewhere(run.digits):
        return _extended(run, national_kind(run.digits))
    return None


def _is_someones(run: runs.NumberRun) -> bool:
    """Return whether a number that begins with a zero is right behind a name: ``Anna Keller, 0176 20994813``."""
    if run.digits[0] != "0" or len(run.digits) < _MIN_NATIONAL_DIGITS:
        return False
    name = _FORMS.name_before.search(run.text, max(run.low, run.start - 48), run.start)
    return name is not None and _IS_FIRST(name[1]) and _IS_LAST(name[2])


_MIN_NATIONAL_DIGITS = 9
_MIN_INTERNATIONAL_DIGITS = 10
"""Digits of a number with its country code that is written without groups."""
_IS_FIRST, _IS_LAST = map(test_of, ("title | given !common | invented", "may_be !common | invented"))


def _is_nanp_shaped(digits: str) -> bool:
    return digits[-10] in "23456789" and digits[-7] in "23456789" and (len(digits) == 10 or digits[0] == "1")


def _is_fictional(digits: str) -> bool:
    """Return whether a North American number is reserved for films and books: ``(415) 555-0142``.

    Source: NANPA, "555 line numbers": 555-0100 to 555-0199.
    """
    return digits[-7:-2] == "55501"


def _looks_written(run: runs.NumberRun) -> bool:
    """Return whether the number looks written by a person: ``(415) 555-2671``; three plain groups need a valid area."""
    return any(char in "()-." for char in run.raw) or is_assigned_in(run.digits[-10:], "US")


def _stands_alone(run: runs.NumberRun) -> bool:
    """Return whether no further digits are next to the run, as there are in a dump of bytes or a row of figures."""
    return not run.before.rstrip(" ")[-1:].isdigit() and not run.text[run.end : run.end + 2].strip()[:1].isdigit()


def _extended(run: runs.NumberRun, kind: str) -> Candidate:
    extension = _FORMS.extension.match(run.text, run.end, run.high)
    return Candidate(run.start, extension.end() if extension else run.end, CLASS, kind)


# -- spelled digit by digit, as in transcripts of calls ------------------------------------------------------------------


def _spelled(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    class_ = _class_of(spoken.digits_in(match.group()), context.before(match.string, low, match.start()))
    return (Candidate(*match.span(), class_, "code" if class_ == "SECRET" else spoken.KIND),)


def _class_of(digits: str, before: str) -> str:
    """Return the class of the digits: an empty text if they are few and no word shows their purpose."""
    length = len(digits)
    if length == 9 and context.SSN.search(before):
        return "US_SSN"
    if 13 <= length <= 19 and luhn(digits):
        return CLAIM if is_marked_card(digits) else "CARD"
    if 4 <= length <= 8 and _SPELLED.forms.code.search(before):
        return "SECRET"
    is_phone = length >= _MIN_PHONE_DIGITS and (length >= _MIN_UNANNOUNCED_DIGITS or context.PHONE.search(before))
    return CLASS if is_phone else EXAMINED


_MIN_PHONE_DIGITS = 7
_MIN_UNANNOUNCED_DIGITS = 9
"""Digits of a number that needs no word: counts are shorter."""
_SPELLED = Rules("spelled", {**spoken.DIGITS, "run": f"(?i:{spoken.RUN.pattern})"})

DETECTORS = made_of(_SPELLED, _spelled)
