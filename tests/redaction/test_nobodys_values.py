"""A surrogate is nobody's: it fails the check digits, or lies outside the assigned ranges, of the country of its value."""

from __future__ import annotations

import os
import random
import string
from collections.abc import Iterator

import phonenumbers
import pytest
from phonenumbers import PhoneNumber, PhoneNumberFormat, PhoneNumberType
from real_values import BANKS, draw_iban

from freezeframe_redaction.detectors import national
from freezeframe_redaction.policies.classes import CLASSES
from freezeframe_redaction.prf import Prf
from freezeframe_redaction.rules.checksums import iban, luhn
from freezeframe_redaction.rules.national_checks import LETTERED, NUMBERS, always, may_be_issued
from freezeframe_redaction.surrogates.plans import national_kind
from freezeframe_redaction.surrogates.shapes import bare, digits_of

_PRF = Prf(b"k" * 32)
_SOAK = int(os.environ.get("FREEZEFRAME_SOAK_VALUES", "100000"))
_CHECKED = sorted(country for country, (_, check) in NUMBERS.items() if check is not always)
_EXAMPLES = {
    country: detector.examples[0].value
    for detector in national.DETECTORS
    if (country := detector.name.removeprefix("national id: ").removesuffix(", with letters")) in LETTERED
}


def _like(value: str, rnd: random.Random) -> str:
    """Return other digits and letters in the layout of a value."""
    drawn = (
        rnd.choice(string.digits) if char.isdigit() else rnd.choice(string.ascii_uppercase) if char.isalpha() else char
        for char in value
    )
    return "".join(drawn)


def _issued(country: str, count: int) -> list[str]:
    """Return the surrogates that pass the check of the country."""
    rnd = random.Random(country)
    if country in _EXAMPLES:
        values = [_like(_EXAMPLES[country], rnd) for _ in range(count)]
    else:
        lengths = NUMBERS[country][0]
        values = ["".join(rnd.choices(string.digits, k=rnd.choice(lengths))) for _ in range(count)]
    made = (CLASSES["NATID"].replace(_PRF, value, country) for value in values)
    return [surrogate for surrogate in made if may_be_issued(bare(surrogate))]


@pytest.mark.parametrize("country", sorted({*_CHECKED, *LETTERED}))
def test_no_surrogate_of_a_national_id_passes_the_check_of_any_country(country: str) -> None:
    assert _issued(country, 40) == []


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("country", sorted({*_CHECKED, *LETTERED}))
def test_none_of_many_surrogates_of_a_national_id_passes_a_check(country: str) -> None:
    """Some 20 s a country."""
    assert _issued(country, _SOAK) == []


def test_every_number_with_letters_has_the_shape_by_which_its_check_is_chosen() -> None:
    assert sorted(_EXAMPLES) == sorted(LETTERED)
    assert [country for country, value in _EXAMPLES.items() if not may_be_issued(bare(value))] == []


@pytest.mark.parametrize("value", ["123 456 782", "943-476-5870", "44051401359", "S0618848F", "ACUPA7085R"])
def test_an_id_keeps_its_layout_and_is_the_same_each_time(value: str) -> None:
    made = CLASSES["NATID"].replace(_PRF, value, "")
    assert made == CLASSES["NATID"].replace(_PRF, value, "another country")
    assert [char.isdigit() for char in made] == [char.isdigit() for char in value]
    assert [char for char in made if not char.isalnum()] == [char for char in value if not char.isalnum()]


_REGIONS = sorted(phonenumbers.SUPPORTED_REGIONS)
_EXCEPTED = {"BH", "BT", "MN", "SO", "TJ"}
"""Countries whose numbers are written without a zero and whose plans leave too little room: see docs/redaction.md."""
_MIN_DIGITS = 7
"""Of what is taken for a phone number without the country code."""


def _numbers(region: str, rnd: random.Random, count: int) -> Iterator[PhoneNumber]:
    """Yield assigned numbers of a region: its examples, with the last digits drawn."""
    examples = [
        example
        for kind in (PhoneNumberType.FIXED_LINE, PhoneNumberType.MOBILE)
        if (example := phonenumbers.example_number_for_type(region, kind)) is not None
    ]
    found = 0
    while found < count:
        example = rnd.choice(examples)
        digits = phonenumbers.national_significant_number(example)
        kept = rnd.choice((1, 2, 3, 3, 4, len(digits) - 2))
        drawn = digits[:kept] + "".join(rnd.choices(string.digits, k=len(digits) - kept))
        number = PhoneNumber(
            country_code=example.country_code, national_number=int(drawn), italian_leading_zero=drawn[0] == "0" or None
        )
        if phonenumbers.is_valid_number_for_region(number, region):
            found += 1
            yield number


