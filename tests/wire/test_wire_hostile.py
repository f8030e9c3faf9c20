"""Dialects read any bytes without raising, and what they return can always be exported."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from conventions_messages import from_json
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.wire import WireDialect, eventstream, registry, sse

DIALECTS: Mapping[str, WireDialect] = {route.dialect.name: route.dialect for route in registry.ROUTES}
CONTENT_TYPES = (
    "",
    "application/json",
    "text/event-stream",
    "application/x-ndjson",
    "application/vnd.amazon.eventstream",
)
FIELDS = [
    "messages",
    "content",
    "role",
    "parts",
    "text",
    "type",
    "tools",
    "function",
    "arguments",
    "id",
    "index",
    "choices",
    "delta",
    "message",
    "usage",
    "finish_reason",
    "output",
    "input",
    "item",
    "response",
    "error",
    "candidates",
    "content_block",
    "stopReason",
    "toolUse",
    "contentBlockIndex",
    "thinking",
    "source",
    "data",
    "finishReason",
    "generationConfig",
    "options",
    "tool_calls",
    "output_index",
    "summary",
    "inferenceConfig",
    "system",
    "bytes",
    "logprobs",
    "model",
    "stop",
    "functionCall",
    "usageMetadata",
    "promptTokenCount",
    "prompt_tokens",
    "input_tokens",
    "cache_read_input_tokens",
    "embedding",
    "embeddings",
]
KINDS = [
    "message",
    "text",
    "tool_use",
    "tool_result",
    "thinking",
    "image_url",
    "message_start",
    "content_block_start",
    "content_block_delta",
    "message_delta",
    "text_delta",
    "input_json_delta",
    "response.created",
    "response.output_item.added",
    "response.output_text.delta",
    "response.completed",
    "content-start",
    "content-delta",
    "message-end",
    "tool-call-delta",
    "stream-end",
    "text-generation",
    "function",
    "reasoning",
    "web_search_call",
]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**63, max_value=2**80),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(KINDS),
    st.sampled_from(["\ud800", "x\udfff", "", "data:image/png;base64,AAAA"]),
)
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6)),
    max_leaves=30,
)
names = st.sampled_from(sorted(DIALECTS))
objects = st.dictionaries(st.sampled_from(FIELDS), documents, max_size=8)


def encoded(value: Any) -> bytes:
    """Return JSON as a careless client writes it: NaN bare, surrogates escaped."""
    return json.dumps(value).encode()


def streams(values: Sequence[Any]) -> dict[str, bytes]:
    """Return the values as a body of each content type."""
    lines = [encoded(value) for value in values]
    names = [value.get("type") if isinstance(value, dict) else None for value in values]
    return {
        "": b"\n".join(lines),
        "application/json": b"[" + b",".join(lines) + b"]",
        "application/x-ndjson": b"\n".join(lines),
        "text/event-stream": sse.encode([sse.SseEvent(data=line) for line in lines]),
        "application/vnd.amazon.eventstream": eventstream.encode(
            eventstream.EventMessage(headers={":event-type": name if isinstance(name, str) else "chunk"}, payload=line)
            for name, line in zip(names, lines, strict=True)
            if not isinstance(name, str) or name.isascii()
        ),
    }


def check(attributes: Mapping[str, AttributeValue]) -> None:
    """Assert that every value is one that OTLP carries, and that messages can be read back."""
    for name, value in attributes.items():
        items: Sequence[AttributeValue] = value if isinstance(value, tuple) else (value,)
        for item in items:
            assert isinstance(item, str | bool | int | float), name
            if isinstance(item, str):
                item.encode()
            elif isinstance(item, int):
                assert -(2**63) <= item < 2**63, name
    for name in (genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES):
        text = attributes.get(name)
        if isinstance(text, str):
            from_json(text)


def check_all(dialect: WireDialect, body: bytes, content_type: str) -> None:
    """Read `body` as a request and as an answer, good and failed."""
    check(dialect.request_attributes(body))
    for status in (200, 429):
        check(dialect.response_attributes(body, content_type=content_type, status=status))


hostile = settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@hostile
@given(name=names, body=st.binary(max_size=200), content_type=st.sampled_from(CONTENT_TYPES))
def test_any_bytes_are_read_without_raising(name: str, body: bytes, content_type: str) -> None:
    """Noise."""
    check_all(DIALECTS[name], body, content_type)


@pytest.mark.long
@hostile
@given(name=names, document=objects)
def test_any_json_is_read_without_raising(name: str, document: dict[str, Any]) -> None:
    """The right field names with the wrong things in them, and numbers and texts that orjson refuses."""
    check_all(DIALECTS[name], encoded(document), "application/json")


@pytest.mark.long
@hostile
@given(name=names, values=st.lists(objects, max_size=5), content_type=st.sampled_from(CONTENT_TYPES), cut=st.floats(0, 1))
def test_any_stream_is_read_without_raising(name: str, values: list[dict[str, Any]], content_type: str, cut: float) -> None:
    """Streams of such documents in every framing, cut anywhere."""
    body = streams(values)[content_type]
    check_all(DIALECTS[name], body[: int(len(body) * cut)], content_type)


HARD = {
    "integer beyond 64 bits": b'{"model":"m","seed":%s,"max_tokens":1,"messages":[]}' % (b"9" * 30),
    "integer beyond Python's digits": b'{"model":"m","seed":%s,"messages":[]}' % (b"9" * 5000),
    "NaN": b'{"model":"m","temperature":NaN,"messages":[{"role":"user","content":[{"type":"x","y":NaN}]}]}',
    "lone surrogate": b'{"model":"m\\ud800","messages":[{"role":"user","content":"\\udfff!"}]}',
    "broken UTF-8": b'{"model":"m","messages":[{"role":"user","content":"\xff\xfe"}]}',
    "duplicate keys": b'{"model":"first","model":"m","messages":[]}',
    "byte order mark": b'\xef\xbb\xbf{"model":"m","messages":[]}',
    "deep nesting": b'{"model":"m","messages":[{"role":"user","content":%s1%s}]}' % (b"[" * 700, b"]" * 700),
    "deeper nesting": b'{"model":"m","messages":[{"role":"user","content":%s1%s}]}' % (b"[" * 90000, b"]" * 90000),
}


@pytest.mark.parametrize("body", HARD.values(), ids=HARD.keys())
def test_what_orjson_refuses_is_read_all_the_same(body: bytes) -> None:
    """Every dialect takes every hard case."""
    for dialect in DIALECTS.values():
        check_all(dialect, body, "application/json")


def test_a_seed_beyond_64_bits_is_kept_as_its_digits() -> None:
    """OTLP has no larger integer; the text says what was sent."""
    attributes = DIALECTS["openai.chat"].request_attributes(HARD["integer beyond 64 bits"])
    assert attributes[genai.REQUEST_SEED] == "9" * 30


def test_tool_arguments_beyond_64_bits_keep_their_digits() -> None:
    """Anthropic's arguments are JSON, and survive as JSON."""
    block = b'{"type":"tool_use","id":"t","name":"f","input":{"n":%s}}' % (b"9" * 30)
    body = b'{"type":"message","role":"assistant","content":[%s],"stop_reason":"tool_use"}' % block
    attributes = DIALECTS["anthropic.messages"].response_attributes(body, content_type="", status=200)
    assert '"arguments":{"n":%s}' % ("9" * 30) in str(attributes[genai.OUTPUT_MESSAGES])


