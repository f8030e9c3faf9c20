"""Numbering plans: the numbers that countries assign, as one compiled pattern for each region.

The data is phonenumbers'; its own check parses and formats each number again (30 us, or 1.5 ms for "any of fifty regions"),
these patterns take one or two. `tests/redaction/test_plans.py` checks that both give the same answer.

Source: libphonenumber metadata, as packaged in phonenumberslite.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import phonenumbers
from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, PhoneMetadata, PhoneNumberFormat, PhoneNumberType

from freezeframe_redaction.surrogates import heads

_TYPES = "fixed_line mobile toll_free premium_rate shared_cost personal_number voip pager uan voicemail".split()
REGIONS = tuple(
    "US GB DE FR IN BR ES IT NL PL SE AU JP MX CH SG ZA KR IL AE NG TR UA AT BE PT DK NO FI IE CZ GR RO HU CN TW HK ID PH TH VN"
    " AR CL CO PE EG SA PK RU NZ KE".split()
)
"""The larger plans: if a number names no country, these are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberingPlan:
    """One region's plan."""

    code: str
    """Country calling code, ``"49"``."""
    general: re.Pattern[str]
    """Pattern of the form of the region's numbers."""
    assigned: str
    """The pattern of the numbers assigned to some kind of line."""
    prefix: re.Pattern[str] | None
    """Prefix dialled inside the country (``0``)."""
    rewrite: str | None
    """Replacement of the prefix if it is not simply dropped (Argentina, Brazil)."""
    by_length: tuple[tuple[int, str], ...]
    """Length of a number -> pattern of those that are assigned to some kind of line."""

    def national(self, digits: str) -> str:
        """Return the digits without the inland prefix, unless only the whole has the form of a number."""
        match = self.prefix.match(digits) if self.prefix is not None else None
        if match is None or not match.end():
            return digits
        if self.rewrite is None or match.lastindex is None or match.group(match.re.groups) is None:
            rest = digits[match.end() :]
        else:
            rest = match.expand(self.rewrite) + digits[match.end() :]
        return rest if self.general.fullmatch(rest) or not self.general.fullmatch(digits) else digits


def _of_lengths(kind: Any, general: Any) -> str:
    """Return a lookahead for the possible lengths of a kind of line, or the plan's general ones if it names none."""
    lengths = "|".join(f"[0-9]{{{length}}}" for length in kind.possible_length or general.possible_length)
    return rf"(?=(?:{lengths})\Z)"


@cache
def plan_of(region: str, code: int) -> NumberingPlan | None:
    """Return the plan of a region, or of a code without a country (region ``"001"``)."""
    metadata: Any = (
        PhoneMetadata.metadata_for_nongeo_region(code) if region == "001" else PhoneMetadata.metadata_for_region(region)
    )
    if metadata is None:
        return None
    kinds: list[Any] = [
        kind for name in _TYPES if (kind := getattr(metadata, name)) is not None and kind.national_number_pattern
    ]
    patterns = [f"{_of_lengths(kind, metadata.general_desc)}(?:{kind.national_number_pattern})" for kind in kinds]
    general = metadata.general_desc.national_number_pattern
    prefix = metadata.national_prefix_for_parsing
    return NumberingPlan(
        code=str(code),
        general=re.compile(general),
        assigned="|".join(f"(?:{pattern})" for pattern in dict.fromkeys(patterns)) or r"(?!)",
        prefix=re.compile(prefix) if prefix else None,
        rewrite=metadata.national_prefix_transform_rule,
        by_length=tuple(
            (length, kind.national_number_pattern)
            for kind in kinds
            for length in kind.possible_length or metadata.general_desc.possible_length
        ),
    )


@lru_cache(65536)
def is_assigned(digits: str) -> bool:
    """Return whether digits that begin with a country code (no ``+``) are an assigned number."""
    for length in (1, 2, 3):
        code = digits[:length]
        regions = COUNTRY_CODE_TO_REGION_CODE.get(int(code)) if len(code) == length else None
        if regions:
            plan = plan_of(regions[0], int(code))
            return plan is not None and _is_of(code, plan.national(digits[length:]))
    return False


@lru_cache(65536)
def is_assigned_in(digits: str, region: str) -> bool:
    """Return whether digits, as dialled inside the region, are an assigned number."""
    return is_newly_assigned_in(digits, region)


def is_newly_assigned_in(digits: str, region: str) -> bool:
    """Like `is_assigned_in`, for digits that are checked only once: attempts to make a number."""
    plan = _plan_in(region)
    if plan is None:
        return False
    rest = digits.removeprefix(plan.code)
    if rest is not digits and not plan.general.fullmatch(digits) and plan.general.fullmatch(plan.national(rest)):
        digits = rest
    return _is_of(plan.code, plan.national(digits))


def count_assigned_in(digits: str, regions: tuple[str, ...]) -> int:
    """Return the number of regions that assign the digits; the same as checking one after the other."""
    return sum(1 for _ in _assigned_in(digits, regions))


def _assigned_in(digits: str, regions: tuple[str, ...]) -> Iterator[str]:
    """Yield those of the regions in which the digits are assigned."""
    length = len(digits)
    for region, share in _by_head(regions, length, digits[:_FIRST]):
        share = share if share == 1 else _share_in(region, length, digits[:_HEAD])
        if share == 1 or (share and is_newly_assigned_in(digits, region)):
            yield region


_HEAD = 5
"""Digits that nearly always decide whether a number is assigned."""
_FIRST = 3
"""Digits that often do."""


