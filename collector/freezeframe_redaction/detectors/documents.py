"""Passports, identity cards and driving licences: a word for the document, then something of a document number's shape."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors import context
from freezeframe_redaction.model import Candidate, Find
from freezeframe_redaction.rows import after, around, reaching, row, value

_FILLER = context.TAGS + (
    r"(?:[ ](?:marocaine?|nationale|\([A-Za-z .]{2,20}\)))?(?:[\s_-]{0,2}(?:number(?:'s)?|num|no|nr|nummer|numero|número|numéro|n(?=[°.])|id|book|card|code"
    r"|holder|document|is|was|ist|est|es|[eé]|номер|号码|番号|numer|numarası|szám|číslo|č|br|broj|seria|serie|série)\b\.?){0,4}(?:[.·_]{3,60})?"
    r"[\s\"'()\[\]:=#：,.°]{0,6}(?:(?:is|was|ist|est|es|[eé])\s)?[\"'#(]{0,2}"
)
_PASSPORT = re.compile(
    _FILLER + r"([A-Z0-9]{6,9}|[A-Z]{1,3} ?[0-9]{6,8}|[0-9]{2} [0-9]{2} [0-9]{6}|[0-9]{4} [0-9]{6})(?![\w-])",
    re.IGNORECASE,
)
_CARD = re.compile(
    _FILLER
    + r"((?:[A-Z]{1,3}[ -]?)?(?=[0-9A-Z]{0,10}[0-9])[0-9A-Z]{1,18}(?:[ ./-](?=[0-9A-Z]{0,10}[0-9])[0-9A-Z]{1,12}){0,4})(?![\w-])",
    re.IGNORECASE,
)
_SERIES = re.compile(
    r"[ .:]{0,3}[A-Z]{2},?(?:[ .,:]{1,2}(?:nr|no|num[aă]r(?:ul)?)\b\.?:?)? ?([0-9]{6})(?![\w-])", re.IGNORECASE
)
_LICENCE = re.compile(
    _FILLER
    + (
        r"((?=[A-Z0-9 -]{0,9}[0-9]{2})(?:[A-Z]{1,5}[- ]?)?[0-9][A-Z0-9-]{4,18}(?: [0-9][A-Z0-9]{1,4}){0,2}|[A-Z]{2,5}[0-9]{6}[A-Z0-9]{5,7}"
        r"|[A-Z][0-9]{3,4}(?:[- ][0-9]{3,5}){2,4})(?![\w-])"
    ),
    re.IGNORECASE,
)


def _finder(class_: str, form: re.Pattern[str]) -> Find:
    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        match = form.match(text, at, min(high, at + 110)) or form.match(text, at - 1, min(high, at + 110))
        return value(match, class_) if match and _may_be_number(match[1]) else ()

    return find


def _may_be_number(value: str) -> bool:
    digits = sum(map(str.isdigit, value))
    # A few digits are enough among capitals (``KWT6HMWM1``); a word of prose has none.
    return (
        6 <= len(value) <= 24
        and digits > 0
        and (digits > 3 or value.isupper())
        and re.match(r"(?:19|20)[0-9]{2}-[01][0-9]-", value) is None
    )


_ID_OF = re.compile(
    r"(?<!\w)(?!(?:(?-i:[A-Z])[a-z]+(?:an|ese|ish|ani)|national|huduma|citizen|resident|my|his|her|your|their|the|whose|with|and)\b)[^\W\d]{2,} id ?(?:no"
    r"|number|nr)$",
    re.IGNORECASE,
)
_ID_VALUE = re.compile(r"\.?(?: is)?[\s:=#\"']{1,4}([0-9]{6,14})(?![\w-])", re.IGNORECASE)


def _identity_number(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``ID No. 27718829``: a person's, unless a word before it names something else (``order id number``)."""
    return () if _ID_OF.search(text, max(low, at - 32), at) else value(_ID_VALUE.match(text, at, min(high, at + 40)), "NATID")


_by_series = after(_SERIES, "NATID", 40)
"""``CI seria RX nr. 482193``: two letters, which stay, and the number."""


_FOREIGN_PASSPORT = re.compile(
    r"(?:паспорт[а-я]*|在留カード|免許証|운전면허|驾驶证|駕照|护照|護照|パスポート|旅券|여권|جواز(?: السفر)?|पासपोर्ट|דרכון|διαβατ[^\W\d_]*)[^0-9A-Z\n\x1f]{0,20}"
    r"([A-Z]{0,2} ?[0-9]{2} ?[0-9]{2}(?:[^0-9\n\x1f]{1,9})?[0-9]{2,6}(?:[A-Z]{2})?)(?![0-9A-Za-z])",
    re.IGNORECASE,
)
_ZONE_NAMES = re.compile(r"(?<![A-Z0-9<])[PIACV][A-Z<][A-Z]{3}([A-Z]+<(?:[A-Z]+<)*<[A-Z<]{2,36})(?![A-Z0-9])")
_ZONE_NUMBERS = re.compile(
    r"(?<![A-Z0-9<])[A-Z0-9]{6,9}<{0,3}[0-9][A-Z]{1,3}<{0,2}[0-9]{7}[MFX<][0-9]{7}[A-Z0-9<]{2,16}(?![A-Z0-9])"
)


