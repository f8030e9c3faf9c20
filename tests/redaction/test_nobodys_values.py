"""A surrogate is nobody's: it fails the check digits, or lies outside the assigned ranges, of the country of its value."""

from __future__ import annotations

import os
import random
import string

import pytest

from freezeframe_redaction.classes import CLASSES
from freezeframe_redaction.detectors import national
from freezeframe_redaction.national_checks import LETTERED, NUMBERS, always, may_be_issued
from freezeframe_redaction.prf import Prf
from freezeframe_redaction.shapes import bare

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
