"""Values that a line break cuts in two are found, and their surrogates are cut at the same place."""

from __future__ import annotations

import pytest

from freezeframe_redaction import Redactor, TenantKey, load_policy

REDACTOR = Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))
VALUES = (
    ("transfer it to our account, IBAN ", "DE12 5001 0517 5547 0808 76", 14),
    ("please charge the card ", "4523 6707 2253 4450", 9),
    ("please charge the card ", "4523-6707-2253-4450", 10),
    ("you can call me at ", "+49 159 88694070", 7),
    ("my phone number is ", "(517) 896-7966", 5),
    ("the PESEL of the tenant is ", "23021187572", 6),
    ("her social security number is ", "769-17-1597", 7),
)
BREAKS = ("\n", "\r\n", "\n    ", "\n> ", "\n> > ", "\\n", " \n")


def made_of(text: str) -> str:
    """Return what the redactor makes of a text."""
    return str(REDACTOR.redact(text).value)


@pytest.mark.parametrize("line_break", BREAKS)
@pytest.mark.parametrize(("before", "value", "at"), VALUES)
def test_a_value_over_a_line_break_gets_its_surrogate_with_the_same_break(
    before: str, value: str, at: int, line_break: str
) -> None:
    cut = value[:at].rstrip(" ")
    made = made_of(f"{before}{value} today")
    surrogate = made.removeprefix(before).removesuffix(" today")
    assert surrogate != value
    broken = surrogate[: len(cut)] + line_break + surrogate[at:]
    assert made_of(f"{before}{cut}{line_break}{value[at:]} today") == f"{before}{broken} today"


@pytest.mark.parametrize("line_break", BREAKS)
def test_the_words_of_a_name_over_a_line_break_are_replaced_as_on_one_line(line_break: str) -> None:
    made = made_of("yesterday I spoke with Jennifer Martinez about it")
    first, last = made.removeprefix("yesterday I spoke with ").split()[:2]
    assert {first, last}.isdisjoint(["Jennifer", "Martinez"])
    broken = made_of(f"yesterday I spoke with Jennifer{line_break}Martinez about it")
    assert broken == f"yesterday I spoke with {first}{line_break}{last} about it"


@pytest.mark.parametrize("line_break", BREAKS)
@pytest.mark.parametrize(
    "address",
    ["4810 Marigold|Court, Springfield, IL 62704", "12 rue de|la République, 69002 Lyon", "Lindenstraße|14, 50674 Köln"],
)
def test_an_address_over_a_line_break_keeps_one_break(address: str, line_break: str) -> None:
    first, last = address.split("|")
    made = made_of(f"deliver it to {first}{line_break}{last}, please")
    assert made.count(line_break) == 1
    assert first not in made
    assert last not in made


@pytest.mark.parametrize("line_break", ["\n> ", "\\n"])
@pytest.mark.parametrize(("before", "value", "at"), VALUES)
def test_a_second_pass_leaves_a_surrogate_over_a_line_break(before: str, value: str, at: int, line_break: str) -> None:
    made = REDACTOR.redact(f"{before}{value[:at].rstrip(' ')}{line_break}{value[at:]} today")
    again = REDACTOR.with_known_surrogates(made.surrogates).redact(made.value)
    assert again.value == made.value


@pytest.mark.parametrize(
    "text",
    [
        "scores so far:\n4523 6707\n2253 4450\n4840 2213",
        "ids:\n45236707\n22534450",
        "totals\n1024 2048 4523 6707\n2253 4450 8192 1024",
        "line 1: 4523 6707\nline 2: 2253 4450",
        "total lines 1520\n8869407 bytes",
        "+3 -2\n+44 -7\n+159 -12",
        "the exercises of machine\nlearning, and those of Visual\nStudio",
        "written in 2012 by the\n2013 Street team",
    ],
)
def test_lines_of_a_list_are_not_one_value(text: str) -> None:
    assert made_of(text) == text
