"""Paths of keys in a policy: ``customer.name`` is another key than ``product.name``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from freezeframe_redaction import Cast, Redactor, TenantKey, load_policy
from freezeframe_redaction.policies.policy import parse_policy
from freezeframe_redaction.scanner import Scanner
from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord

KEY = TenantKey(id="test/1", secret=b"k" * 32)


def _redactor(*entries: str) -> Redactor:
    return Redactor(parse_policy("\n".join(['name = "acme"', "version = 1", *(f"[[class]]\n{one}" for one in entries)])), KEY)


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return _redactor(
        'name = "CUSTOMER"\nkeys = ["customer.name", "customer.contact.phone", "patients[].tag"]',
        'name = "PERSON"\naction = "keep"\nunder = ["product.name"]',
    )


@pytest.mark.parametrize(
    ("document", "gone", "stays"),
    [
        ({"customer": {"name": "basic"}, "product": {"name": "widget"}, "name": "wide"}, ["basic"], ["widget", "wide"]),
        ({"order": {"customer": {"contact": {"phone": "ext 71"}}}, "contact": {"phone": "ext 72"}}, ["ext 71"], ["ext 72"]),
        ({"customer": {"phone": "ext 71", "contact": {"other": {"phone": "ext 72"}}}}, [], ["ext 71", "ext 72"]),
        ({"patients": [{"tag": 482113}, {"tag": "AB-7"}], "cow": {"tag": 482114}}, ["482113", "AB-7"], ["482114"]),
        ({"customer": {"name": ["basic", "wide"]}, "names": ["narrow"]}, ["basic", "wide"], ["narrow"]),
        ({"arguments": json.dumps({"customer": {"name": "basic"}})}, ["basic"], []),
        ({"app.customer.name": "basic", "customer.name": "wide", "my_customer.name": "narrow"}, ["basic", "wide"], ["narrow"]),
        ({"mycustomer": {"name": "narrow"}}, [], ["narrow"]),
        ({"product": {"name": "Anna Keller"}, "user": {"name": "Lena Hartmann"}}, ["Lena Hartmann"], ["Anna Keller"]),
    ],
)
def test_a_path_names_a_key_by_the_keys_around_it(
    redactor: Redactor, document: dict[str, Any], gone: list[str], stays: list[str]
) -> None:
    made = str(redactor.redact(json.dumps(document)).value)
    assert [value for value in gone if value in made] == []
    assert [value for value in stays if value not in made] == []
    if gone:
        assert json.loads(made) != document


def test_a_path_goes_through_an_attribute_and_the_values_of_a_list_in_it(redactor: Redactor) -> None:
    body = 'data: {"customer": {"name": "basic", "note": "wide"}}\n\ndata: {"product": {"name": "narrow"}}\n\n'
    attributes = {"customer": {"name": "thin", "contact": {"phone": "ext 71"}}, "app.customer": '{"name": "flat"}'}
    span = SpanRecord(trace_id="1" * 32, span_id="2" * 16, name="work", start_time_unix_nano=1, end_time_unix_nano=2)
    span = span.with_attributes({**attributes, genai.RESPONSE_BODY: body, genai.RESPONSE_CHUNK_SIZES: (len(body),)})
    made = redactor.redact_span(span).attributes
    assert made["customer"] != attributes["customer"]
    assert [word for word in ("basic", "thin", "ext 71", "flat") if word in repr(made)] == []
    assert [word for word in ("wide", "narrow") if word not in str(made[genai.RESPONSE_BODY])] == []


def test_a_path_holds_in_what_a_growing_list_of_messages_adds() -> None:
    redactor = _redactor('name = "CODE"\nkeys = ["order.lines.code"]')
    cast = Cast()
    for turns in (2, 3):
        lines = [
            {"role": "user", "content": f"turn {number} " + "x" * 200, "code": f"green{number}"} for number in range(turns)
        ]
        text = json.dumps({"lines": lines})
        span = SpanRecord(trace_id="1" * 32, span_id=f"{turns}" * 16, name="work", start_time_unix_nano=1, end_time_unix_nano=2)
        made, cast = redactor.redact_in_run(span.with_attributes({"order": text}), cast)
        assert "green" not in str(made.attributes["order"])


def test_a_class_of_ones_own_may_be_looked_for_under_a_path_only() -> None:
    entry = 'name = "BADGE"\npattern = "B-[0-9]{5}"\nexample = "B-12345"\naction = "remove"\nunder = ["visitor.badge"]'
    document = {"visitor": {"badge": "B-77310", "seat": "B-77311"}, "badge": "B-77312", "note": "from B-77313"}
    made = json.loads(str(_redactor(entry).redact(json.dumps(document)).value))
    assert made == {**document, "visitor": {"badge": "[BADGE]", "seat": "B-77311"}}


def test_a_policy_without_paths_walks_without_them_and_one_with_them_is_its_text() -> None:
    assert not Scanner(load_policy(), {}).keys.paths
    head = 'name = "acme"\nversion = 1\n[[class]]\nname = "MRN"\n'
    policy = parse_policy(f'{head}keys = ["a[*].tags[]", "ids[]", "patients[].mrn"]\nunder = ["patients[].mrn"]')
    assert policy.custom[0].keys == ("a.tags", "ids[]", "patients.mrn")
    assert parse_policy(policy.text) == policy
    assert parse_policy(f'{head}keys = ["patients.mrn", "a.tags", "ids[]"]\nunder = ["patients.mrn"]').hash == policy.hash
