"""The digits of surrogates for phone numbers: unassigned numbers, in any notation.

A number of North America gets an area code that is never assigned; one with another country code, digits that the country's
plan does not assign. Without the country code it may be a number of many countries, and their plans together assign nearly all:
after a dialled zero comes a second one, which no number has; else it is unassigned in all larger countries in
which the value is assigned. It begins with a zero only if the value does, since JSON numbers never do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

from freezeframe_redaction.prf import DIGITS, Prf, again, spell
from freezeframe_redaction.surrogates.plans import (
    MAX_LOCAL_DIGITS,
    assigning,
    assigning_besides,
    count_assigned_in,
    is_assigned,
    is_assigned_after_zeros,
    share_of,
)

_ATTEMPTS: Final = 64
"""Attempts to find an unassigned number; usually the first one succeeds."""
_MAX_ATTEMPTS_COMPARED: Final = 12
"""Attempts unassigned in larger regions, of which the one assigned in the fewest others is taken."""
_FREE_ATTEMPTS: Final = 24
"""The first of these, in which a North American number may have any area code of the form N9X."""
_USED: Final = 560 * 10**6
"""The digits of a number from which the new ones are made."""
_FREE_AREAS: Final = "590", "490"
"""Two area codes that are never assigned.

The first is in no other large plan for ten digits written without a zero, but in China's with a 1 in
front; the second only in India's.
"""


def make_phone(prf: Prf, digits: str, kind: str) -> str:
    """Return as many digits for a phone number.

    Args:
        prf: under the key.
        digits: the whole number, without an extension.
        kind: ``international`` (with the country code), ``international00`` (after ``00``), ``nanp`` or ``national``.
    """
    if (len(digits) == 10 and kind == "nanp") or (len(digits) == 11 and digits[0] == "1" and kind in ("nanp", "international")):
        # However it is written, it has the same ten digits: programs leave out the 1 in front, and put it back.
        return digits[:-10] + _north_american(prf, digits[-10:])
    if kind.startswith("international"):
        abroad = 2 if kind == "international00" else 0
        length = abroad + _country_code_length(digits[abroad:])
        head, body = digits[:length], digits[length:]
        made = (head + _inland(prf, body, attempt, _head(attempt)) for attempt in range(_ATTEMPTS))
        return _nobodys(made, lambda number: is_assigned(number[abroad:]))
    if digits[0] == "0":
        return _nobodys((_inland(prf, digits, attempt, "00") for attempt in range(_ATTEMPTS)), is_assigned_after_zeros)
    made = (_inland(prf, digits, attempt, _bare_head(digits, attempt)) for attempt in range(_ATTEMPTS))
    return _nobodys(made, lambda number: False, assigning(digits), assigning_besides(digits))


def _nobodys(
    attempts: Iterable[str], is_held: Callable[[str], bool], large: tuple[str, ...] = (), small: tuple[str, ...] = ()
) -> str:
    """Return the first attempt that is unused and not assigned in any of the regions.

    Otherwise one that no large region assigns, and the fewest small ones.
    """
    last, found = "", dict[str, int]()
    for last in attempts:
        if is_held(last) or count_assigned_in(last, large):
            continue
        found[last] = count_assigned_in(last, small)
        if not found[last] or len(found) == _MAX_ATTEMPTS_COMPARED:
            break
    return min(found, key=found.__getitem__, default=last)


def _north_american(prf: Prf, digits: str) -> str:
    """Return ten digits whose area code (N9X) is never assigned, and which are in no large plan that has the original.

    Source: NANPA, "area codes": codes with 9 in the middle are reserved for expansion.
    """
    regions = assigning(digits)
    with_one = tuple(region for region in assigning("1" + digits) if region != "US")
    made = ""
    for attempt in range(_FREE_ATTEMPTS if _are_all_assigned(regions, with_one) else 0, _ATTEMPTS):
        area = _FREE_AREAS[attempt % 2]
        is_last = attempt == _ATTEMPTS - 1
        if attempt >= _FREE_ATTEMPTS and not is_last and _is_assigned(area, regions, with_one):
            continue
        number = prf.number("PHONE", again(digits, attempt)) % _USED
        if attempt < _FREE_ATTEMPTS:
            area = f"{2 + number % 7}9{number // 7 % 10}"
            if _is_assigned(area, regions, with_one):
                continue
        made = f"{area}{2 + number // 70 % 8}{spell(number // 560, DIGITS, 6)}"
        if not (count_assigned_in(made, regions) or count_assigned_in("1" + made, with_one)):
            break
    return made


@lru_cache(1 << 14)
def _are_all_assigned(regions: tuple[str, ...], with_one: tuple[str, ...]) -> bool:
    """Return whether all numbers with an area code N9X are assigned in one of the regions, or with a 1 in front."""
    return all(_is_assigned(f"{first}9{last}", regions, with_one) for first in range(2, 9) for last in range(10))


@lru_cache(1 << 14)
def _is_assigned(area: str, regions: tuple[str, ...], with_one: tuple[str, ...]) -> bool:
    """Return whether all numbers with the area code are assigned, in one of the regions, or with a 1 in front."""
    return share_of(regions, 10, area) == 1 or share_of(with_one, 11, "1" + area) == 1


def _inland(prf: Prf, canonical: str, attempt: int, head: str | None) -> str:
    """Return as many digits, which begin with `head`, else with a digit other than zero."""
    number = prf.number("PHONE", again(canonical, attempt))
    lead = str(1 + number % 9) if head is None else head
    return (lead + spell(number // 9, DIGITS, len(canonical)))[: len(canonical)]


def _head(attempt: int) -> str | None:
    """Return the first digits after a country code: zeros if the plan assigns nearly all others (France)."""
    return None if attempt < 8 or attempt % 2 else "0" if attempt < 16 else "00"


def _bare_head(digits: str, attempt: int) -> str | None:
    """Return the prefix of a number written without country code and leading zero.

    No local number begins with a 1, and few others do.
    """
    if len(digits) > MAX_LOCAL_DIGITS and attempt < 4:
        return None
    return _FREE_AREAS[0] if len(digits) == 10 and attempt >= _FREE_ATTEMPTS else "1"


_TWO_DIGIT_CODES = frozenset(
    "20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63"
    " 64 65 66 81 82 84 86 90 91 92 93 94 95 98".split()
)


def _country_code_length(digits: str) -> int:
    """Return how many of the digits after ``+`` are the country code. Source: ITU-T E.164 list of country codes."""
    if digits[:1] in ("1", "7"):
        return 1
    return 2 if digits[:2] in _TWO_DIGIT_CODES else 3
