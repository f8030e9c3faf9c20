"""Passports and driving licences: a word for the document, then something of a document number's shape."""

from __future__ import annotations

import re
from collections.abc import Callable

from freezeframe_redaction.model import Candidate, Detector, Example
from freezeframe_redaction.surrogates import is_marked_identifier

_FILLER = (
    r"(?:[\s_-]{0,2}(?:number|num|no|nr|nummer|numero|número|numéro|n[°º]|id|book|card|code|holder|document|is|was|ist|est|es|[eé]|номер|号码|番号|numer|numarası)\b\.?){0,4}"
    r"[\s\"'()\[\]:=#：,.]{0,6}(?:(?:is|was|ist|est|es|[eé])\s)?[\"'#(]{0,2}"
)
_PASSPORT = re.compile(
    _FILLER + r"([A-Z0-9]{6,9}|[A-Z]{1,2} ?[0-9]{6,8}|[0-9]{2} [0-9]{2} [0-9]{6}|[0-9]{4} [0-9]{6})(?![\w-])",
    re.IGNORECASE,
)
_LICENCE = re.compile(
    _FILLER
    + r"((?=[A-Z0-9 -]{0,9}[0-9]{2})(?:[A-Z]{1,5}[- ]?)?[0-9][A-Z0-9-]{4,18}(?: [0-9][A-Z0-9]{1,4}){0,2}|[A-Z]{2,5}[0-9]{6}[A-Z0-9]{5,7}|[A-Z][0-9]{3,4}(?:[- ][0-9]{3,5}){2,4})(?![\w-])",
    re.IGNORECASE,
)


def _finder(class_: str, form: re.Pattern[str]) -> Callable[[str, int, int, int], tuple[Candidate, ...]]:
    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        match = form.match(text, at, min(high, at + 110)) or form.match(text, at - 1, min(high, at + 110))
        if match is None:
            return ()
        value = match.group(1)
        digits = sum(map(str.isdigit, value))
        # Few digits are enough in capitals (``KWT6HMWM1``); a word of prose has none.
        if digits < 1 or (digits < 4 and not value.isupper()) or re.match(r"(?:19|20)[0-9]{2}-[01][0-9]-", value):
            return ()
        return (Candidate(match.start(1), match.end(1), "*" if is_marked_identifier(value) else class_),)

    return find


DETECTORS = (
    Detector(
        name="passport",
        class_="PASSPORT",
        triggers=(
            r"(?i)(?:passport|passeport|pasaporte|passaporte|passaporto|reisepass|reisepa\xdf|paspoort|paszport|pasaport|passi?nummer|travel document)(?:e?(?:nummer|numarasi|u|s)?)(?:[^A-Za-z0-9]|_|$)",
        ),
        find=_finder("PASSPORT", _PASSPORT),
        examples=(
            Example(text="passport no. SJ4952908 expires 2030", value="SJ4952908", near_miss="passport control at 10:30"),
            Example(text="Reisepassnummer C01X00T47", value="C01X00T47"),
        ),
    ),
    Detector(
        name="driving licence",
        class_="DRIVING_LICENCE",
        triggers=(
            r"(?i)(?:driv(?:er|ers|er's|ing)'?s?[ _\-]?licen[cs]e|f\xfchrerschein|permis de conduire|licencia de conducir|carnet de conducir|patente di guida|carta de condu\xe7\xe3o|rijbewijs|prawo jazdy|k\xf6rkort|\bDL ?(?:no|number|#)|licen[cs]e (?:number|no\.?|#))(?:nummer)?(?:[^A-Za-z0-9]|_|$)",
        ),
        find=_finder("DRIVING_LICENCE", _LICENCE),
        examples=(
            Example(text="driver's license D1234-56789-01234", value="D1234-56789-01234", near_miss="driving licence required"),
            Example(text="driving licence MORGA657054SM9IJ", value="MORGA657054SM9IJ"),
        ),
    ),
)