def test_a_lone_surrogate_is_escaped_where_text_is_bare() -> None:
    """`model` is not JSON text, so the escape is Python's."""
    attributes = DIALECTS["openai.chat"].request_attributes(HARD["lone surrogate"])
    assert attributes[genai.REQUEST_MODEL] == "m\\ud800"
    assert "\\udfff!" in str(attributes[genai.INPUT_MESSAGES])


def test_a_429_with_half_a_body_names_the_status() -> None:
    """Nothing is read from half a JSON document; the status is what is known."""
    body = b'{"error": {"message": "Rate limit reached for gpt-4o in organiz'
    attributes = DIALECTS["openai.chat"].response_attributes(body, content_type="application/json", status=429)
    assert attributes == {genai.ERROR_TYPE: "429"}


def test_an_error_inside_a_stream_is_an_error() -> None:
    """Anthropic answers 200 and then `event: error`."""
    body = (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"m1","content":[]}}\n\n'
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    )
    attributes = DIALECTS["anthropic.messages"].response_attributes(body, content_type="text/event-stream", status=200)
    assert attributes[genai.ERROR_TYPE] == "overloaded_error"
    assert attributes[genai.RESPONSE_ID] == "m1"
    assert genai.RESPONSE_FINISH_REASONS not in attributes


def test_what_aws_says_in_headers_alone_is_read() -> None:
    """The kind of an error, and the token counts of invoke."""
    dialect = DIALECTS["bedrock.invoke"]
    kind = ("x-amzn-errortype", "ThrottlingException:http://internal.amazon.com/coral/com.amazon.bedrock/")
    failed = dialect.response_attributes(b'{"message":"slow down"}', content_type="", status=429, headers=[kind])
    assert failed[genai.ERROR_TYPE] == "ThrottlingException"
    counts = [("X-Amzn-Bedrock-Input-Token-Count", "7"), ("X-Amzn-Bedrock-Output-Token-Count", "3")]
    body = b'{"outputs":[{"text":"hi","stop_reason":"stop"}]}'
    answered = dialect.response_attributes(body, content_type="", status=200, headers=counts)
    assert (answered[genai.USAGE_INPUT_TOKENS], answered[genai.USAGE_OUTPUT_TOKENS]) == (7, 3)
