"""Postcodes by themselves: ``zip: 94117``. Next to a street they belong to the address (`addresses`)."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors import context
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rows import behind_word, row

CLASS = "ADDRESS"
KIND = "postcode"
"""The surrogate of a postcode is as long as it, and not a street."""

_VALUE = re.compile(
    context.TAGS
    + r"(?:(?:[ _-]?(?:code|number|no)\b)?(?: (?:is|was|ist|est|es|è|é|to|for (?:me|delivery|billing) is)\b)?[\s\"'`]{0,3}(?:/[A-Za-z]{2,8})?(?:=>|[:=：]"
    r"|[\"'] ?,| - )?[\s\"'`(]{0,3}"
    r"|[\s\"':=]{1,4})"
    r"((?:[A-Z]{1,2}-)?[0-9]{5}(?:-[0-9]{3,4})?|[0-9]{4}(?: [A-Z]{2})?|[0-9]{6}|[0-9]{3} [0-9]{2,3}|[0-9]{2}-[0-9]{3}|[0-9]{3}-[0-9]{4}|[0-9]{4}-[0-9]{3}"
    r"|[A-Z]{1,2}[0-9][0-9A-Z]? ?[0-9][A-Z]{2}|[A-Z][0-9][A-Z] ?[0-9][A-Z][0-9])"
    r"(?![\w%]|[.,:-][0-9]|-[A-Za-z]| (?:bytes|files|entries|lines|rows|items))"
)
_YEAR = re.compile(r"(?:19|20)[0-9]{2}$")


_WORD_BEYOND = re.compile(
    r"(?:郵便番号|邮编|邮政编码|郵遞區號|우편번호|(?:почтовый )?индекс|поштовий індекс|індекс|מיקוד|الرمز البريدي|کد ?پستی|รหัสไปรษณีย์|Τ\.?Κ\.?)",
    re.IGNORECASE,
)


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    match = _VALUE.match(text, at, min(high, at + 80))
    if match is None or _YEAR.match(match.group(1)):
        return ()
    return (Candidate(*match.span(1), CLASS, KIND),)


DETECTORS = (
    row("address: postcode by itself, other scripts", CLASS, behind_word(_WORD_BEYOND, 32, _find),
        r"(?#rare)[\x80-\xff]{2}[ :\xb7]{0,2}[0-9]{3}",
        shows=("邮编：⟦100020⟧", "订单：100020")),
    row("address: postcode by itself", CLASS, _find,
        r"(?i)\b(?:zip(?:[ _]?code)?|postal[ _]?code|post[ _]?code|postleitzahl|plz|code postal|código postal|cod(?:igo)?[ _]?postal|codice postale"
        r"|postnummer|postinumero|postcode|kod pocztowy|irsz|irányítószám|posta kodu|kode pos|eircode|cep)\b",
        r"(?i)\bps[Čč][ :]",
        shows=("zip code: ⟦94117⟧", "zip 3 files, postcode is required", "my postcode is ⟦SW1A 1AA⟧")),
)  # fmt: skip
