"""The lines of a stream inside a value: printed by a tool, or pasted into a message."""

from __future__ import annotations

import json

import pytest
from redacted_again import again

from freezeframe_redaction import Redactor, TenantKey, load_policy

KEY = TenantKey(id="test/1", secret=b"k" * 32)
EVENTS = (
    'event: delta\ndata: {"choices":[{"delta":{"content":"mail jane.d"}}]}\n\n'
    'data: {"choices":[{"delta":{"content":"oe@corp.io now"}}]}\n\ndata: [DONE]\n'
)
LINES = '{"delta": {"text": "ring 415-86"}}\n{"delta": {"text": "7-3309 today"}}'


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(load_policy(), KEY)


def _texts(lines: str) -> str:
    """Return what the deltas of the lines spell."""
    events = [json.loads(line[line.index("{") :]) for line in lines.splitlines() if "{" in line]
    return "".join(
        str(event["choices"][0]["delta"]["content"] if "choices" in event else event["delta"]["text"]) for event in events
    )


@pytest.mark.parametrize(("events", "value"), [(EVENTS, "jane.doe@corp.io"), (LINES, "415-867-3309")])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_value_split_over_pasted_deltas_is_replaced_as_one(redactor: Redactor, events: str, value: str, depth: int) -> None:
    """At any depth of JSON in JSON; the lines stay lines, and the surrogate is the value's own."""
    text = events
    for _ in range(depth):
        text = json.dumps({"log": text})
    redacted = redactor.redact(text)
    inner = str(redacted.value)
    for _ in range(depth):
        inner = json.loads(inner)["log"]
    surrogate = redactor.redact(value).value if "@" in value else str(redactor.redact(f"ring {value}").value)[5:]
    assert value not in _texts(inner)
    assert str(surrogate) in _texts(inner)
    assert inner.count("\n") == events.count("\n")
    assert again(redactor, redacted) == redacted.value


def test_the_same_events_twice_are_two_streams(redactor: Redactor) -> None:
    """What one dump of events ends with does not join what the next begins with."""
    made = json.loads(str(redactor.redact(json.dumps({"a": EVENTS, "b": EVENTS})).value))
    assert made["a"] == made["b"] == redactor.redact(EVENTS).value


def test_text_around_pasted_events_is_read_as_well(redactor: Redactor) -> None:
    """Lines that are not events keep their place, and are redacted like any text."""
    made = str(redactor.redact(f"The tool printed:\n{EVENTS}Call me at 415-867-3309.").value)
    assert made.startswith("The tool printed:\nevent: delta\ndata: {")
    assert "415-867-3309" not in made
    assert "jane.d" not in made


@pytest.mark.parametrize("text", ['{"phone": 14158673309.0}', '{"rows": [{"phone": 4158673309.0, "score": 4158673.25}]}'])
def test_a_phone_number_that_a_spreadsheet_made_a_float_is_replaced(redactor: Redactor, text: str) -> None:
    """It stays a float; a measurement is unchanged."""
    redacted = redactor.redact(text)
    made = str(redacted.value)
    assert "58673309" not in made
    assert made.count(".0") == text.count(".0")
    assert ("4158673.25" in made) == ("4158673.25" in text)
    json.loads(made)
    assert again(redactor, redacted) == made
