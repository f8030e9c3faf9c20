"""Surrogates: for each class, the replacement of a value, and the canonical form of equal values.

A surrogate keeps the shape that programs parse (an e-mail is one, a card passes Luhn, an IBAN mod 97), is the same for the same
value under the same key. The list in a span and a fixture identifies it as one, so that it is not redacted again; those
of names, addresses, mail, cards, wallets and secrets also have a form that no real value has. The original's separators, case
and layout stay.

It is long because it is a catalogue: one short function for each class, and the table of all classes.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from dataclasses import replace
from itertools import chain, zip_longest

from freezeframe_redaction.model import SurrogateClass
from freezeframe_redaction.prf import BASE32, BASE62, DIGITS, HEX, Prf, permute, spell
from freezeframe_redaction.rules import checksums
from freezeframe_redaction.rules.vendors import HEADS, SEPARATORS
from freezeframe_redaction.surrogates import spoken
from freezeframe_redaction.surrogates.invented import invent
from freezeframe_redaction.surrogates.mailboxes import plain_address
from freezeframe_redaction.surrogates.marks import IN_WALLETS
from freezeframe_redaction.surrogates.phones import make_phone
from freezeframe_redaction.surrogates.plans import national_kind
from freezeframe_redaction.surrogates.shapes import (
    bare,
    digits_of,
    lay_out,
    make_card,
    make_identifier,
    make_number,
)

# -- identifiers -------------------------------------------------------------------------------------------------------


def identifier(name: str, priority: int, *, keys: tuple[str, ...] = (), minimal: bool = False) -> SurrogateClass:
    """Return a class whose values get a surrogate of the same shape: digits for digits, letters for letters."""
    return SurrogateClass(
        name=name,
        replace=lambda prf, value, kind: make_identifier(prf, name, value),
        canonical=_bare_canonical,
        priority=priority,
        keys=keys,
        minimal=minimal,
    )


# -- contact -----------------------------------------------------------------------------------------------------------


def _email(prf: Prf, value: str, kind: str) -> str:
    plain = plain_address(value)
    local, _, domain = plain.rpartition("@")
    sign = kind if kind == "=40" else "@"
    made = (
        f"u{prf.letters('EMAIL', f'{local}@{domain}', BASE32, 10)}{sign}d{prf.letters('DOMAIN', domain, BASE32, 6)}.example.com"
    )
    return made.upper() if value.isupper() else made


def _email_canonical(value: str, kind: str) -> str:
    return plain_address(value)


_EXTENSION = re.compile(r"(?i) ?(?:x|ext\.?|extension|durchwahl|poste) ?([0-9]{1,6})$")


def _phone(prf: Prf, value: str, kind: str) -> str:
    extension = _EXTENSION.search(value)
    main = value[: extension.start()] if extension else value
    digits = digits_of(main)
    made = lay_out(main, make_phone(prf, digits, kind))
    if extension:
        made += lay_out(extension.group(), prf.letters("EXTENSION", digits + extension.group(1), DIGITS, 6))
    return made


def _phone_canonical(value: str, kind: str) -> str:
    extension = _EXTENSION.search(value)
    digits = digits_of(value[: extension.start()] if extension else value)
    if len(digits) == 11 and digits[0] == "1":
        digits = digits[1:]
    elif digits[:2] == "00" and len(digits) > 9:
        digits = digits[2:]
    return digits + (f"x{extension.group(1)}" if extension else "")


# -- payment -----------------------------------------------------------------------------------------------------------


def _card(prf: Prf, value: str, kind: str) -> str:
    return lay_out(value, make_card(prf, digits_of(value)))


_NO_BANK = {"BA": "9999", "BE": "9999", "BR": "9999", "EE": "66", "RS": "9999", "TR": "9999"}
"""First digits of no bank, in countries in which zeros belong to one: elsewhere, a bank code of zeros is unassigned.

