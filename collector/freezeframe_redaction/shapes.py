"""The digits and letters of surrogates for numbers and identifiers, which have the shape of what they replace.

They carry no mark: nine digits have no room for one that no real number has by chance. The list of surrogates that a span and a
fixture carry says what is one. Only cards have room: five zeros after the network digit, and a check before the last.

Nor are they anybody's: an identifier fails the check digits of every country whose numbers have its shape.
"""

from __future__ import annotations

import re
from itertools import count

from freezeframe_redaction.checksums import luhn, luhn_digit
from freezeframe_redaction.national_checks import may_be_issued
from freezeframe_redaction.prf import DIGITS, Prf, spell, tag

_CARD_HEAD = re.compile(r"(?:[3-68]0{5}|(?:3[0-9]|5[0-9]|6[0-9]|8[0-9])0{4})[0-9]+$")


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


def make_number(prf: Prf, class_: str, canonical: str, length: int, *, never: str | None = None) -> str:
    """Return `length` digits for the canonical value, the first a 9; not the value itself (`never`, or the canonical one)."""
    made = ("9" + prf.letters(class_, canonical, DIGITS, length - 1))[:length]
    return made if made != (never or canonical) else made[:-1] + str((int(made[-1]) + 1) % 10)


def make_card(prf: Prf, digits: str) -> str:
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


def make_nanp(prf: Prf, digits: str) -> str:
    """Return ten digits of the North American plan whose area code (N9X) is never assigned.

    Source: NANPA, "area codes": codes with 9 in the middle are reserved for expansion.
    """
    number = prf.number("PHONE", digits)
    return f"{2 + number % 7}9{number // 7 % 10}{2 + number // 70 % 8}" + spell(number // 560, DIGITS, 6)


_TWO_DIGIT_CODES = frozenset(
    "20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63"
    " 64 65 66 81 82 84 86 90 91 92 93 94 95 98".split()
)


def country_code_length(digits: str) -> int:
    """Return how many of the digits after ``+`` are the country code. Source: ITU-T E.164 list of country codes."""
    if digits[:1] in ("1", "7"):
        return 1
    return 2 if digits[:2] in _TWO_DIGIT_CODES else 3


def make_subscriber(prf: Prf, canonical: str, length: int, attempt: int) -> str:
    """Return `length` digits for a phone number outside North America."""
    if length < _LEAST_SUBSCRIBER:
        return make_number(prf, "PHONE", canonical, length)
    number = prf.number("PHONE", f"{canonical}/{attempt}" if attempt else canonical)
    # Never a zero in front: it would read as a trunk prefix, or make a JSON number invalid.
    # If a plan assigns nearly every number (France), a zero helps: no subscriber number begins with it.
    return ("0" if attempt >= 8 else str(1 + number % 9)) + spell(number // 9, DIGITS, length - 1)


_LEAST_SUBSCRIBER = 6


def make_identifier(prf: Prf, class_: str, value: str) -> str:
    """Return an identifier of the same shape that no country issues: digits for digits, letters for letters, a 9 first."""
    text = bare(value)
    # Of the numbers of each length, at least two in five fail every check.
    made = (_identifier(prf, class_, text, attempt) for attempt in count())
    supply = iter(next(identifier for identifier in made if not may_be_issued(identifier)))
    return "".join(
        (next(supply) if char.isupper() or not char.isalpha() else next(supply).lower()) if char.isalnum() else char
        for char in value
    )


def _identifier(prf: Prf, class_: str, text: str, attempt: int) -> str:
    canonical = f"{text}/{attempt}" if attempt else text
    if text.isdigit():
        return make_number(prf, class_, canonical, len(text), never=text)
    number = prf.number(class_, canonical)
    made: list[str] = []
    led = False
    for char in text:
        if char.isdigit():
            number, digit = divmod(number, 10)
            made.append(str(digit) if led else "9")
            led = True
        else:
            number, letter = divmod(number, 26)
            made.append(chr(65 + letter))
    return "".join(made)
