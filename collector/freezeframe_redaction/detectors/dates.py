"""Dates of birth: a date right after a word for birth, in sixteen languages. Other dates are left alone."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors import context
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rows import behind_word, row, value

CLASS = "DOB"

_MONTH = (
    r"(?:jan(?:uar[yi]?|vier|eiro)?|feb(?:ruar[yi]?|rero|braio|r)?|f[eé]v(?:rier|ereiro)?|mar(?:ch|s|zo|ço|et)?|m[aä]r(?:z|s|t|ts)|maart|apr(?:il|ile)?"
    r"|avr(?:il)?|abr(?:il)?|ma[iyj]o?|maggio|mei"
    r"|jun[ei]?o?|juin|giugno|jul[yi]?o?|juil(?:let)?|luglio|aug(?:ust|ustus|usti)?|ao[uû]t|ago(?:sto)?|sep(?:t(?:ember|embre)?|tiembre|tembre)?|set(?:embro"
    r"|tembre)?|o[ck]t(?:ober|obre|ubre)?|ottobre|out(?:ubro)?"
    r"|nov(?:ember|embre|iembre|embro)?|de[cz](?:ember|embre|embro)?|dic(?:iembre|embre)?|d[eé]c(?:embre)?"
    r"|stycznia|lutego|marca|kwietnia|maja|czerwca|lipca|sierpnia|września|października|listopada|grudnia"
    r"|ocak|şubat|mart|nisan|mayıs|haziran|temmuz|ağustos|eylül|ekim|kasım|aralık"
    r"|января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря)"
)
_ERA = r"(?:明治|大正|昭和|平成|令和|民國|民国|[MTSHR])(?:[0-9]{1,2}|元)年"
_DATE = (
    rf"(?:{_ERA}[0-9]{{1,2}}月[0-9]{{1,2}}日|"
    r"[0-9]{4} ?[-/.年] ?[0-9]{1,2} ?[-/.月] ?[0-9]{1,2}(?:日)?|[0-9]{1,2} ?[-/.] ?[0-9]{1,2} ?[-/.] ?(?:[0-9]{4}|[0-9]{2})(?![0-9])"
    rf"|{_MONTH}\.?,? ?[0-9]{{1,2}}(?:st|nd|rd|th)?,?(?: of)? [0-9]{{4}}|(?:the )?[0-9]{{1,2}}(?:st|nd|rd|th|er|\.|º)?(?: of| de"
    rf"| di)?[ -]{_MONTH}\.?,?(?: de| del)?[ -](?:of )?(?:[0-9]{{4}}|'[0-9]{{2}})"
    rf"|[0-9]{{4}}[년 ]{{1,2}}[0-9]{{1,2}}[월 ]{{1,2}}[0-9]{{1,2}}일?|(?:19|20)[0-9]{{2}}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?![0-9])|(?:0[1-9]"
    rf"|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:19|20)[0-9]{{2}}(?![0-9])|{_MONTH} [0-9]{{4}}|[0-9]{{4}} {_MONTH} [0-9]{{1,2}}|[0-9]{{1,2}} {_MONTH}|(?:19"
    rf"|20)[0-9]{{2}}(?![0-9]))"
)
_AFTER = re.compile(
    context.TAGS
    + r"(?:[\s\"'()\[\]:=：,._*/|\\>~?→–—-]|(?:is|was|on|at|in|the|date|day|of|year|ist|war|am|le|est|el|es|il|em|o|op|dnia|w|den|dia|giorno|as|recorded"
    r"|listed|given|tarihi|der|een|рождения|на)\b){0,14}?"
    rf"({_DATE})(?:(?=T[0-9]{{2}}:)|(?![0-9A-Za-z]))",
    re.IGNORECASE,
)
_FIRST_OF_JANUARY = re.compile(
    r"^(?:(?:19|20|18)[0-9]{2} ?[-/.年] ?0?1 ?[-/.月] ?0?1日?|0?1 ?[-/.] ?0?1 ?[-/.] ?[0-9]{2,4}|(?:19|20)[0-9]{2}0101|0101(?:19|20)[0-9]{2}|January 1, [0-9]{4})$"
    rf"|^{_ERA}0?1月0?1日$"
)


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    limit = min(high, at + 90)
    match = _AFTER.match(text, at, limit) or _AFTER.match(text, at - 1, limit)
    if match and match[1].isdigit() and len(match[1]) == 4 and "born" not in text[max(low, at - 10) : at].lower():
        return ()
    return value(match, CLASS, is_marked=is_surrogate)


def is_surrogate(value: str) -> bool:
    """Whether the date is the first of January, to which dates of birth are coarsened."""
    return bool(_FIRST_OF_JANUARY.match(value)) or bool(re.fullmatch(r"(?:19|20|18)[0-9]{2}", value))


_WORDS = (
    r"(?i)[^A-Za-z0-9](?:dob|d\.o\.b\.?|date[ _]?of[ _]?birth|dateofbirth|birth[ _\-]?date|birth[ _]?day|bday|born(?: on)?|geboren(?: am)?|geburtsdatum"
    r"|geburtstag|geb\.(?:-?datum)?"
    r"|date de naissance|n[ée]e?(?: le)|né\(e\)(?: le)?|fecha de nacimiento|fecha nac\.?|fec_?nac|birth_?dt|nacid[oa](?: el)?|data de nascimento"
    r"|nascid[oa](?: em)?|data di nascita|nat[oa] il|geboortedatum|geboren op"
    r"|data urodzenia|urodzon[ya]|födelsedatum|född(?: den)?|født|fødselsdato|do.um(?: tarihi(?:m|n.z)?)?|do.umluyum|nac[ií]|nasc[ií](?: em)?|\bur\."
    r"|naissance|ngày sinh|data na.terii|n.scut.?(?: la)?|datum ro.enja|ro.en[a]?|datum rojstva|dat.lindja|gimimo data|dzim.anas datums|sünniaeg"
    r"|fæðingardagur|tarikh lahir|tarehe ya kuzaliwa|narozen[áa]?|datum narození|született|születési dátum|syntynyt|tanggal lahir|lahir|syntymäaika"
    r"|birth)[^A-Za-z0-9]"
)


_FOREIGN_WORD = re.compile(
    r"(?:дата рождения|род\.|родил(?:ся|ась)|出生日期|出生于|生年月日|生日|誕生日|생년월일|생일|تاريخ الميلاد|जन्म ?तिथि|जन्मतिथि|תאריך לידה|ημερομηνία γέννησης|urodzon"
    r"|doğum tarihi|ngày sinh)[:：]?\s?",
    re.IGNORECASE,
)


_FOREIGN = row("date of birth, other scripts", CLASS, behind_word(_FOREIGN_WORD, 40, _find),
    r"(?#rare)[\x80-\xff]{2}[ :.\x80-\xff]{0,4}(?:19|20)?[0-9]{1,2}",
    shows=("生年月日: ⟦1985年3月4日⟧", "дата рождения ⟦04.03.1985⟧"))  # fmt: skip

_BEFORE = re.compile(
    rf"(?<![0-9A-Za-z])({_DATE})(?: (?:geboren|geb\\.|nacid[oa]|nat[oa]|né[e]?|född|født|urodzon[ya])| ?(?:出生|生まれ|출생))",
    re.IGNORECASE,
)


def _find_before(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``am 4. März 1985 geboren``: the trigger ended in the word after the date."""
    for match in _BEFORE.finditer(text, max(low, at - 34), min(high, at + 8)):
        if match.end() >= at and not match[1].isdigit():
            return value(match, CLASS, is_marked=is_surrogate)
    return ()


DETECTORS = (
    row("date of birth, word behind", CLASS, _find_before, r"(?#rare)[0-9]\xe9[0-9]{1,2}\xe9 ?\xe9{2}",
        r"(?i)[0-9]{4} (?:geboren|geb\.|nacid|nat[oa]\b|né|född|født|urodzon)",
        shows=("am ⟦4. März 1985⟧ geboren", "im Jahr 1985 geboren")),
    # Scripts outside Latin-1 fire on the date itself; the word before it is checked by `_FOREIGN`.
    row("date of birth", CLASS, _find, _WORDS,
        shows=("born ⟦March 4, 1985⟧", "due 03/04/2027", "Geburtsdatum: ⟦04.03.1985⟧", "Geburtstagsfeier am Montag")),
    _FOREIGN,
)  # fmt: skip
