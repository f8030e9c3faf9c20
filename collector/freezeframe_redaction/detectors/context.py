"""The words around a value that say what it is, in the languages that the detectors know.

English, German, French, Spanish, Portuguese, Italian, Dutch, Polish, Swedish, Turkish, Russian, Chinese, Japanese, Korean, Arabic,
Hindi. A pattern is searched in the lower-cased text just before a value, within the same leaf; the key of a JSON value stands
there as ``key: ``.
"""

from __future__ import annotations

import re

REACH = 56
"""Characters before a value in which a context word counts."""


def words(*alternatives: str) -> re.Pattern[str]:
    """Compile alternatives for lower-cased text; each is a regular expression without captures."""
    return re.compile("|".join(alternatives))


_LABEL = re.compile(r"((?:[^\n:=,;\x1f\"'().]|\.(?! )){1,40}?)[\"'*)]{0,3}\s?(?:[:=]|=>)\s?[\"'*(]{0,3}$")


def before(text: str, low: int, start: int, reach: int = REACH) -> str:
    """Return the lower-cased text before `start` that may say what the value is, within the leaf.

    A label right before the value (``"created": ``) speaks for it alone. A line speaks for its own values, and for the first of
    the next line.
    """
    near = text[max(low, start - reach) : start].lower()
    line = near.rfind("\n")
    if line >= 0 and near[line:].strip(" \t#*>-\n"):
        near = near[line + 1 :]
    label = _LABEL.search(near)
    return near[label.start() :] if label is not None else near


PHONE = words(
    r"phone", r"\btel\b", r"\btel[.:]", r"telef", r"télé", r"t[eé]l\.", r"\bcall", r"mobil", r"\bmob\b", r"\bcell", r"\bfax", r"\btext\b",
    r"\btext(?:ing|ed)?\b", r"\bsms\b", r"whats ?app", r"contact", r"\bdial", r"\bring\b", r"\breach", r"hotline", r"callback", r"voicemail",
    r"handy", r"\brufnummer", r"durchwahl", r"erreich", r"\banruf", r"ruf mich", r"appel", r"portable", r"joindre", r"llam", r"m[oó]vil",
    r"celular", r"telem[oó]vel", r"ligue", r"ligar", r"chiam", r"cellulare", r"bel mij", r"bellen", r"telefoon", r"komórk", r"zadzwoń",
    r"dzwoni", r"\bring mig", r"telefonn", r"puhelin", r"telefonum", r"cep\b", r"ara(?:yın|yin|yabilir)", r"signal\b", r"viber", r"wechat",
    r"телефон", r"тел\b", r"тел\.", r"звон", r"моб", r"τηλ", r"电话", r"電話", r"手机", r"手機", r"携帯", r"连絡|連絡", r"전화", r"휴대폰", r"연락처",
    r"هاتف", r"جوال", r"موبايل", r"फ़?ोन", r"मोबाइल", r"טלפון", r"נייד", r"desk", r"\bpager", r"\bphon", r"\bmsisdn", r"number is",
)  # fmt: skip
CARD = words(
    r"card", r"\bcc\b", r"\bvisa\b", r"master ?card", r"amex", r"\bpan\b", r"credit", r"debit", r"carte", r"karte", r"tarjeta", r"cart[aã]o",
    r"carta", r"kaart", r"karta", r"\bkart", r"kort", r"карт", r"卡号", r"信用卡", r"カード", r"카드", r"charge", r"payment", r"بطاقة", r"कार्ड",
)  # fmt: skip
SSN = words(r"\bssn\b", r"ssn", r"social.?sec", r"\bss ?#", r"\bss ?no", r"\bsoc\b", r"\bitin\b", r"taxpayer", r"seguro social")
ORDER = re.compile(
    r"(?:\bord(?:er)?|\binv(?:oice)?|\bsku|\bbuild|\bver(?:sion)?|\bv|\blat|\blon|\blng|tracking|ticket|\bref(?:erence)?|commit|\brev|serial"
    r"|\bpart|pages?|lines?|chapter|port|isbn|issn|\bean|\bupc|gtin|\basin|\bts|timestamp|epoch|nano|micros|_at|_ns|_ms|\btime|bestell(?:ung|nummer)?|rechnung"
    r"|commande|pedido|ordine|zam[oó]wieni[ea]|zakaz|заказ|订单|item|product|\bid)"
    r"(?: (?:no|nr|number|id|#))?[-=:#.\"' _]{0,4}$"
)
"""Words that say that a number is not a person's."""
