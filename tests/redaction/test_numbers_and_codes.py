"""Numbers stay numbers, and short codes get their own surrogates."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from bare_spans import bare_span
from redacted_again import again

from freezeframe_redaction import Aliaser, Redactor, TenantKey, load_policy
from freezeframe_redaction.rules.checksums import luhn
from freezeframe_schemas import genai
from freezeframe_schemas.span import Event, Link, Resource, Scope, SpanRecord

KEY = TenantKey(id="test/1", secret=b"k" * 32)


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(load_policy(), KEY)


def _span(**attributes: str | int) -> SpanRecord:
    return bare_span(attributes)


def test_a_number_of_somebody_in_an_attribute_is_replaced_by_a_number(redactor: Redactor) -> None:
    """A card needs no word, an SSN and a code need their key; counters and times stay."""
    kept = {"count": 536228726, "http.port": 8443, "at_ns": 1763800000123456789, "max_tokens": 128000}
    made = redactor.redact_span(
        _span(**{"app.card": 4111111111111111, "user.ssn": 536228726, "user.phone": 4155552671, "card.cvv": 731}, **kept)
    ).attributes
    for name, was in (("app.card", 4111111111111111), ("user.ssn", 536228726), ("user.phone", 4155552671), ("card.cvv", 731)):
        assert isinstance(made[name], int)
        assert made[name] != was
        assert len(str(made[name])) == len(str(was))
    assert luhn(str(made["app.card"]))
    assert {name: made[name] for name in kept} == kept


@pytest.mark.parametrize(
    "text", ['{"otp": 482913}', '{"cvv": 123}', '{"password": 12345678}', '{"type": "pin", "number": 4482}']
)
def test_codes_that_are_json_numbers_stay_numbers(redactor: Redactor, text: str) -> None:
    """A value whose surrogate has letters elsewhere has one of digits here, and keeps it."""
    redacted = redactor.redact(text)
    once = redacted.value
    assert once != text
    assert isinstance(once, str)
    before, after = json.loads(text), json.loads(once)
    assert [type(value) for value in before.values()] == [type(value) for value in after.values()]
    assert again(redactor, redacted) == once


def test_each_code_of_three_digits_has_a_surrogate_of_its_own(redactor: Redactor) -> None:
    """All of them, under one key."""
    made = {str(redactor.redact(f"cvv {number:03d} ok").value) for number in range(1000)}
    assert len(made) == 1000
    assert all(len(text) == len("cvv 000 ok") for text in made)


def test_codes_are_told_apart_without_the_key(redactor: Redactor) -> None:
    """Two codes in one text are two values on either side of a replay."""
    text = "cvv 731, then pin: 4482, then cvv 732 and cvv 731 again"
    redacted = redactor.redact(text)
    assert isinstance(redacted.value, str)
    aliaser = Aliaser(redactor.policy, redacted.surrogates)
    assert aliaser.alias(text) == "cvv <SECRET#1>, then pin: <SECRET#2>, then cvv <SECRET#3> and cvv <SECRET#1> again"
    assert aliaser.alias(redacted.value) == aliaser.alias(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"contact": [{"type": "phone", "number": "6465551234"}]}',
        '{"kind": "mobile", "value": "0412 884 190"}',
        '{"name": "ssn", "value": "536228726"}',
        '{"key": "tax_id", "val": "536-22-8726"}',
        '{"field": "cvv", "value": 731}',
    ],
)
def test_a_sibling_says_what_a_value_is(redactor: Redactor, text: str) -> None:
    """Fields written as rows name the values next to them."""
    assert redactor.redact(text).value != text


def test_a_policy_without_people_reads_tables(redactor: Redactor) -> None:
    """The heading of a column says what its cells are, whichever classes the policy wants."""
    policy = replace(load_policy(), classes=frozenset({"US_SSN", "SECRET"}))
    made = Redactor(policy, KEY).redact("last_name,ssn,cvv\nKrzyzewski,536228726,731\n").value
    assert isinstance(made, str)
    assert "Krzyzewski" in made
    assert "536228726" not in made
    assert ",731" not in made


@pytest.mark.parametrize("between", [" ", ",", ", ", "\n", ":80 ", " - "])
def test_addresses_close_to_each_other_are_all_found(redactor: Redactor, between: str) -> None:
    """Each is found whole, whatever is a few characters before it: a version, another address."""
    text = between.join(["v1.2.3.4", "31.97.30.81", "8.8.8.8", "9.9.9.9", "1.1.1.1"])
    found = [text[finding.start : finding.end] for finding in redactor.redact(text).findings]
    assert found == ["31.97.30.81", "8.8.8.8", "9.9.9.9", "1.1.1.1"]


@pytest.mark.parametrize("number", ["+91 98688 13928", "+91 71009 40420", "+90 533 413 45 97", "+90 531 125 10 78"])
def test_a_phone_number_of_a_country_code_with_9_is_not_taken_for_a_surrogate(redactor: Redactor, number: str) -> None:
    """Surrogates of other numbers begin with 9 too."""
    made = redactor.redact(f"call {number}")
    assert number not in str(made.value)
    assert again(redactor, made) == made.value


@pytest.mark.parametrize("key", ["order_id", "orderId", "invoice_number", "ticket-no"])
@pytest.mark.parametrize("value", ["4242424242424242", '"4242424242424242"'])
def test_the_number_of_an_order_is_no_card(redactor: Redactor, key: str, value: str) -> None:
    """As a number and as a text; a card beside it is one."""
    order = f'{{"{key}": {value}}}'
    assert redactor.redact(order).value == order
    assert "5555555555554444" not in str(redactor.redact(f'[{order}, {{"card": "5555555555554444"}}]').value)


CARD, SSN = 5500005555555559, 536228726
AS_FLOATS: dict[str, SpanRecord] = {
    "attribute": bare_span({"card": float(CARD)}),
    "array": bare_span({"cards": (1.5, float(CARD))}),
    "kvlist": bare_span({"row": {"ssn": float(SSN), "price": 12.0}}),
    "kvlist in an array in a kvlist": bare_span({"table": {"rows": ({"customer": {"ssn": float(SSN)}},)}}),
    "event": replace(bare_span({}), events=(Event(time_unix_nano=1, name="e", attributes={"card": float(CARD)}),)),
    "link": replace(bare_span({}), links=(Link(trace_id="3" * 32, span_id="4" * 16, attributes={"c": float(CARD)}),)),
    "resource": replace(bare_span({}), resource=Resource(attributes={"owner.ssn": float(SSN)})),
    "scope": replace(bare_span({}), scope=Scope(name="s", attributes={"card": float(CARD)})),
    "json": bare_span({"row": f'{{"card": {CARD}.0}}'}),
    "json as Java writes it": bare_span({"row": '{"card": 5.500005555555559E15, "ssn": 5.36228726e8}'}),
    "json in json": bare_span({"row": json.dumps({"inner": json.dumps({"ssn": float(SSN)})})}),
    "a place of the protocol": bare_span({genai.TOOL_NAME: {"card": "x", "mail": "jane.roe@corp-mail.io"}}),
}


@pytest.mark.parametrize("place", AS_FLOATS)
def test_a_float_that_is_a_whole_number_is_read_like_one(redactor: Redactor, place: str) -> None:
    """A data frame with a missing value makes floats of its column; so does JavaScript of every number."""
    made = redactor.redact_span(AS_FLOATS[place])
    for private in (str(CARD), "5.500005555555559", str(SSN), "5.36228726", "536228726", "jane.roe"):
        assert private not in repr(made)
    assert redactor.redact_span(made) == made


def test_a_float_stays_a_float_and_has_the_surrogate_of_its_integer(redactor: Redactor) -> None:
    made = redactor.redact({"card": float(CARD), "same": CARD, "row": f'[{{"card": {CARD / 1e15!r}e15}}]'}).value
    assert isinstance(made, dict)
    assert isinstance(made["card"], float)
    assert made["card"] == made["same"] != CARD
    assert json.loads(str(made["row"])) == [{"card": made["card"]}]


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 21.5, 1e6, 1763800000.25, -4111111111111111.0, 1e300, 5e-324, float("inf"), float("-inf")]
)
def test_other_floats_stay(redactor: Redactor, value: float) -> None:
    assert redactor.redact({"temperature": value}).value == {"temperature": value}
    assert redactor.redact(json.dumps({"temperature": value})).value == json.dumps({"temperature": value})
