"""What a policy would change: each value with its class, its key and its context, whatever the text around it is."""

from __future__ import annotations

import json

import pytest

from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_redaction.policies.policy import parse_policy
from freezeframe_redaction.trial import Change, changes
from freezeframe_schemas import genai
from freezeframe_schemas.span import Event, SpanRecord

KEY = TenantKey(id="test/1", secret=b"k" * 32)
TOWNS = parse_policy(
    'name = "towns"\nversion = 1\nclasses = ["EMAIL"]\n[[class]]\nname = "TOWN"\npattern = "Lyon"\nkeys = ["town"]\nexample = "Lyon"\n'
)


def _span(**attributes: str | int) -> SpanRecord:
    return SpanRecord(
        trace_id="1" * 32,
        span_id="2" * 16,
        name="work",
        start_time_unix_nano=1,
        end_time_unix_nano=2,
        attributes={name.replace("_", "."): value for name, value in attributes.items()},
    )


def _changes(span: SpanRecord) -> list[Change]:
    return list(changes(span, Redactor(TOWNS, KEY).redact_span(span)))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("by train to Lyon tomorrow", "result"),
        (json.dumps({"order": {"city": "Lyon"}}), "result.order.city"),
        (json.dumps([{"note": "to Lyon"}]), "result.note"),
        (json.dumps({"body": json.dumps({"city": "Lyon"})}), "result.body.city"),
        ('data: {"city": "Lyon"}\n\n', "result"),
        ("{not json: Lyon", "result"),
    ],
)
def test_a_value_is_named_with_its_class_and_the_keys_around_it(text: str, key: str) -> None:
    (change,) = _changes(_span(result=text))
    assert (change.class_, change.key, change.before) == ("TOWN", key, "Lyon")
    assert change.after != "Lyon"
    assert "Lyon" in change.context


def test_two_values_of_one_text_are_two_changes() -> None:
    found = _changes(_span(result="ann@corp.io, then Lyon, then bob@corp.io"))
    assert [(one.class_, one.before) for one in found] == [
        ("EMAIL", "ann@corp.io"),
        ("TOWN", "Lyon"),
        ("EMAIL", "bob@corp.io"),
    ]


def test_what_was_replaced_before_is_no_change() -> None:
    span = Redactor(load_policy("minimal"), KEY).redact_span(_span(result="pay with 4012888888881881 in Lyon", other="plain"))
    again = Redactor(TOWNS, KEY).redact_span(span)
    assert [one.before for one in changes(span, again)] == ["Lyon"]
    assert list(changes(span, span)) == []


def test_names_of_attributes_and_events_are_compared_as_well() -> None:
    span = _span(**{"seen ann@corp.io": 1})
    span = SpanRecord(
        trace_id=span.trace_id,
        span_id=span.span_id,
        name="to Lyon",
        start_time_unix_nano=1,
        end_time_unix_nano=2,
        attributes=span.attributes,
        events=(Event(time_unix_nano=1, name="log", attributes={"text": "in Lyon"}),),
    )
    assert [(one.key, one.before) for one in _changes(span)] == [
        ("name", "Lyon"),
        ("names of attributes", "ann@corp.io"),
        ("text", "Lyon"),
    ]


def test_a_code_of_few_digits_is_a_change_although_it_is_not_listed() -> None:
    span = _span(result=json.dumps({"pin": 4821}))
    (change,) = changes(span, Redactor(load_policy(), KEY).redact_span(span))
    assert (change.class_, change.key, change.before, change.after) == ("OTHER", "result.pin", "4821", "9999")


def test_sizes_of_chunks_are_no_values() -> None:
    before, after = (
        _span(body=text).with_attributes({"body": text, genai.RESPONSE_CHUNK_SIZES: (size,)})
        for text, size in (("to Lyon", 7), ("to Ghevixq", 10))
    )
    assert [one.key for one in changes(before, after)] == ["body"]
