"""Whole spans: every place that can hold text, protocol values, streams and compressed bodies."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import zstandard
from bare_spans import bare_span

from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_redaction.leaves import bodies
from freezeframe_schemas import genai
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.exchange import BASE64
from freezeframe_schemas.span import Event, Link, Resource, SpanRecord

KEY = TenantKey(id="test/1", secret=b"k" * 32)
MAIL = "bob.smith@gmail.com"


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(load_policy(), KEY)


def _span(**attributes: Any) -> SpanRecord:
    return bare_span(attributes)


def _exchange(body: str | bytes, sizes: tuple[int, ...], *headers: tuple[str, str]) -> SpanRecord:
    return _span(
        **{
            genai.RESPONSE_BODY: body,
            genai.RESPONSE_CHUNK_SIZES: sizes,
            genai.RESPONSE_CHUNK_OFFSETS_NS: tuple(range(len(sizes))),
            genai.RESPONSE_HEADERS: json.dumps(headers),
        }
    )


def _sse(*events: Any) -> list[bytes]:
    return [f"data: {json.dumps(event)}\n\n".encode() for event in events]


def _openai(*pieces: str) -> list[bytes]:
    return [
        *_sse(*({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces)),
        b"data: [DONE]\n\n",
    ]


def _body(span: SpanRecord) -> tuple[str, tuple[int, ...]]:
    body, sizes = span.attributes[genai.RESPONSE_BODY], span.attributes[genai.RESPONSE_CHUNK_SIZES]
    assert isinstance(body, str)
    assert isinstance(sizes, tuple)
    return body, sizes  # type: ignore[return-value]


def _content(body: str) -> str:
    events = [json.loads(line[6:]) for line in body.split("\n") if line.startswith("data: {")]
    return "".join(event["choices"][0]["delta"]["content"] for event in events)


def test_every_text_of_a_span_is_redacted(redactor: Redactor) -> None:
    """Name, status, attributes, events, links and resource; nothing of the value is left."""
    span = SpanRecord(
        trace_id="1" * 32,
        span_id="2" * 16,
        name=f"mail to {MAIL}",
        start_time_unix_nano=1,
        end_time_unix_nano=2,
        status_message=f"no such user {MAIL}",
        attributes={
            genai.INPUT_MESSAGES: json.dumps([{"content": MAIL}]),
            "list": (MAIL, 1),
            "map": {"a": MAIL},
            "raw": MAIL.encode(),
        },
        events=(Event(time_unix_nano=1, name=f"saw {MAIL}", attributes={genai.EXCEPTION_STACKTRACE: f"ValueError: {MAIL}"}),),
        links=(Link(trace_id="1" * 32, span_id="3" * 16, attributes={"x": MAIL}),),
        resource=Resource(attributes={"owner": MAIL}),
    )
    made = redactor.redact_span(span)
    assert "smith" not in repr(made)
    assert made.attributes[genai.REDACTION_POLICY] == load_policy().label
    assert made.attributes[genai.REDACTION_KEY_ID] == "test/1"
    listed = json.loads(str(made.attributes[genai.REDACTION_SURROGATES]))
    assert list(listed.values()) == ["EMAIL"]
    assert redactor.redact_span(made) == made


def test_what_a_span_lists_as_surrogates_stays(redactor: Redactor) -> None:
    """Under another key, as after a rotation; what the span does not list is replaced."""
    said = "Phone: 974 3493, MRN: 90155580, account number: 9856050379"
    once = redactor.redact_span(_span(app=said))
    assert said[7:15] not in str(once.attributes["app"])
    other = Redactor(load_policy(), TenantKey(id="other/1", secret=b"o" * 32))
    twice = other.redact_span(once)
    assert twice.attributes["app"] == once.attributes["app"]
    assert twice.attributes[genai.REDACTION_SURROGATES] == once.attributes[genai.REDACTION_SURROGATES]
    unlisted = once.with_attributes({genai.REDACTION_SURROGATES: "{}"})
    assert other.redact_span(unlisted).attributes["app"] != once.attributes["app"]


def test_a_list_of_surrogates_that_cannot_be_read_is_an_error(redactor: Redactor) -> None:
    for listed in ("[]", "{"):
        with pytest.raises(WireError, match="expected a JSON object"):
            redactor.redact_span(_span(**{genai.REDACTION_SURROGATES: listed}))


def test_a_body_in_an_unusual_place_or_form_is_redacted(redactor: Redactor) -> None:
    """On an event, and as an array: nothing is skipped because of its name."""
    event = Event(time_unix_nano=1, name="x", attributes={genai.REQUEST_BODY: f"to {MAIL}"})
    span = _span(**{genai.RESPONSE_BODY: (f"to {MAIL}", 1)})
    assert "smith" not in repr(redactor.redact_span(replace(span, events=(event,))))


def test_protocol_values_stay(redactor: Redactor) -> None:
    """Ids, models and hashes are what a replay matches on, and what a provider checks."""
    kept = {
        genai.RESPONSE_ID: "chatcmpl-4111111111111111",
        genai.REQUEST_MODEL: "gpt-4o-2024-08-06",
        genai.TOOL_CALL_ID: "call_4155552671",
        genai.CONVERSATION_ID: "4155552671",
        genai.PACKAGES: '{"numpy":"1.2.3.4"}',
    }
    made = redactor.redact_span(_span(**kept))
    assert {name: made.attributes[name] for name in kept} == kept


@pytest.mark.parametrize("name", [genai.AGENT_NAME, "agent.name", "agent_name"])
def test_an_agents_own_name_stays(redactor: Redactor, name: str) -> None:
    """It is a program's, and runs are grouped by it; in the tree its spans are called by it. A person's mail there goes."""
    span = replace(_span(**{name: "LangGraph"}), name="invoke_agent LangGraph")
    made = redactor.redact_span(span)
    assert (made.name, made.attributes[name]) == (span.name, "LangGraph")
    assert redactor.redact_span(_span(**{name: f"for {MAIL}"})).attributes[name] != f"for {MAIL}"


def test_a_span_without_findings_is_unchanged_but_for_the_stamp(redactor: Redactor) -> None:
    """Byte-exact, chunk sizes included."""
    chunks = _openai("Hello", " there, order ", "AC-1027")
    span = _exchange(b"".join(chunks).decode(), tuple(map(len, chunks)), ("content-type", "text/event-stream"))
    made = redactor.redact_span(span)
    stamps = {genai.REDACTION_POLICY, genai.REDACTION_KEY_ID, genai.REDACTION_KEY_CHECK, genai.REDACTION_SURROGATES}
    assert {name: value for name, value in made.attributes.items() if name not in stamps} == span.attributes


def test_a_value_split_over_deltas_gets_its_one_surrogate(redactor: Redactor) -> None:
    """The answer spells the same surrogate as unsplit text, in as many events, and the borders follow the bytes."""
    chunks = _openai("Write to bob.", "smith@gm", "ail.com", " or call (415) 55", "5-2671", ". Bye")
    made = redactor.redact_span(
        _exchange(b"".join(chunks).decode(), tuple(map(len, chunks)), ("content-type", "text/event-stream"))
    )
    body, sizes = _body(made)
    whole = redactor.redact("Write to bob.smith@gmail.com or call (415) 555-2671. Bye").value
    assert _content(body) == whole
    assert sum(sizes) == len(body.encode())
    assert len(sizes) == len(chunks)
    # Each chunk is still one event: borders moved with the text.
    position = 0
    for size in sizes:
        assert body.encode()[position : position + size].endswith(b"\n\n")
        position += size


def test_borders_that_cut_events_anywhere_stay_in_place(redactor: Redactor) -> None:
    """A chunk border inside a value, or inside a multi-byte character, keeps the sizes adding up."""
    raw = b"".join(_openai("Grüße an ", MAIL, " ✓"))
    raw = raw.replace(b"\\u00fc", "ü".encode())
    sizes = (7,) * (len(raw) // 7) + ((len(raw) % 7,) if len(raw) % 7 else ())
    body, made = _body(redactor.redact_span(_exchange(raw.decode(), sizes)))
    assert sum(made) == len(body.encode())
    assert len(made) == len(sizes)
    assert all(size >= 0 for size in made)


def test_a_line_end_that_only_unicode_knows_does_not_cut_an_event(redactor: Redactor) -> None:
    """JavaScript writes U+2028 into JSON strings unescaped; the value that is split around it is still one."""
    chunks = [
        chunk.replace(b"SEPARATOR", "\u2028".encode()) for chunk in _openai("first lineSEPARATORto bob.", "smith@gm", "ail.com")
    ]
    body, _ = _body(redactor.redact_span(_exchange(b"".join(chunks).decode(), tuple(map(len, chunks)))))
    assert _content(body) == redactor.redact("first line\u2028to bob.smith@gmail.com").value


@pytest.mark.parametrize(
    "events",
    [
        [
            {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": '{"email": "bob.sm'},
            },
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "other"}},
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": 'ith@gmail.com"}'},
            },
        ],
        [
            {
                "type": "response.output_text.delta",
                "item_id": "m1",
                "output_index": 0,
                "content_index": 0,
                "delta": "at bob.smith@",
            },
            {
                "type": "response.output_text.delta",
                "item_id": "m1",
                "output_index": 0,
                "content_index": 0,
                "delta": "gmail.com",
            },
            {"type": "response.completed", "response": {"output": [{"content": [{"text": "at bob.smith@gmail.com"}]}]}},
        ],
        [
            {"candidates": [{"content": {"parts": [{"text": "at bob.smith"}], "role": "model"}, "index": 0}]},
            {"candidates": [{"content": {"parts": [{"text": "@gmail.com"}], "role": "model"}, "index": 0}]},
        ],
        [
            {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"to":"bob.smi'}}]}}]},
            {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 1, "function": {"arguments": '{"x":1}'}}]}}]},
            {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": 'th@gmail.com"}'}}]}}]},
        ],
    ],
    ids=["anthropic", "openai-responses", "gemini", "openai-tool-arguments"],
)
def test_streams_of_each_provider_are_put_together(redactor: Redactor, events: list[Any]) -> None:
    """The pieces spell one surrogate, the same as in plain text."""
    surrogate = str(redactor.redact(MAIL).value)
    chunks = _sse(*events)
    body, sizes = _body(redactor.redact_span(_exchange(b"".join(chunks).decode(), tuple(map(len, chunks)))))
    texts: list[str] = []

    def gather(value: Any) -> None:
        if isinstance(value, dict):
            for item in value.values():
                gather(item)
        elif isinstance(value, list):
            for item in value:
                gather(item)
        elif isinstance(value, str):
            texts.append(value)

    for line in body.splitlines():
        if line.startswith("data: "):
            gather(json.loads(line[6:]))
    assert surrogate in "".join(
        text
        for text in texts
        if text
        not in (
            "other",
            '{"x":1}',
            "input_json_delta",
            "content_block_delta",
            "text_delta",
            "response.output_text.delta",
            "m1",
            "model",
        )
    )
    assert "bob.sm" not in body
    assert sum(sizes) == len(body.encode())


def test_newline_delimited_streams_are_put_together(redactor: Redactor) -> None:
    """Ollama's way."""
    lines = [
        json.dumps({"message": {"role": "assistant", "content": piece}, "done": False}) + "\n"
        for piece in ("at bob.sm", "ith@gmail", ".com")
    ]
    body, _ = _body(redactor.redact_span(_exchange("".join(lines), tuple(map(len, lines)))))
    assert "".join(json.loads(line)["message"]["content"] for line in body.splitlines()) == redactor.redact("at " + MAIL).value


