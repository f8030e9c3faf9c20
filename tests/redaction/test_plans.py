"""The compiled numbering plans give the library's own answer."""

from __future__ import annotations

import phonenumbers
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freezeframe_redaction.surrogates import heads
from freezeframe_redaction.surrogates.plans import count_assigned_in, is_assigned, is_assigned_in, is_newly_assigned_in

_CODES = sorted(phonenumbers.COUNTRY_CODE_TO_REGION_CODE)


def _library(number: str, region: str | None) -> bool:
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(number, region))
    except phonenumbers.NumberParseException:
        return False


@pytest.mark.proof
@pytest.mark.long
@given(st.sampled_from(_CODES), st.text("0123456789", min_size=5, max_size=12))
@settings(max_examples=examples(1500), deadline=None)
def test_any_international_number_is_assigned_or_not_as_the_library_says(code: int, rest: str) -> None:
    """Every country code, any digits after it."""
    assert is_assigned(f"{code}{rest}") == _library(f"+{code}{rest}", None)


@pytest.mark.parametrize("region", sorted(phonenumbers.SUPPORTED_REGIONS))
def test_the_examples_of_each_region_are_assigned(region: str) -> None:
    """Each region's example numbers, in both spellings."""
    for kind in (phonenumbers.PhoneNumberType.FIXED_LINE, phonenumbers.PhoneNumberType.MOBILE):
        example = phonenumbers.example_number_for_type(region, kind)
        if example is None:
            continue
        international = phonenumbers.format_number(example, phonenumbers.PhoneNumberFormat.E164)
        inland = phonenumbers.format_number(example, phonenumbers.PhoneNumberFormat.NATIONAL)
        assert is_assigned(international.removeprefix("+"))
        assert is_assigned_in("".join(filter(str.isdigit, inland)), region)


@pytest.mark.long
@settings(deadline=None)
@given(st.from_regex(r"[0-9]{6,11}", fullmatch=True), st.sets(st.sampled_from(sorted(phonenumbers.SUPPORTED_REGIONS))))
def test_regions_asked_together_answer_as_they_do_one_by_one(digits: str, regions: set[str]) -> None:
    asked = tuple(sorted(regions))
    assert count_assigned_in(digits, asked) == sum(is_newly_assigned_in(digits, region) for region in asked)


@pytest.mark.parametrize(
    ("pattern", "head", "length", "share"),
    [
        ("2(?:0[1-3]|1\\d)\\d{4}", "20", 7, 0.3),
        ("2(?:0[1-3]|1\\d)\\d{4}", "215", 7, 1),
        ("2(?:0[1-3]|1\\d)\\d{4}", "215", 8, 0),
        ("[1-4]?5\\d{2,3}", "5", 4, 1),
        ("[1-4]?5\\d{2,3}", "55", 4, 1),
        ("[1-4]?5\\d{2,3}", "3", 4, 0.1),
        ("(?:12){2}3|1(\\d{2})45", "1", 5, 0.0101),
    ],
)
def test_the_first_digits_tell_which_share_of_numbers_a_pattern_has(pattern: str, head: str, length: int, share: float) -> None:
    assert heads.share(heads.paths_of(pattern), head, length) == pytest.approx(share)


def test_a_pattern_of_anything_else_is_refused() -> None:
    with pytest.raises(ValueError, match=r"position 3: expected digits, classes, groups or repeats"):
        heads.paths_of("1(?!2)3")
