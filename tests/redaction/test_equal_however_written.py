"""One value has one surrogate, however it is written: spelled, in a cell, in a segment, as a float."""

from __future__ import annotations

import json
import quopri

import pytest
from redacted_again import again

from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_redaction.surrogates import spoken

KEY = TenantKey(id="test/1", secret=b"k" * 32)


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(load_policy(), KEY)


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


@pytest.mark.parametrize(
    "text",
    [
        "call 415-867-3309",
        "phone\n4158673309\n6502539917\n",
        "id,phone\n1,4158673309\n",
        "phone\n4158673309.0\n6502539917.0\n",
        "PID|1||||||||||||4158673309|",
        "PER*IC*JANE ROE*TE*4158673309~",
        '{"columns": ["id", "phone"], "rows": [[1, "4158673309"]]}',
        '{"phone": 4158673309.0}',
        "4158673309 is my cell",
    ],
)
def test_a_phone_number_has_one_surrogate_wherever_it_stands(redactor: Redactor, text: str) -> None:
    """The text, the column, the segment, the row and the float give the same digits."""
    expected = _digits(str(redactor.redact("call 415-867-3309").value))
    assert expected in str(redactor.redact(text).value).replace("-", "")


@pytest.mark.parametrize(
    ("said", "like"),
    [
        ("my number is four one five, eight six seven, double three oh nine", "four"),
        ("mi número es cuatro uno cinco, ocho seis siete, tres tres cero nueve", "cuatro"),
        ("meine Nummer: vier eins fünf, acht sechs sieben, drei drei null neun", "vier"),
    ],
)
def test_a_spelled_number_has_the_surrogate_of_its_digits_in_its_own_language(redactor: Redactor, said: str, like: str) -> None:
    """The surrogate spells what the digits would have become; a second pass changes nothing."""
    redacted = redactor.redact(said)
    made = str(redacted.value)
    expected = _digits(str(redactor.redact("call 415-867-3309").value))
    assert made.endswith(spoken.spell_out(expected, like))
    assert again(redactor, redacted) == made


def test_a_spelled_social_security_number_has_the_surrogate_of_its_digits(redactor: Redactor) -> None:
    """As for phone numbers."""
    made = str(redactor.redact("my social: five three six, two two, eight seven one three").value)
    assert spoken.digits_in(made.partition(": ")[2]) == _digits(str(redactor.redact("SSN 536-22-8713").value))


@pytest.mark.parametrize("text", ['{"zip": 94117}', '{"address": {"postal_code": 10115}}'])
def test_a_postcode_that_is_a_json_number_stays_one(redactor: Redactor, text: str) -> None:
    """A second pass recognises it."""
    redacted = redactor.redact(text)
    made = str(redacted.value)
    assert made != text
    assert again(redactor, redacted) == made
    json.loads(made)


def test_only_the_random_values_of_a_cookie_are_replaced(redactor: Redactor) -> None:
    """Names, attributes and plain settings stay, so that the header still parses."""
    made = str(redactor.redact("Cookie: theme=dark; sid=9f2c71aa03be44d1; lang=en; _ga=x1").value)
    assert made.startswith("Cookie: theme=dark; sid=")
    assert made.endswith("; lang=en; _ga=x1")
    assert "9f2c71aa03be44d1" not in made


@pytest.mark.parametrize("pair", [["2128834417", "6468834418"], ["x-api-key", "q7Gm2kVx9TzP4sLw8RnB"]])
def test_two_strings_in_a_list_are_a_header_only_where_the_first_names_something(redactor: Redactor, pair: list[str]) -> None:
    """Two phone numbers are two; a header's name says what its value is."""
    made = json.loads(str(redactor.redact(json.dumps({"phones": pair})).value))
    assert pair[1] != made["phones"][1]
    assert (pair[0] == made["phones"][0]) == (pair[0] == "x-api-key")


_TOKEN = ".".join(
    [
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
        "eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIn0",
        "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    ]
)


@pytest.mark.parametrize("dot", [".\n", ".\n    ", "\n  .", ".\r\n"])
def test_a_token_in_parts_becomes_its_surrogate_in_parts(redactor: Redactor, dot: str) -> None:
    """Broken at its dots, as people and wikis do."""
    whole = str(redactor.redact(f"token {_TOKEN} ok").value)
    assert _TOKEN[-43:] not in whole
    made = redactor.redact(f"token {_TOKEN.replace('.', dot)} ok")
    assert made.value == whole.replace(".", dot)
    assert again(redactor, made) == made.value


def test_a_mail_in_quoted_printable_decodes_to_what_the_mail_becomes(redactor: Redactor) -> None:
    """Its soft breaks cut values anywhere."""
    mail = (
        "Dear team, please note that the client who called this morning about the invoice can be reached under +49 30 90182055 or"
        " under his mail address, which is katarzyna.wisniewska@acme-corp.de, and the IBAN is DE21 5001 0517 3905 9327 67, he says."
    )
    whole = str(redactor.redact(mail).value)
    assert not any(value in whole for value in ("90182055", "wisniewska", "3905"))
    made = str(redactor.redact(quopri.encodestring(mail.encode()).decode()).value)
    assert quopri.decodestring(made.encode()).decode() == whole