def test_compressed_bodies_are_read(redactor: Redactor) -> None:
    """gzip is undone, redacted and applied again; without findings the bytes stay."""
    clean, dirty = gzip.compress(b'{"a":"order 1"}'), gzip.compress(json.dumps({"a": MAIL}).encode())
    kept = redactor.redact_span(_exchange(clean, (len(clean),), ("content-encoding", "gzip")))
    assert kept.attributes[genai.RESPONSE_BODY] == clean
    made = redactor.redact_span(_exchange(dirty, (10, len(dirty) - 10), ("Content-Encoding", "gzip")))
    body, sizes = made.attributes[genai.RESPONSE_BODY], made.attributes[genai.RESPONSE_CHUNK_SIZES]
    assert isinstance(body, bytes)
    assert isinstance(sizes, tuple)
    assert json.loads(gzip.decompress(body))["a"] == redactor.redact(MAIL).value
    assert sum(sizes) == len(body)  # type: ignore[arg-type]


def test_a_compressed_body_in_base64_is_redacted_as_its_bytes_are(redactor: Redactor) -> None:
    """As instrumentation sends it: no attribute of bytes, which some backends do not take."""
    packed = gzip.compress(json.dumps({"a": MAIL}).encode())
    as_bytes = _exchange(packed, (len(packed),), ("content-encoding", "gzip"))
    as_text = as_bytes.with_attributes(
        {genai.RESPONSE_BODY: base64.b64encode(packed).decode(), genai.RESPONSE_BODY_ENCODING: BASE64}
    )
    assert redactor.redact_span(as_text) == redactor.redact_span(as_bytes)