Source: the registers of bank codes in schwifty 2026.10.1 and python-stdnum 2.2; in Belgium, 999 is for circular cheques.
"""


def _iban(prf: Prf, value: str, kind: str) -> str:
    text = bare(value)
    number = prf.number("IBAN", text)
    bank = _NO_BANK.get(text[:2], "")
    account: list[str] = []
    for position, char in enumerate(text[4:]):
        if char.isdigit():
            number, digit = divmod(number, 10)
            account.append(bank[position : position + 1] or "0" if position < 4 else str(digit))
        else:
            number, letter = divmod(number, 26)
            account.append("X" if position < 4 else chr(65 + letter))
    body = "".join(account)
    made = f"{text[:2]}{98 - checksums.mod97(body + text[:2] + '00'):02d}{body}"
    if value[:2].islower():
        made = made.lower()
    supply = iter(made)
    return "".join(next(supply) if char.isalnum() else char for char in value)


def _ssn(prf: Prf, value: str, kind: str) -> str:
    digits = digits_of(value)
    number = prf.number("US_SSN", digits)
    made = f"9{number % 100:02d}{1 + number // 100 % 49:02d}{1 + number // 4900 % 9998:04d}"
    return lay_out(value, made)


# -- network -----------------------------------------------------------------------------------------------------------


def _ip(prf: Prf, value: str, kind: str) -> str:
    if ":" not in value:
        number = prf.number("IP", value)
        return f"{240 + number % 15}.{number >> 8 & 255}.{number >> 16 & 255}.{number >> 24 & 255}"
    packed = int(ipaddress.IPv6Address(value))
    low = prf.number("IP6", str(packed)) & ((1 << 96) - 1)
    return str(ipaddress.IPv6Address(0x20010DB8 << 96 | low))


def _ip_canonical(value: str, kind: str) -> str:
    return str(ipaddress.ip_address(value)) if ":" in value else value


def _mac(prf: Prf, value: str, kind: str) -> str:
    text = re.sub(r"[^0-9a-f]", "", value.lower())
    made = f"02005e{prf.number('MAC', text) & 0xFFFFFF:06x}"
    if value.upper() == value and value.lower() != value:
        made = made.upper()
    supply = iter(made)
    return "".join(next(supply) if char.isalnum() else char for char in value)


def _url(prf: Prf, value: str, kind: str) -> str:
    user, _, password = value.partition(":")
    name, word = prf.number("URL_USER", user), prf.number("URL_PASSWORD", password + user)
    return f"rdxu{spell(name, BASE32, 6)}:rDx{spell(word, BASE62, 14)}"


# -- secrets -----------------------------------------------------------------------------------------------------------

_HEX_BODY = re.compile(r"[0-9a-f-]{16,}$")
_UPPER_BODY = re.compile(r"[A-Z0-9]{10,}$")


def _secret(prf: Prf, value: str, kind: str) -> str:
    if kind == "jwt":
        return _jwt(prf, value)
    if kind == "pem":
        return _pem(prf, value)
    if kind == "code":
        return _code(prf, value)
    prefix = HEADS[kind].match(value) if kind in HEADS else None
    head = prefix.group() if prefix else ""
    body = value[len(head) :]
    if _HEX_BODY.match(body):
        alphabet, mark = HEX, "facadefacade"
    elif _UPPER_BODY.match(body) and any(map(str.isalpha, body)):
        alphabet, mark = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "RDXRDX"
    else:
        alphabet, mark = BASE62, "rDxrDx" if len(body) >= 12 or head else "rDx"
    made = mark + prf.letters("SECRET", value, alphabet, max(0, len(body)))
    supply = iter(made)
    kept = SEPARATORS.get(kind, "")
    out = "".join(char if char in kept and index >= len(mark) else next(supply) for index, char in enumerate(body))
    if body.endswith("=="):
        out = out[:-2] + "=="
    return head + out


MIN_LISTED_DIGITS = 5
"""Digits of the shortest number that is listed as a surrogate: shorter ones may occur anywhere."""
_CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CODE_BY_PERMUTATION = 5
"""Digits of the longest code whose letters are assigned by permutation."""


def _code(prf: Prf, value: str) -> str:
    """Return the surrogate of a code of few digits: as many letters, which no detector of codes finds.

    Up to five digits, each code has a different one; of longer ones, two in a quarter of a million have the same. Six letters
    and more carry the mark of secrets, since a password may be as long.
    """
    digits = digits_of(value) or spoken.digits_in(value)
    if len(digits) > _CODE_BY_PERMUTATION:
        return "rDx" + prf.letters("CODE", digits, BASE62, len(digits) - 3)
    number, capital = divmod(permute(prf, "CODE", int(digits), 10 ** len(digits)), len(_CAPITALS))
    return "r" + _CAPITALS[capital] + spell(number, BASE62, len(digits) - 2)


def number_for(prf: Prf, made: str, value: str) -> str:
    """Return digits in place of a surrogate that is not a number: nines if too few to be listed."""
    length = len(value)
    if length < MIN_LISTED_DIGITS:
        return "9" * length
    number = make_number(prf, "NUMBER", made, length)
    return number if number != value else make_number(prf, "NUMBER", number, length)


_LINE_BREAK = re.compile(r"\r?\n[ \t]*")
_JWT_DOT = re.compile(r"\s*\.\s*")


def _jwt(prf: Prf, value: str) -> str:
    breaks = _LINE_BREAK.search(value)
    if breaks is not None and _LINE_BREAK.search(_JWT_DOT.sub(".", value)) is None:  # in parts: the surrogate is, too
        made = _jwt(prf, _LINE_BREAK.sub("", value))
        return "".join(chain.from_iterable(zip_longest(made.split("."), _JWT_DOT.findall(value), fillvalue="")))
    if breaks is not None:  # over lines of one width: the surrogate is, too
        made, width = _jwt(prf, _LINE_BREAK.sub("", value)), breaks.start()
        return breaks.group().join(made[at : at + width] for at in range(0, len(made), width))
    parts = value.split(".")
    payload = base64.urlsafe_b64encode(f'{{"rdx":"{prf.letters("JWT", value, BASE62, 22)}"}}'.encode()).decode().rstrip("=")
    signature = prf.letters("JWT_SIGNATURE", value, BASE62, 43)
    return ".".join((parts[0], payload, *([signature] if len(parts) > 2 else [])))


def _pem(prf: Prf, value: str) -> str:
    begin = value.index("-----", 10) + 5
    end = value.rfind("-----END")
    end = len(value) if end < begin else end
    body = value[begin:end]
    supply = iter("rDxrDx" + prf.letters("PEM", value, BASE62, len(body)))
    out: list[str] = []
    escaped = False
    for char in body:
        out.append(next(supply) if (char.isalnum() or char in "+/") and not (escaped and char in "nrt") else char)
        escaped = char == "\\"
    return value[:begin] + "".join(out) + value[end:]


def _wallet(prf: Prf, value: str, kind: str) -> str:
    number = prf.number("CRYPTO", value.lower() if kind != "base58" else value)
    if kind == "ethereum":
        return "0x" + "facadefacade" + spell(number, HEX, 28)
    payload = IN_WALLETS + (number & (1 << 128) - 1).to_bytes(16, "big")
    if kind == "base58":
        version = {"1": b"\x00", "3": b"\x05", "L": b"\x30", "M": b"\x32", "D": b"\x1e", "T": b"\x41"}[value[0]]
        return checksums.base58check(version + payload)
    bits = int.from_bytes(payload, "big")
    made = checksums.bech32_encode(
        value[: value.rfind("1")].lower(), [0] + [bits >> (155 - 5 * index) & 31 for index in range(32)]
    )
    return made.upper() if value.isupper() else made


# -- people ------------------------------------------------------------------------------------------------------------


def _person(prf: Prf, value: str, kind: str) -> str:
    made = invent(prf, "PERSON", value.lower())
    if "'" in value:  # one for one: Python and JavaScript quote a text by whether it holds an apostrophe
        made = f"{prf.letters('PERSON/INITIAL', value.lower(), _CAPITALS, 1)}'{made}"
    if value.isupper() and len(value) > 1:
        return made.upper()
    return made.lower() if value.islower() else made


def _address(prf: Prf, value: str, kind: str) -> str:
    if kind == "postcode":
        return _postcode(prf, value)
    canonical = _address_canonical(value, kind)
    made = f"{1 + prf.number('ADDRESS', canonical) % 9998} {invent(prf, 'STREET', canonical)} Street"
    return made.upper() if value.isupper() else made.lower() if value.islower() else made


def _postcode(prf: Prf, value: str) -> str:
    """Return the surrogate of a postcode: as long, with a small r in front, so that no country has it."""
    text = bare(value)
    if len(text) <= _CODE_BY_PERMUTATION and text.isdigit():
        return _code(prf, text)
    return "r" + prf.letters("POSTCODE", text, _CAPITALS, 1) + prf.letters("POSTCODE/BODY", text, BASE62, len(text) - 2)


def _address_canonical(value: str, kind: str) -> str:
    return " ".join(re.sub(r"[\s,.]+", " ", value.lower()).split())


_MONTHS = re.compile(r"[^\W\d_]{3,}|[\u0600-\u0eff]")
"""Names of months; from Arabic to Lao one may have two letters, or marks between them."""
_GROUP = re.compile(r"[0-9]+")


def coarsen(value: str) -> str:
    """Return the date as the first of January, in the same layout; idempotent."""
    groups = _GROUP.findall(value)
    if len(groups) == 1 and len(groups[0]) == 8:
        year_first = groups[0][:2] in ("19", "20")
        return value.replace(groups[0], groups[0][:4] + "0101" if year_first else "0101" + groups[0][4:])
    word = _month_word(value)
    year = next((group for group in groups if len(group) == 4), None)
    if word is not None:
        if len(groups) < 2:
            day_first = bool(groups) and len(groups[0]) < 4
            return (
                f"1 January{'' if year is None else ' ' + year}"
                if day_first
                else f"January{'' if year is None else ' ' + year}"
            )
        if year == groups[0]:
            return f"{year} January 1"
        return f"January 1, {groups[-1]}" if value.index(word) < value.index(groups[0]) else f"1 January {groups[-1]}"
    # Of the years of Japanese eras (``昭和60年4月12日``, ``S60.4.12``) the first group is the year.
    last = 0 if "年" in value or value[0].isalpha() else len(groups) - 1
    kept = groups.index(year) if year is not None else last
    made = iter([group if index == kept else "1".rjust(len(group), "0") for index, group in enumerate(groups)])
    return _GROUP.sub(lambda match: next(made), value)


def _month_word(value: str) -> str | None:
    for match in _MONTHS.finditer(value):
        if match.group().lower() not in ("the", "del", "den"):
            return match.group()
    return None


def _dob_canonical(value: str, kind: str) -> str:
    year = re.search(r"(?<![0-9])(?:18|19|20)[0-9]{2}(?![0-9])|^(?:19|20)[0-9]{2}(?=[01][0-9][0-3][0-9]$)", value)
    return year.group() if year else coarsen(value)


def _lower(value: str, kind: str) -> str:
    return value.lower()


def _same(value: str, kind: str) -> str:
    return value


def _digits_canonical(value: str, kind: str) -> str:
    return digits_of(value)


def _bare_canonical(value: str, kind: str) -> str:
    return bare(value)


def _also_spoken(entry: SurrogateClass) -> SurrogateClass:
    """Return the class for digits in words as well: their surrogate is that of the digits, in words."""

    def replaced(prf: Prf, value: str, kind: str) -> str:
        if kind != spoken.KIND:
            return entry.replace(prf, value, kind)
        digits = spoken.digits_in(value)
        return spoken.spell_out(entry.replace(prf, digits, national_kind(digits) if entry.name == "PHONE" else ""), value)

    def canonical(value: str, kind: str) -> str:
        return entry.canonical(spoken.digits_in(value), "") if kind == spoken.KIND else entry.canonical(value, kind)

    return replace(entry, replace=replaced, canonical=canonical)


CLASSES: tuple[SurrogateClass, ...] = (
    SurrogateClass(
        name="SECRET",
        replace=_secret,
        canonical=lambda value, kind: (digits_of(value) or spoken.digits_in(value)) if kind == "code" else value,
        priority=1,
        minimal=True,
    ),
    SurrogateClass(name="URL_CRED", replace=_url, canonical=_same, priority=0, minimal=True),
    _also_spoken(SurrogateClass(name="CARD", replace=_card, canonical=_digits_canonical, priority=2, minimal=True)),
    SurrogateClass(name="IBAN", replace=_iban, canonical=_bare_canonical, priority=2, minimal=True),
    SurrogateClass(name="CRYPTO", replace=_wallet, canonical=_same, priority=2),
    SurrogateClass(name="EMAIL", replace=_email, canonical=_email_canonical, priority=3),
    SurrogateClass(name="MAC", replace=_mac, canonical=_bare_canonical, priority=3),
    SurrogateClass(name="IP", replace=_ip, canonical=_ip_canonical, priority=4),
    SurrogateClass(name="PRIVATE_IP", replace=_ip, canonical=_ip_canonical, priority=4),
    identifier("NATID", 4, minimal=True),
    identifier("MEDID", 4),
    _also_spoken(SurrogateClass(name="US_SSN", replace=_ssn, canonical=_digits_canonical, priority=5, minimal=True)),
    identifier("PASSPORT", 5),
    identifier("DRIVING_LICENCE", 5),
    identifier("BANK_ACCOUNT", 7, minimal=True),
    SurrogateClass(name="DOB", replace=lambda prf, value, kind: coarsen(value), canonical=_dob_canonical, priority=5),
    _also_spoken(SurrogateClass(name="PHONE", replace=_phone, canonical=_phone_canonical, priority=6)),
    SurrogateClass(name="ADDRESS", replace=_address, canonical=_address_canonical, priority=8),
    SurrogateClass(name="PERSON", replace=_person, canonical=_lower, priority=9),
)
"""The classes that several families of detectors find; a family may add its own (`classes`)."""