def share_of(regions: tuple[str, ...], length: int, head: str) -> float:
    """Return 1 if one of the regions assigns all numbers with this beginning, 0 if none assigns any; else a value between."""
    return max((_share_in(region, length, head) for region in regions), default=0)


@lru_cache(1 << 15)
def _by_head(regions: tuple[str, ...], length: int, head: str) -> tuple[tuple[str, float], ...]:
    """Return the regions that may assign a number with this beginning, each with its share."""
    shares = ((region, _share_in(region, length, head)) for region in regions)
    return tuple((region, share) for region, share in shares if share)


@lru_cache(1 << 16)
def _share_in(region: str, length: int, head: str) -> float:
    """Return the share of numbers with this beginning that are assigned in the region; a half if that depends on a prefix."""
    plan = _plan_in(region)
    if plan is None:
        return 0
    if (
        head.startswith(plan.code)
        or plan.code.startswith(head)
        or (plan.prefix and _may_begin(plan.prefix.pattern, head[:_FIRST]))
    ):
        return 0.5
    return heads.share(_paths_under(plan.code, length), head, length)


@cache
def _paths_under(code: str, length: int) -> heads.Paths:
    """Return all numbers of a length that are assigned in regions with the code."""
    plans = (plan_of(region, int(code)) for region in COUNTRY_CODE_TO_REGION_CODE[int(code)])
    patterns = {pattern for plan in plans if plan for size, pattern in plan.by_length if size == length}
    return frozenset[heads.Path]().union(*map(heads.paths_of, patterns))


@cache
def _may_begin(prefix: str, head: str) -> bool:
    """Return whether digits with this beginning may have the prefix in front; in doubt, True."""
    paths = _prefixes(prefix)
    return paths is None or heads.may_begin(paths, head)


@cache
def _prefixes(prefix: str) -> heads.Paths | None:
    try:
        return heads.paths_of(prefix)
    except ValueError:
        return None


@cache
def _plan_in(region: str) -> NumberingPlan | None:
    return plan_of(region, phonenumbers.country_code_for_region(region))


@lru_cache(1024)
def _is_of(code: str, national: str) -> bool:
    """Return whether a region with the code assigns the number; those with the code 1 are checked one after the other."""
    return _assigned_under(code).fullmatch(national) is not None


@cache
def _assigned_under(code: str) -> re.Pattern[str]:
    plans = (plan_of(region, int(code)) for region in COUNTRY_CODE_TO_REGION_CODE[int(code)])
    return re.compile("|".join(f"(?:{plan.assigned})" for plan in plans if plan is not None) or "(?!)")


@lru_cache(65536)
def is_assigned_somewhere(digits: str) -> bool:
    """Return whether any of the larger plans assigns the digits, as dialled inside its country."""
    return any(is_assigned_in(digits, region) for region in REGIONS)


@cache
def _written_bare(length: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the regions that write numbers of a length without the zero that is dialled, or have none: larger ones, others."""
    regions = [region for region in sorted(phonenumbers.SUPPORTED_REGIONS) if _writes(region, length)]
    return tuple(r for r in regions if r in REGIONS), tuple(r for r in regions if r not in REGIONS)


def _writes(region: str, length: int) -> bool:
    metadata: Any = PhoneMetadata.metadata_for_region(region)
    lengths: tuple[int, ...] = metadata.general_desc.possible_length
    prefix = metadata.national_prefix or ""
    dialled = prefix not in ("", "0") and length - len(prefix) in lengths  # 8 in Russia
    # With a rule, a local number stands for the whole one (Antigua).
    if length not in lengths and not dialled and not metadata.national_prefix_transform_rule:
        return False
    examples = (
        phonenumbers.example_number_for_type(region, kind) for kind in (PhoneNumberType.FIXED_LINE, PhoneNumberType.MOBILE)
    )
    written = (phonenumbers.format_number(one, PhoneNumberFormat.NATIONAL) for one in examples if one is not None)
    return region in _ALSO_BARE or any(not text.startswith(("0", "(0")) for text in written)


_ALSO_BARE = frozenset({"IN", "TR"})
"""The zero in front is often left out, though the plan's own format has it."""
MAX_LOCAL_DIGITS = 8
"""Digits of the longest number that may be one without its area code."""


def assigning(digits: str) -> tuple[str, ...]:
    """Return the larger regions in which digits without a dialled zero may be someone's number as they are."""
    return tuple(_assigned_in(digits, _written_bare(len(digits))[0]))


def assigning_besides(digits: str) -> tuple[str, ...]:
    """Return the others."""
    return tuple(_assigned_in(digits, _written_bare(len(digits))[1]))


_TAKES_ZEROS = ("JP", "KR", "RW", "TJ", "UY")
"""The only regions in which a number that begins with two zeros may be assigned (`test_nobodys_values.py`)."""


def is_assigned_after_zeros(digits: str) -> bool:
    """Return whether digits that begin with two zeros are assigned: inland anywhere but in Tajikistan, or abroad."""
    abroad = any(is_assigned(digits[length:]) for length in range(2, 6))  # 00, 001, 0011, 00700: as countries dial abroad
    return abroad or any(is_newly_assigned_in(digits, region) for region in _TAKES_ZEROS if region != "TJ")


def national_kind(digits: str) -> str:
    """Return the kind of a number without ``+``: of ten digits, or of eleven that begin with 1, it may be North American."""
    ten = digits[1:] if len(digits) == 11 and digits[0] == "1" else digits
    return "nanp" if len(ten) == 10 and _is_nanp(ten) else "national"


def _is_nanp(digits: str) -> bool:
    return digits[0] in "23456789" and digits[3] in "23456789" and is_assigned_in(digits, "US")