def test_a_body_that_cannot_be_read_is_left_out_and_named(redactor: Redactor) -> None:
    """Fail closed: an unknown encoding may hide anything."""
    made = redactor.redact_span(_exchange(b"\x8b\x01secret", (8,), ("content-encoding", "x-unknown")))
    assert genai.RESPONSE_BODY not in made.attributes
    assert "x-unknown" in str(made.attributes[genai.RESPONSE_BODY_OMITTED])


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress)])
def test_every_member_of_a_compressed_body_is_read(redactor: Redactor, coding: str, pack: Callable[[bytes], bytes]) -> None:
    """What follows the first one does not pass unread, and is not lost; a body with anything else behind it is left out."""
    first, second = pack(b"one: order 1, "), pack(MAIL.encode())
    made = redactor.redact_span(_exchange(first + second, (), ("content-encoding", coding))).attributes[genai.RESPONSE_BODY]
    assert isinstance(made, bytes)
    assert bodies.decode(made, coding) == b"one: order 1, " + str(redactor.redact(MAIL).value).encode()
    other = redactor.redact_span(_exchange(first + MAIL.encode(), (), ("content-encoding", coding)))
    assert genai.RESPONSE_BODY not in other.attributes
    assert coding in str(other.attributes[genai.RESPONSE_BODY_OMITTED])


