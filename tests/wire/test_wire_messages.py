"""Messages of the GenAI conventions: values and JSON text both ways, and both as the conventions' JSON schemas have them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from conventions_messages import from_json, parts_from_json
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from recorded_exchanges import Recorded

from freezeframe_schemas import genai
from freezeframe_schemas.wire import find_dialect, messages
from freezeframe_schemas.wire.messages import Message, Part

SCHEMAS = Path(__file__).parents[1] / "data" / "semconv_genai"


def validator(name: str) -> Draft202012Validator:
    """Return the validator of one of the conventions' schemas.

    Two departures: an output message may lack its finish reason (a stream that was cut has none), and a tool's parameters are
    not followed into JSON Schema's meta-schema, which tools need not meet here.
    """
    schema: dict[str, Any] = json.loads((SCHEMAS / f"gen-ai-{name}.json").read_text())
    definitions = schema["$defs"]
    if "OutputMessage" in definitions:
        definitions["OutputMessage"]["required"].remove("finish_reason")
    if "FunctionToolDefinition" in definitions:
        definitions["FunctionToolDefinition"]["properties"]["parameters"] = {}
    return Draft202012Validator(schema)


REQUEST_SCHEMAS: Mapping[str, str] = {
    genai.INPUT_MESSAGES: "input-messages",
    genai.SYSTEM_INSTRUCTIONS: "system-instructions",
    genai.TOOL_DEFINITIONS: "tool-definitions",
}


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.parametrize("name", sorted(REQUEST_SCHEMAS))
def test_what_is_read_of_requests_keeps_to_the_schema(exchanges: Sequence[Recorded], name: str) -> None:
    """Of every recorded request; texts seen before are not checked twice."""
    check = validator(REQUEST_SCHEMAS[name])
    seen: set[str] = set()
    for row in exchanges:
        match = find_dialect(row.method, row.url)
        assert match is not None
        text = match.dialect.request_attributes(row.request).get(name)
        if isinstance(text, str) and text not in seen:
            seen.add(text)
            check.validate(json.loads(text))
    assert len(seen) > 30


@pytest.mark.proof
@pytest.mark.long
def test_what_is_read_of_answers_keeps_to_the_schema(exchanges: Sequence[Recorded]) -> None:
    """Of every recorded answer, and back: the text read as values is the text again."""
    check = validator("output-messages")
    count = 0
    for row in exchanges:
        match = find_dialect(row.method, row.url)
        assert match is not None
        attributes = match.dialect.response_attributes(row.response, content_type=row.content_type, status=row.status)
        text = attributes.get(genai.OUTPUT_MESSAGES)
        if isinstance(text, str):
            check.validate(json.loads(text))
            assert from_json(messages.to_json(from_json(text))) == from_json(text)
            assert json.loads(messages.to_json(from_json(text))) == json.loads(text), row.id
            count += 1
    assert count > 1900


# -- generated ----------------------------------------------------------------------------------------------------------
texts = st.text(max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS = frozenset(
    {"role", "parts", "name", "finish_reason", "type", "content", "id", "arguments", "response", "modality", "mime_type"}
    | {"uri", "file_id", "server_tool_call", "server_tool_call_response"}
)


def is_extra(key: str) -> bool:
    """Return whether a key is not one of the conventions'."""
    return key not in FIELDS


extra = st.dictionaries(st.text(min_size=1, max_size=5).filter(is_extra), values, max_size=2)
optional = st.none() | texts
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(messages.TextPart, content=texts, extra=extra),
    st.builds(messages.ReasoningPart, content=texts, extra=extra),
    st.builds(messages.ToolCallPart, id=optional, name=texts, arguments=values, extra=extra),
    st.builds(messages.ToolCallResponsePart, id=optional, response=values, extra=extra),
    st.builds(messages.ServerToolCallPart, id=optional, name=texts, server_tool_call=values, extra=extra),
    st.builds(messages.ServerToolCallResponsePart, id=optional, server_tool_call_response=values, extra=extra),
    st.builds(messages.BlobPart, modality=texts, mime_type=optional, content=texts, extra=extra),
    st.builds(messages.FilePart, modality=texts, mime_type=optional, file_id=texts, extra=extra),
    st.builds(messages.UriPart, modality=texts, mime_type=optional, uri=texts, extra=extra),
    st.builds(messages.GenericPart, type=st.just("x-other"), extra=extra),
)
conversations = st.lists(
    st.builds(
        Message,
        role=texts,
        parts=st.lists(parts, max_size=3).map(tuple),
        name=optional,
        finish_reason=optional,
        extra=extra,
    ),
    max_size=3,
).map(tuple)


@given(conversation=conversations)
def test_values_survive_the_text(conversation: tuple[Message, ...]) -> None:
    """Whatever the parts, unknown keys and types included."""
    assert from_json(messages.to_json(conversation)) == conversation


@given(instructions=st.lists(parts, max_size=4).map(tuple))
def test_instructions_survive_the_text(instructions: tuple[Part, ...]) -> None:
    """System instructions are bare parts."""
    assert parts_from_json(messages.parts_to_json(instructions)) == instructions


def test_a_part_that_breaks_its_own_type_is_kept_verbatim() -> None:
    """Another vendor wrote a text part whose content is not text."""
    text = '[{"role":"user","parts":[{"type":"text","content":{"a":1}}]}]'
    (message,) = from_json(text)
    assert message.parts == (messages.GenericPart(type="text", extra={"content": {"a": 1}}),)
    assert messages.to_json([message]) == text


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"role":"user"}]', '[{"role":1,"parts":[]}]', '[{"parts":[{}]}]'])
def test_what_is_no_conversation_is_an_error(text: str) -> None:
    """The message says what was expected, and shows no content."""
    with pytest.raises(ValueError, match=r"messages: .*(expected|needs)"):
        from_json(text)
