"""The public marks by which a surrogate of a number or an identifier is recognised, whatever the key.

A marked number begins with 9 and its last two digits are a check of the rest; one number in a thousand carries the mark by
chance. Card surrogates have five zeros after the network digit and a check before the Luhn digit.
"""

from __future__ import annotations

import re

from freezeframe_redaction.checksums import luhn, luhn_digit
from freezeframe_redaction.prf import DIGITS, Prf, spell, tag

_CARD_HEAD = re.compile(r"(?:[3-68]0{5}|(?:3[0-9]|5[0-9]|6[0-9]|8[0-9])0{4})[0-9]+$")
SSN_SHAPE = re.compile(r"9[0-9]{2}[0-4][0-9]{5}$")


_NOT_ALNUM = re.compile(r"[\W_]+")
_NOT_DIGIT = re.compile(r"[^0-9]+")


def bare(value: str) -> str:
    """Return letters and digits of the value in upper case."""
    return _NOT_ALNUM.sub("", value).upper()


def digits_of(value: str) -> str:
    """Return the digits of the value."""
    return _NOT_DIGIT.sub("", value)


def lay_out(value: str, digits: str) -> str:
    """Return the value with its digits replaced in order; everything else stays."""
    supply = iter(digits)
    return "".join(next(supply, "0") if "0" <= char <= "9" else char for char in value)


def mark_number(prf: Prf, class_: str, canonical: str, length: int) -> str:
    """Return `length` digits for the canonical value: 9, the keyed body, two check digits."""
    if length < 5:
        return ("9" * length)[:1] + prf.letters(class_, canonical, DIGITS, length - 1)
    body = "9" + prf.letters(class_, canonical, DIGITS, length - 3)
    return body + f"{tag(body, 100):02d}"


def is_marked_number(digits: str, groups: tuple[int, ...] = ()) -> bool:
    """Whether digits are one of these surrogates: a marked number, a marked card, a phone or an SSN of the reserved ranges."""
    length = len(digits)
    if digits[0] == "9" and length >= 7:
        if tag(digits[:-2], 100) == int(digits[-2:]):
            return True
        if groups == (3, 2, 4) and SSN_SHAPE.match(digits):
            return True
    if 12 <= length <= 19 and is_marked_card(digits):
        return True
    return is_marked_nanp(digits)


def mark_card(prf: Prf, digits: str) -> str:
    """Return a card number of the same length and network that passes Luhn."""
    # Numbers of an unknown network get the head of one that was never assigned, so that the mark can be read again.
    head = digits[:1] if digits[0] in "46" else "51" if digits[0] == "2" else digits[:2] if digits[0] in "358" else "80"
    head = head.ljust(6, "0")
    body = head + prf.letters("CARD", digits, DIGITS, len(digits) - 9)
    body += f"{tag(body, 100):02d}"
    return body + luhn_digit(body)


def is_marked_card(digits: str) -> bool:
    """Whether the digits are a card surrogate."""
    return bool(_CARD_HEAD.match(digits)) and luhn(digits) and tag(digits[:-3], 100) == int(digits[-3:-1])


def mark_nanp(prf: Prf, digits: str) -> str:
    """Return ten digits of the North American plan whose area code (N9X) is never assigned.

    Source: NANPA, "area codes": codes with 9 in the middle are reserved for expansion.
    """
    number = prf.number("PHONE", digits)
    body = f"{2 + number % 7}9{number // 7 % 10}{2 + number // 70 % 8}{number // 560 % 100:02d}{number // 56000 % 100:02d}"
    return body + f"{tag(body, 100):02d}"


def is_marked_nanp(digits: str) -> bool:
    """Whether ten digits, or eleven that begin with 1, are such a surrogate; the fictional 555-01xx counts as one."""
    ten = digits[1:] if len(digits) == 11 and digits[0] == "1" else digits
    if len(ten) != 10:
        return False
    if ten[3:8] == "55501":
        return True
    return ten[1] == "9" and "2" <= ten[0] <= "8" and tag(ten[:-2], 100) == int(ten[-2:])


_PHONE_CHECK = 1000
_TWO_DIGIT_CODES = frozenset(
    "20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63"
    " 64 65 66 81 82 84 86 90 91 92 93 94 95 98".split()
)


def country_code_length(digits: str) -> int:
    """Return how many of the digits after ``+`` are the country code. Source: ITU-T E.164 list of country codes."""
    if digits[:1] in ("1", "7"):
        return 1
    return 2 if digits[:2] in _TWO_DIGIT_CODES else 3


def mark_subscriber(prf: Prf, canonical: str, length: int, attempt: int) -> str:
    """Return `length` digits, the last three a check, for a phone number outside North America."""
    if length < 6:
        return mark_number(prf, "PHONE", canonical, length)
    number = prf.number("PHONE", f"{canonical}/{attempt}" if attempt else canonical)
    # Never a zero in front: it would read as a trunk prefix, or make a JSON number invalid.
    # If a plan assigns nearly every number (France), a zero helps: no subscriber number begins with it.
    body = ("0" if attempt >= 8 else str(1 + number % 9)) + spell(number // 9, DIGITS, length - 4)
    return body + f"{tag(body, _PHONE_CHECK):03d}"


def is_marked_subscriber(digits: str, *, international: bool) -> bool:
    """Whether the digits after the country code (or the trunk prefix) are a phone surrogate."""
    if international:
        body = digits[country_code_length(digits) :]
    elif digits[:2] == "00":
        body = digits[2 + country_code_length(digits[2:]) :]
    else:
        body = digits[1:] if digits[0] == "0" else digits
    if 0 < len(body) < 6:
        return body[0] == "9" and international
    return len(body) >= 6 and tag(body[:-3], _PHONE_CHECK) == int(body[-3:])


def is_marked_identifier(value: str) -> bool:
    """Whether letters and digits carry the mark that `mark_identifier` leaves."""
    text = bare(value)
    if text.isdigit():
        return len(text) >= 5 and text[0] == "9" and tag(text[:-2], 100) == int(text[-2:])
    first = next((char for char in text[:-2] if char.isdigit()), "9")
    return first == "9" and len(text) >= 5 and _check_letters(text) == text[-2:]


def _check_letters(text: str) -> str:
    number = tag(text[:-2], 676_000)
    out = ""
    for char in text[-2:]:
        if char.isdigit():
            number, value = divmod(number, 10)
            out += DIGITS[value]
        else:
            number, value = divmod(number, 26)
            out += chr(65 + value)
    return out


def mark_identifier(prf: Prf, class_: str, value: str) -> str:
    """Return an identifier of the same shape: digits for digits, letters for letters, first digit 9, two check characters."""
    text = bare(value)
    if text.isdigit():
        return lay_out(value, mark_number(prf, class_, text, len(text)))
    number = prf.number(class_, text)
    out: list[str] = []
    led = False
    for char in text:
        if char.isdigit():
            number, digit = divmod(number, 10)
            out.append(str(digit) if led else "9")
            led = True
        else:
            number, letter = divmod(number, 26)
            out.append(chr(65 + letter))
    made = "".join(out[:-2]) + text[-2:]
    made = made[:-2] + _check_letters(made)
    supply = iter(made)
    return "".join(
        (next(supply) if char.isupper() or not char.isalpha() else next(supply).lower()) if char.isalnum() else char
        for char in value
    )