def _is_valid(text: str, region: str) -> bool:
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(text, region))
    except phonenumbers.NumberParseException:
        return False


def _assigned(region: str, count: int) -> list[tuple[str, str]]:
    """Return numbers of a region, each with its surrogate, of which the surrogate is assigned as the number was written."""
    rnd = random.Random(region)
    out: list[tuple[str, str]] = []
    for number in _numbers(region, rnd, count):
        for form in (PhoneNumberFormat.NATIONAL, PhoneNumberFormat.E164, PhoneNumberFormat.INTERNATIONAL):
            value = phonenumbers.format_number(number, form)
            inland = form == PhoneNumberFormat.NATIONAL
            if inland and len(digits_of(value)) < _MIN_DIGITS:
                continue
            kind = national_kind(digits_of(value)) if inland else "international"
            made = CLASSES["PHONE"].replace(_PRF, value, kind)
            assert [char.isdigit() for char in made] == [char.isdigit() for char in value]
            if any(_is_valid(text, region) for text in (made, digits_of(made) if inland else f"+{digits_of(made)}")):
                out.append((value, made))
    return out


@pytest.mark.parametrize("region", ["AU", "BR", "CN", "DE", "ES", "FR", "GB", "IN", "IT", "JP", "KR", "MX", "NG", "TR", "US"])
def test_no_surrogate_of_a_phone_number_is_assigned(region: str) -> None:
    assert _assigned(region, 5) == []


@pytest.mark.parametrize("number", ["131 6721 5999", "138 2345 6789", "159 4267 1234", "186 9382 4410", "173 3461 2090"])
def test_no_surrogate_of_a_chinese_mobile_that_could_be_north_american_is_assigned(number: str) -> None:
    """A million numbers of all countries were tried; these, with a 1 in front, were what was left."""
    digits = digits_of(number)
    values = [f"{digits[:-2]}{last:02}" for last in range(100)]
    made = [digits_of(CLASSES["PHONE"].replace(_PRF, value, national_kind(value))) for value in values]
    assert [one for one in made if _is_valid(one, "CN")] == []


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.parametrize("part", range(5))
def test_no_surrogate_of_a_phone_number_of_any_country_is_assigned(part: int) -> None:
    """In the plan of the number's own country, as the library reads it, with and without separators."""
    assert [found for region in _REGIONS[part::5] if region not in _EXCEPTED for found in _assigned(region, 10)] == []


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("region", _REGIONS)
def test_none_of_many_surrogates_of_phone_numbers_is_assigned(region: str) -> None:
    """Some 40 s a country."""
    assert region in _EXCEPTED or _assigned(region, _SOAK // 10) == []


@pytest.mark.parametrize("value", ["780 6326", "0612345678", "98765 43210", "(415) 267-1234", "+49 30 901820", "20 30 40 50"])
def test_different_phone_numbers_have_different_surrogates(value: str) -> None:
    digits = digits_of(value)
    kind = "international" if value[0] == "+" else national_kind(digits)
    made = {CLASSES["PHONE"].replace(_PRF, f"{value[:-2]}{last:02}", kind) for last in range(100)}
    assert len(made) == 100


_NO_BANKS = (*BANKS, ("BA", "199"), ("BE", "001"), ("EE", "22"), ("RS", "160"), ("TR", "00004"))


@pytest.mark.parametrize(("country", "bank"), _NO_BANKS)
def test_no_surrogate_of_an_account_is_at_a_bank(country: str, bank: str) -> None:
    """Its bank code is none of those that the registers list: not of zeros where a bank has them."""
    zeros = country not in ("BA", "BE", "BR", "EE", "RS", "TR")
    for seed in range(20):
        made = CLASSES["IBAN"].replace(_PRF, draw_iban(random.Random(seed), country, bank), "")
        assert iban(made)
        assert made[:2] == country
        assert made[4 : 4 + min(len(bank), 4)] in ({"0000", "000", "00", "XXXX"} if zeros else {"9999", "999", "66"})


@pytest.mark.parametrize("first", ["2221", "30", "34", "3528", "37", "4", "50", "51", "52", "55", "60", "62", "65", "81", "9"])
def test_no_surrogate_of_a_card_has_the_number_of_an_issuer(first: str) -> None:
    """Its issuer's number is zeros after that of the network; the list of issuers has 520000 alone of that form."""
    made = CLASSES["CARD"].replace(_PRF, first.ljust(16, "7"), "16")
    assert luhn(made)
    assert set(made[2:6]) == {"0"}
    assert made[:6] != "520000"
