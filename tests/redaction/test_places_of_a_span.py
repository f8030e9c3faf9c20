"""Every place of a span that can hold private data, and every spelling that it can have there."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote_plus, urlencode

import pytest

from freezeframe_redaction import Aliaser, Redactor, TenantKey, load_policy
from freezeframe_redaction.redacting.work import OWN, PROTOCOL
from freezeframe_schemas import genai
from freezeframe_schemas.span import Event, Link, Resource, Scope, SpanRecord

REDACTOR = Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))
MAIL, PHONE, CARD, IBAN, NAME = (
    "jane.roe@corp-mail.io",
    "+1 415-867-5309",
    "4242 4242 4242 4242",
    "DE89 3704 0044 0532 0130 00",
    "Zoë Quillfeather",
)
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3gH5"
PRIVATE = ("jane.roe", "corp-mail", "867-5309", "4242 4242 4242", "4242424242", "0532 0130", "Quillfeather", TOKEN[8:30])
RECORD = {"email": MAIL, "phone": PHONE, "card": CARD, "iban": IBAN, "customer_name": NAME}
SPAN = SpanRecord(trace_id="1" * 32, span_id="2" * 16, name="call", start_time_unix_nano=1, end_time_unix_nano=2)


def _with(**changes: Any) -> SpanRecord:
    return replace(SPAN, **changes)


def _headers(*pairs: tuple[str, str]) -> str:
    return json.dumps(pairs)


PLACES = {
    "name and status": _with(name=f"GET /users/{MAIL}", status_message=f"no account for {NAME} <{MAIL}>, {PHONE}"),
    "trace state": _with(trace_state=f"vendor={MAIL}"),
    "link": _with(links=(Link(trace_id="3" * 32, span_id="4" * 16, trace_state=f"v={MAIL}", attributes={"who": MAIL}),)),
    "scope": _with(scope=Scope(name=f"lib {MAIL}", version=MAIL, attributes={"x": MAIL}, schema_url=f"https://x.io/{MAIL}")),
    "schema of the resource": _with(resource=Resource(schema_url=f"https://{quote(MAIL)}/1")),
    "name of an attribute": _with(attributes={f"user.{MAIL}": 1, MAIL: "x"}),
    "exception": _with(
        events=(
            Event(
                time_unix_nano=1,
                name=f"mail {MAIL}",
                attributes={genai.EXCEPTION_MESSAGE: f"KeyError: '{MAIL}'", genai.EXCEPTION_STACKTRACE: f'send("{MAIL}", phone="{PHONE}")'},
            ),
        )
    ),
    "command line": _with(resource=Resource(attributes={"process.command_args": ("a.py", f"--email={MAIL}"), "process.command_line": f"a.py --key {TOKEN}"})),
    "environment": _with(attributes={genai.ENTRY_ENVIRONMENT: json.dumps({"USER_EMAIL": MAIL, "GH_TOKEN": TOKEN, "GIT_AUTHOR_NAME": NAME, "PHONE": PHONE})}),
    "flags": _with(attributes={genai.FLAGS: json.dumps({"ctx": {"targetingKey": MAIL}}), genai.FLAG_KEY: f"beta-{MAIL}", genai.FLAG_VARIANT: MAIL}),
    "ids": _with(attributes={genai.CONVERSATION_ID: f"whatsapp:{PHONE}", genai.SESSION_ID: MAIL, genai.TOOL_CALL_ID: MAIL, genai.AGENT_ID: MAIL}),
    "branch and packages": _with(attributes={genai.VCS_BRANCH: f"{MAIL}/fix", genai.PACKAGES: json.dumps({"x": f"git+https://jane:{TOKEN}@github.com/a/b"})}),
    "retrieval": _with(attributes={genai.RETRIEVAL_DOCUMENTS: json.dumps([{"id": MAIL, "content": f"Patient: {NAME}", "metadata": {"author": NAME}}])}),
    "headers": _with(
        attributes={
            genai.REQUEST_HEADERS: _headers(
                ("cookie", f"email={quote(MAIL)}"), ("baggage", f"user.email={quote(MAIL)},tel={quote(PHONE)}"), ("x-user", f"{NAME} <{MAIL}>"), ("authorization", f"Bearer {TOKEN}")
            )
        }
    ),
    "url": _with(attributes={genai.URL_FULL: f"https://api.io/users/{quote(MAIL)}?phone={quote(PHONE)}&token={TOKEN}"}),
    "form": _with(attributes={genai.REQUEST_BODY: urlencode(RECORD)}),
    "body that is compressed without a word": _with(attributes={genai.REQUEST_BODY: gzip.compress(json.dumps(RECORD).encode())}),
    "utf-16": _with(attributes={genai.RESPONSE_BODY: json.dumps(RECORD).encode("utf-16"), genai.RESPONSE_HEADERS: _headers(("content-type", "application/json; charset=utf-16"))}),
    "base64 in lines": _with(attributes={genai.RESPONSE_BODY: base64.encodebytes(json.dumps(RECORD).encode()).decode()}),
    "base64 in base64": _with(attributes={"x": base64.b64encode(base64.b64encode(json.dumps(RECORD).encode())).decode()}),
    "upload": _with(
        attributes={
            genai.REQUEST_BODY: (
                f'--B\r\nContent-Disposition: form-data; name="full_name"\r\n\r\n{NAME}\r\n'
                f'--B\r\nContent-Disposition: form-data; name="f"; filename="{MAIL}.json"\r\n\r\n{json.dumps(RECORD)}\r\n'
                '--B\r\nContent-Disposition: form-data; name="i"\r\n\r\n'
            ).encode()
            + bytes(range(256))
            + b"\r\n--B--\r\n",
            genai.REQUEST_HEADERS: _headers(("content-type", "multipart/form-data; boundary=B")),
        }
    ),
}  # fmt: skip


def _readings(span: SpanRecord) -> str:
    """Return all that the span says, with its encodings undone."""
    said = [repr(span)]
    for value in span.attributes.values():
        if isinstance(value, bytes):
            said += [value.decode("latin-1"), value.decode("utf-16", "replace")]
            if value.startswith(b"\x1f\x8b"):
                said.append(gzip.decompress(value).decode())
        elif isinstance(value, str):
            said.append(unquote_plus(value))
            blob = value.replace("\n", "")
            for _ in range(2):
                try:
                    blob = base64.b64decode(blob, validate=True).decode()
                except ValueError:
                    break
                said.append(blob)
    return "\n".join(said)


@pytest.mark.parametrize("place", PLACES)
def test_nothing_private_is_left_in_any_place_of_a_span(place: str) -> None:
    made = REDACTOR.redact_span(PLACES[place])
    assert [value for value in PRIVATE if value in _readings(made)] == []


@pytest.mark.parametrize("place", PLACES)
def test_redacting_a_span_again_changes_nothing(place: str) -> None:
    once = REDACTOR.redact_span(PLACES[place])
    assert REDACTOR.redact_span(once) == once


@pytest.mark.parametrize(
    "text",
    [urlencode(RECORD), f"https://a.io/x?{urlencode(RECORD)}", base64.encodebytes(json.dumps(RECORD).encode()).decode(), "q=Jane+Roe&page=2&sum=1+1"],
    ids=["form", "query", "base64 in lines", "form without data"],
)  # fmt: skip
def test_the_alias_of_a_redacted_body_is_that_of_the_body(text: str) -> None:
    redacted = REDACTOR.redact(text)
    aliaser = Aliaser(load_policy(), redacted.surrogates)
    assert aliaser.alias(str(redacted.value)) == aliaser.alias(text)


def test_a_form_stays_a_form_with_the_same_fields() -> None:
    made = str(REDACTOR.redact(urlencode(RECORD)).value)
    assert [field.partition("=")[0] for field in made.split("&")] == list(RECORD)
    assert " " not in made


def test_wrapped_base64_keeps_its_lines_and_decodes() -> None:
    made = str(REDACTOR.redact(base64.encodebytes(json.dumps(RECORD).encode() * 3).decode()).value)
    assert {len(line) for line in made.strip().split("\n")[:-1]} == {76}
    assert "example.com" in base64.b64decode(made).decode()


def test_protocol_values_stay_as_they_are() -> None:
    held = {
        genai.TOOL_CALL_ID: "call_4155552671",
        genai.RESPONSE_MODEL: "claude-3-5-sonnet@20240620",
        genai.ENTRY_TARGET: "app:main",
        genai.RESPONSE_ID: "chatcmpl-4242424242424242",
    }
    made = REDACTOR.redact_span(_with(attributes=held)).attributes
    assert {name: made[name] for name in held} == held


SECRETS = (TOKEN, "sk-proj-" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3gH5", "AKIA" + "QX7ZJ4T2MWB6LNDR")


@pytest.mark.parametrize("name", sorted(PROTOCOL - {genai.REDACTION_SURROGATES}))
def test_no_credential_is_left_in_what_names_things_of_the_protocol(name: str) -> None:
    """Programs put what they like there: `str(error)` as the type of an error, a key as the id of a run."""
    for secret in SECRETS:
        for value in (secret, f"no access for {secret}", ("stop", secret), {"a": (secret,)}, secret.encode()):
            made = REDACTOR.redact_span(_with(attributes={name: value}))
            assert secret not in repr(made)
            assert REDACTOR.redact_span(made) == made


@pytest.mark.parametrize(
    "value",
    [
        "claude-3-5-sonnet-20241022", "ft:gpt-4o-2024-08-06:acme-corp:support:9xYzAbCd", "chatcmpl-9x7KQ2mVtB4sLw8RnBq7Gm2kVx9Tz",
        "resp_68af4030592c81938ec0a5fbab4a3e9f05438e46b5f69a3b", "msg_01XFDUDYJgAACzvnptVvWf8x", "call_q7Gm2kVx9TzP4sLw8RnBa1B2",
        "toolu_01A09q90qw90lq917835lq9", "search_customers_by_last_order_date", "sk-learn-contrib-classifier-lookup",
        "7f3c9a52-6f0b-4f5e-9a3e-1d2c3b4a5f60", "fp_44709d6fcb", "openai.AuthenticationError", "my_app.errors:RateLimitExceededError",
        "api.eu-central-1.bedrock.amazonaws.com", "projects/acme-123456/locations/us-central1/endpoints/987654321",
    ],
)  # fmt: skip
def test_ordinary_names_and_ids_of_the_protocol_stay_byte_for_byte(value: str) -> None:
    held = dict.fromkeys(sorted(PROTOCOL - {genai.REDACTION_SURROGATES}), value)
    made = REDACTOR.redact_span(_with(attributes=held)).attributes
    assert {name: made[name] for name in PROTOCOL - OWN} == dict.fromkeys(PROTOCOL - OWN, value)


@pytest.mark.parametrize("name", [genai.ERROR_TYPE, genai.EXCEPTION_TYPE])
def test_a_message_in_the_place_of_an_errors_type_is_read_as_a_message(name: str) -> None:
    made = REDACTOR.redact_span(_with(attributes={name: f"no account for {NAME}, {PHONE}"}))
    assert [value for value in PRIVATE if value in _readings(made)] == []
