"""Famous people who are dead, people of fiction, and what is called after a person stay; a private namesake who is told as one goes."""

from __future__ import annotations

from importlib.resources import files

import pytest

from freezeframe_redaction import Redactor, TenantKey, load_policy

_LISTED = (files("freezeframe_redaction") / "lexicon" / "famous.txt").read_text("utf-8").splitlines()


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))


@pytest.mark.parametrize(
    "text",
    [
        "The meeting is in room Ada Lovelace, next to the statue of Petra Keller.",
        "Read Virginia Woolf and JANE AUSTEN, then J.R.R. Tolkien's letters.",
        "Die Räume heißen Marie Curie und Max Planck; Besprechungsraum Petra Keller ist belegt.",
        "Tema 9: Federico García Lorca. Salida: Aeropuerto Jorge Chávez, sala Vasco da Gama.",
        "Зупинка біля пам'ятника Тарасу Шевченку. Роман «Анна Каренина» есть в киоске.",
        "李白〈靜夜思〉講座",
        "Ulica Adama Mickiewicza; zasedačka Antonín Dvořák; Kodály Zoltán Általános Iskola; Astrid Lindgren-salen",
        "Maria Lopez Elementary School is closed, and so is Jan Kellner Avenue.",
    ],
)
def test_what_is_nobodys_name_stays(redactor: Redactor, text: str) -> None:
    assert redactor.redact(text).value == text


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("My name is Ada Lovelace and I need help", "Lovelace"),
        ("Dear Nelson Mandela,\nyour parcel is here", "Mandela"),
        ("Patient: Marie Curie", "Curie"),
        ("Mr. Harry Potter called", "Potter"),
        ("Kind regards,\nSimone Weil", "Weil"),
        ("Meet Ada Lovelace <ada@lovelace-shoes.org>", "Lovelace"),
        ("我叫李白,请帮我", "李白"),
        ("We met Anna Galileo Galilei", "Galilei"),
        ("Nurse Anna Keller, Rosalind Franklin Wing", "Keller"),
        ("Prof. Keller of Humboldt University", "Keller"),
        ("It was Anna Keller School Nurse", "Keller"),
        ("We met Sarah Jane Hall yesterday", "Hall"),
        ("send it to 42 Nguyễn Huệ", "Nguyễn"),
    ],
)
def test_a_private_namesake_goes(redactor: Redactor, text: str, gone: str) -> None:
    assert gone not in str(redactor.redact(text).value)


def test_the_list_holds_whole_names_in_order() -> None:
    """One name a line, in small letters, of two to five words; Chinese, Japanese and Korean ones have no space."""
    assert sorted(set(_LISTED)) == _LISTED
    assert [name for name in _LISTED if name.lower() != name or len(name.split()) > 5] == []
    assert [name for name in _LISTED if name.isascii() and " " not in name] == []
