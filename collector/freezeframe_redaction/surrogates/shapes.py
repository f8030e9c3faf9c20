"""The digits and letters of surrogates for numbers and identifiers, which have the shape of the original.

They carry no mark: nine digits have no room for one that no real number has by chance. The list in a span and a
fixture identifies them. Only cards have room: five zeros after the network digit, and a check before the last.

They belong to no one: an identifier fails the check digits of every country whose numbers have its shape.
"""

from __future__ import annotations

import re
from itertools import count

from freezeframe_redaction.prf import DIGITS, Prf, again, tag
from freezeframe_redaction.rules.checksums import luhn, luhn_digit
from freezeframe_redaction.rules.national_checks import may_be_issued

_CARD_HEAD = re.compile(r"(?:[3-68]0{5}|(?:3[0-9]|5[0-9]|6[0-9]|8[0-9])0{4})[0-9]+$")


_NOT_ALNUM = re.compile(r"[\W_]+")
_NOT_DIGIT = re.compile(r"[^0-9]+")


def bare(value: str) -> str:
    """Return letters and digits of the value in upper case."""
    return _NOT_ALNUM.sub("", value).upper()


def digits_of(value: str) -> str:
    return _NOT_DIGIT.sub("", value)


def lay_out(value: str, digits: str) -> str:
    """Return the value with its digits replaced in order; everything else stays."""
    supply = iter(digits)
    return "".join(next(supply, "0") if "0" <= char <= "9" else char for char in value)


def make_number(prf: Prf, class_: str, canonical: str, length: int, *, never: str | None = None) -> str:
    """Return `length` digits for the canonical value, the first a 9; never the value itself (`never`, or the canonical one)."""
    made = ("9" + prf.letters(class_, canonical, DIGITS, length - 1))[:length]
    return made if made != (never or canonical) else made[:-1] + str((int(made[-1]) + 1) % 10)


def make_card(prf: Prf, digits: str) -> str:
    """Return a card number of the same length and network that passes Luhn."""
    # Numbers of an unknown network get the head of one that was never assigned, so that the mark can be read again.
    # 520000 is a bank's; none of the others is in the list of issuers' numbers at github.com/binlist/data.
    mastercard = digits[0] == "2" or digits[:2] == "52"
    head = digits[:1] if digits[0] in "46" else "51" if mastercard else digits[:2] if digits[0] in "358" else "80"
    head = head.ljust(6, "0")
    body = head + prf.letters("CARD", digits, DIGITS, len(digits) - 9)
    body += f"{tag(body, 100):02d}"
    return body + luhn_digit(body)


def is_marked_card(digits: str) -> bool:
    return bool(_CARD_HEAD.match(digits)) and luhn(digits) and tag(digits[:-3], 100) == int(digits[-3:-1])


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
    canonical = again(text, attempt)
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
