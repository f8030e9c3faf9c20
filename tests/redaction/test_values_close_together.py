"""A value is found whatever is right before it: another value of its kind, a similar row or line."""

from __future__ import annotations

from typing import Any

import pytest
from redacted_again import again

from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_redaction.detectors import ALL

REDACTOR = Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))
_EXAMPLES = [(detector, example) for detector in ALL for example in detector.examples]
_ALONE = frozenset(["secret: phrase of words", "name: key of a person's name", "secret: backup codes", "segment of HL7"])
"""Their values go on to the end of the line, so what follows there belongs to them."""


def _redacted(text: str) -> str:
    return str(REDACTOR.redact(text).value)


@pytest.mark.parametrize(("detector", "example"), _EXAMPLES, ids=lambda value: getattr(value, "name", None) or value.value[:24])
def test_an_example_is_found_behind_itself(detector: Any, example: Any) -> None:
    """On the same line, on the next one, in the next column."""
    for between in ("\n",) if detector.name in _ALONE else (" ", "\n", ", ", "\t", "; "):
        text = example.text + between + ("\n" if detector.name == "line of a vCard" else "") + example.text
        assert example.value not in _redacted(text), between


@pytest.mark.parametrize("between", [" ", "\t", "\n", ", "])
def test_numbers_side_by_side_are_not_taken_for_one(between: str) -> None:
    for one, other in (
        ("NIF 501964843", "NIF 501442600"),
        ("SSN 123-45-6789", "SSN 234-56-7891"),
        ("PESEL 44051401359", "02070803628"),
    ):
        made = _redacted(f"{one}{between}{other}")
        assert one.split()[-1] not in made
        assert other.split()[-1] not in made


@pytest.mark.parametrize(
    "text",
    [
        "93.62.64.137 6011 0671 2977 7689",
        "4447 1673 6051 2438 91.54.132.246 4491 1564 9165 0402",
        "v24.41.207.16 6011 4580 7302 1572",
        "988 4303 8943 8539 3097",
        "98.9 3624 444173 5240",
        "92.113.140.177 570-75-2680",
        "97.28.102.102 (429) 475-7842",
    ],
)
def test_a_number_behind_another_one_is_not_taken_for_a_surrogate(text: str) -> None:
    """Read together, the two once looked like a number that had been redacted before."""
    made = REDACTOR.redact(text)
    assert text[-9:] not in str(made.value)
    assert again(REDACTOR, made) == made.value


@pytest.mark.parametrize("between", [" ", "\n", ", "])
def test_of_two_addresses_side_by_side_nothing_is_left(between: str) -> None:
    """The postcode of one is not the house number of the next."""
    address = "12 Elm Street, Springfield, IL 62704"
    assert _redacted(f"{address}{between}{address}") == f"{_redacted(address)}{between}{_redacted(address)}"


@pytest.mark.parametrize("behind", [". What else?", ".", ", and more", " and more", ""])
def test_an_address_ends_where_its_sentence_does(behind: str) -> None:
    made = _redacted(f"She lives at 12 Elm Street, Springfield{behind}")
    assert made == _redacted("She lives at 12 Elm Street, Springfield") + behind


@pytest.mark.parametrize(
    "address", ["12 Elm Street, Springfield", "350 Fifth Avenue, New York", "14 rue Victor Hugo", "Lindenstraße 4"]
)
@pytest.mark.parametrize("quote", ["'", '"', "’"])
def test_an_address_is_the_same_inside_quotation_marks(address: str, quote: str) -> None:
    """As Python prints a list of texts; and the marks stay."""
    alone = _redacted(f"We live at {address}")
    quoted = _redacted(f"[{quote}We live at {address}{quote}, {quote}the depot{quote}]")
    assert alone != f"We live at {address}"
    assert quoted == f"[{quote}{alone}{quote}, {quote}the depot{quote}]"