_foreign_passport = around(_FOREIGN_PASSPORT, "PASSPORT", 40, 40)


def _zone(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The machine-readable zone of a passport or card: a line of names, a line of numbers. Source: ICAO Doc 9303, parts 4 and 5."""
    match = reaching(_ZONE_NAMES, text, low, high, at, 48, 48, begun=True)
    if match is not None:
        return value(match, "PASSPORT", group=1)
    return value(reaching(_ZONE_NUMBERS, text, low, high, at, 48, 48, begun=True), "PASSPORT", group=0)


DETECTORS = (
    row("identity card", "NATID", _finder("NATID", _CARD),
        r"(?i)[^A-Za-z0-9](?:identity card|id[ \-]card|voter id|ghana ?card|carte (?:nationale )?d'identité|carte de identitate|\bcni\b|personalausweis"
        r"|ausweis-?(?:nummer|nr)|documento de identidad|documento identidad|c[ée]dula(?: de (?:ciudadanía|identidad))?|\bdni(?: peruano| argentino)?"
        r"|carn[ée]t de identidad|carta d'identità|identiteitskaart"
        r"|cartão (?:de )?cidadão|bilhete de identidade|dowód(?: osobisty)?|dowodu|občanský průkaz|obe\xe9anský preukaz|osobna iskaznica|lična karta"
        r"|osebna izkaznica|szem(?:élyi|\.) ?ig(?:azolvány|\.)(?: szám)?|henkilökortti|id-kort|legitimation|nüfus cüzdaný|isikutunnistus|civil id|id-nr\.?"
        r"|national registration|\bnrc\b|\bbvn\b|philsys|\bpcn\b|\bomang\b|\bqid\b|\bcin\b|\bc\.i\.)(?:nummer|s)?[^A-Za-z0-9]",
        shows=("Personalausweis ⟦L01X00T47⟧", "identity card required")),
    row("identity number", "NATID", _identity_number, r"(?i)\bid ?(?:no|number|nr)\b",
        shows=("Huduma/ID No. ⟦27718829⟧", "order id number 27718829")),
    row("identity card by series", "NATID", _by_series, r"(?i)\bseri[ae]\b",
        shows=("CI seria RX nr. ⟦482193⟧", "seria A nr. 3")),
    row("passport, other scripts", "PASSPORT", _foreign_passport,
        r"(?#rare)[\x80-\xff]{2}[ :.]{0,3}[A-Za-z]{0,2} ?[0-9]{2} ?[0-9]{2}",
        shows=("паспорт серия ⟦4508 номер 123456⟧", "паспорт получен в 2019", "护照号 ⟦E12345678⟧")),
    row("machine-readable zone", "PASSPORT", _zone, r"[A-Z]<<[A-Z]", r"(?#digits)[0-9]{7}[MFX<][0-9]{7}",
        shows=("⟦L898902C36UTO7408122F1204159ZE184226B<<<<<10⟧", "1234567M7654321")),
    row("passport", "PASSPORT", _finder("PASSPORT", _PASSPORT),
        r"(?i)(?:passport|passeport|pasaporte|passaporte|passaporto|reisepass|reisepaß|paspoort|paszport|pasaport|passi?nummer"
        r"|travel document)(?:e?(?:nummer|numarasi|u|s)?)(?:[^A-Za-z0-9]|_|$)",
        shows=("passport no. ⟦SJ4952908⟧ expires 2030", "passport control at 10:30", "Reisepassnummer ⟦C01X00T47⟧")),
    row("driving licence", "DRIVING_LICENCE", _finder("DRIVING_LICENCE", _LICENCE),
        r"(?i)(?:driv(?:er|ers|er's|ing)'?s?[ _\-]?licen[cs]e|führerschein|permis de conduire|licencia de conducir|carnet de conducir|patente di guida"
        r"|carta de condução|rijbewijs|prawo jazdy|\bcnh|körkort|driver'?s lic\b|patente n|\bDL[ _]?(?:no|number|#|:)|\bDVLA(?: no| number)?"
        r"|licen[cs]e (?:number|no\.?|#))(?:nummer)?(?:[^A-Za-z0-9]|_|$)",
        shows=("driver's license ⟦D1234-56789-01234⟧", "driving licence required", "driving licence ⟦MORGA657054SM9IJ⟧",
               "NHS, then DVLA ⟦MORGA657054SM9IJ⟧", "the DVLA answered in 2 weeks")),
)  # fmt: skip