def test_a_body_of_very_many_members_is_left_out_and_named(redactor: Redactor) -> None:
    """Each costs time, however little it holds: four megabytes of empty ones would take a quarter of a minute."""
    packed = gzip.compress(MAIL.encode()) + gzip.compress(b"") * 20_000
    made = redactor.redact_span(_exchange(packed, (), ("content-encoding", "gzip")))
    assert genai.RESPONSE_BODY not in made.attributes
    assert "gzip" in str(made.attributes[genai.RESPONSE_BODY_OMITTED])


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress)])
def test_a_body_that_unpacks_to_very_much_is_left_out_and_named(
    redactor: Redactor, coding: str, pack: Callable[[bytes], bytes]
) -> None:
    made = redactor.redact_span(_exchange(pack(bytes(65_000_000)), (), ("content-encoding", coding)))
    assert genai.RESPONSE_BODY not in made.attributes
    assert coding in str(made.attributes[genai.RESPONSE_BODY_OMITTED])


def test_headers_are_read_by_their_names(redactor: Redactor) -> None:
    """A credential in its own header is masked, although the name is in another string."""
    headers = json.dumps([["x-api-key", "q7Gm2kVx9TzP4sLw8RnB"], ["content-type", "application/json"]])
    made = redactor.redact_span(_span(**{genai.REQUEST_HEADERS: headers}))
    text = str(made.attributes[genai.REQUEST_HEADERS])
    assert "q7Gm2kVx9TzP4sLw8RnB" not in text
    assert json.loads(text)[1] == ["content-type", "application/json"]
