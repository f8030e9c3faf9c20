"""Checks named in the tables of rules, beyond grammars: of a value (`where`), of a match (`take`), of a place (`find`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from freezeframe_redaction.model import CLAIM, EXAMINED, Candidate
from freezeframe_redaction.rules import checksums
from freezeframe_redaction.surrogates.invented import holds_invented
from freezeframe_redaction.surrogates.marks import IN_WALLETS, is_marked
from freezeframe_redaction.surrogates.plans import is_assigned
from freezeframe_redaction.surrogates.shapes import digits_of, is_marked_card

Take = Callable[[re.Match[str], int, int], tuple[Candidate, ...]]
"""``take(match, low, high)``: what the match of a row's grammar is, in the leaf ``text[low:high]``."""

_MIN_PIECE_LENGTH: Final = 10
_DATE: Final = re.compile("(?:19|20)[0-9]{2}-[01][0-9]-")
_FEAST: Final = re.compile(r"(?i)\bfor (?:my|his|her|our|their) birthday\W?\Z")
"""A date of a birthday that is not the date of birth: ``for my birthday on March 22, 2021``; one in 1985 may be."""
_LONG_AGO: Final = re.compile(r"(?<![0-9])(?:19[0-9]{2}|200[0-9])(?![0-9])")


def value(match: re.Match[str], class_: str, kind: str = "", group: int | str = 1) -> tuple[Candidate, ...]:
    """Return the group as a finding, or as a claim if it is a surrogate."""
    return (Candidate(*match.span(group), CLAIM if is_marked(class_, match[group]) else class_, kind),)


# -- of a value -------------------------------------------------------------------------------------------------------


def _is_bech32(text: str) -> bool:
    return checksums.bech32(text.lower())


def _is_random(token: str) -> bool:
    """Return whether the token is random: words joined by dashes are the name of a page.

    A random token mixes digits and letters.
    """
    longest = max(re.split(r"[-_.~]", token), key=len)
    mixed = sum(map(str.isdigit, longest)) > 1 and any(map(str.isalpha, longest))
    return len(longest) >= _MIN_PIECE_LENGTH and mixed


def _may_be_document(value: str) -> bool:
    digits = sum(map(str.isdigit, value))
    # A few digits are enough among capitals (``KWT6HMWM1``); a word of prose has none.
    return 6 <= len(value) <= 24 and digits > 0 and (digits > 3 or value.isupper()) and _DATE.match(value) is None


def _is_varied(wallet: str) -> bool:
    return len(set(wallet[2:].lower())) > 4


# -- of a match -------------------------------------------------------------------------------------------------------


def _base58(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """Wallets of Bitcoin, Litecoin, Dogecoin, Tron and Ripple."""
    payload = checksums.base58check_payload(match.group())
    if payload is None:
        return (Candidate(*match.span(), EXAMINED),)
    return (Candidate(*match.span(), CLAIM if payload[1:5] == IN_WALLETS else "CRYPTO", "base58"),)


def _birthday(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """A date of birth, or a year called one: ``born 1985``."""
    text = match.string
    if _FEAST.search(text, max(low, match.start() - 24), match.start()) and not _LONG_AGO.search(match[1]):
        return ()
    if match[1].isdigit() and len(match[1]) == len("1985"):
        return value(match, "DOB") if "born" in text[max(low, match.start() - 9) : match.start() + 1].lower() else ()
    return value(match, "DOB")


def _dumped(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """``4000056655665556|12/27|911``: card, expiry, code."""
    return (Candidate(*match.span(2), "SECRET", "code"),) if checksums.luhn(digits_of(match[1])) else ()


def _track(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """``%B4111111111111111^DOE/JANE^2904...?``: the output of a card reader. Source: ISO/IEC 7813, track 1."""
    card = Candidate(*match.span(1), CLAIM if is_marked_card(match[1]) else "CARD")
    return (card, Candidate(*match.span(2), CLAIM if holds_invented(match[2]) else "PERSON"))


# -- of a place -------------------------------------------------------------------------------------------------------

_IBAN: Final = re.compile(r"[A-Za-z]{2} ?[0-9]{2}(?:[ .-]?[A-Za-z0-9]){11,31}")
_HEAD_OF_IBAN: Final = re.compile(r"(?<![^\W_])([A-Za-z]{2}) ?[0-9]{2}")
_IN_IBANS: Final = str.maketrans("", "", " .-")


def _iban(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """Country, length and mod 97; spaces, dashes and lower case allowed."""
    for head in _HEAD_OF_IBAN.finditer(text, max(low, at - 18), at - 3):
        start = head.start()
        length = checksums.IBAN_LENGTHS.get(head[1].upper(), 0)
        match = _IBAN.match(text, start, min(high, start + 70))
        places = [place for place in range(start, match.end()) if text[place].isalnum()] if match else []
        if not 0 < length <= len(places):
            continue
        end = places[length - 1] + 1
        joined = end < high and text[end].isalnum() and "iban" not in text[max(low, start - 8) : start].lower()
        if not joined and checksums.iban(text[start:end].translate(_IN_IBANS).upper()):
            return (Candidate(start, end, "IBAN"),)
    return ()


_OF_VALUES: Final = (_is_bech32, _is_random, _is_varied, _may_be_document, is_assigned)
_OF_MATCHES: Final = (_base58, _birthday, _dumped, _track)
NAMED: Final[Mapping[str, Callable[..., Any]]] = {
    check.__name__.strip("_"): check for check in (*_OF_VALUES, *_OF_MATCHES, _iban)
}
"""By their names, without the underscore, as tables call them."""
