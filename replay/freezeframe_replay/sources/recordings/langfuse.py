"""Traces that Langfuse exports: the JSON of its page and of ``GET /api/public/traces/{id}``, an object with ``observations``.

Langfuse keeps the attributes of the OpenTelemetry span that it was sent; they are the span again. What they do not say about a
model call or a tool is taken from the observation's own input and output.

Source: https://api.reference.langfuse.com, ``TraceWithFullDetails`` and ``ObservationsView``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from freezeframe_replay.sources.recordings.http_calls import Origin
from freezeframe_replay.sources.recordings.json_items import each, items_of
from freezeframe_replay.sources.recordings.observed import Names, span_of
from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue, Resource, Scope, SpanRecord, StatusCode
from freezeframe_schemas.vendors.normalise import normalise
from freezeframe_schemas.wire import openai_chat
from freezeframe_schemas.wire.document import (
    JsonObject,
    JsonValue,
    as_integer,
    as_list,
    as_object,
    as_objects,
    as_text,
    dump,
    parse,
)

_NAMES: Final = Names(
    word="observation", trace="traceId", own="id", parent="parentObservationId", start="startTime", end="endTime"
)


def read_langfuse(path: Path, origin: Origin) -> Iterator[SpanRecord]:
    """Return the spans of an exported trace, under the ids that they had.

    Raises:
        WireError: an observation does not follow the format; the message says which.
    """
    del origin
    return each(path, "observation", items_of(path, "observations"), langfuse_span)


def langfuse_span(item: JsonObject) -> SpanRecord:
    """Return an observation as a span.

    Raises:
        ValueError: it does not follow the format.
    """
    metadata = as_object(_value(item.get("metadata")))
    scope = as_object(metadata.get("scope"))
    span = span_of(
        item,
        _NAMES,
        _texts(as_object(metadata.get("attributes"))),
        status_code=StatusCode.ERROR if item.get("level") == "ERROR" else StatusCode.UNSET,
        status_message=as_text(item.get("statusMessage")) or "",
        resource=Resource(attributes=_texts(as_object(metadata.get("resourceAttributes")))),
        scope=Scope(name=as_text(scope.get("name")) or "", version=as_text(scope.get("version")) or ""),
    )
    known = normalise(span).attributes
    return span.with_attributes({name: value for name, value in _values(item).items() if known.get(name) in (None, "", ())})


def _values(item: JsonObject) -> dict[str, AttributeValue]:
    """Return what the observation's own fields say."""
    kind, given, answer = item.get("type"), _value(item.get("input")), _value(item.get("output"))
    if kind == "TOOL":
        return {
            genai.OPERATION_NAME: genai.OP_EXECUTE_TOOL,
            genai.TOOL_NAME: (as_text(item.get("name")) or "").rpartition(" ")[2],
            **_text_of(genai.TOOL_CALL_ARGUMENTS, given),
            **_text_of(genai.TOOL_CALL_RESULT, answer),
        }
    if kind != "GENERATION":
        return {}
    usage = as_object(item.get("usageDetails"))
    values: dict[str, AttributeValue] = {
        genai.OPERATION_NAME: genai.OP_CHAT,
        genai.REQUEST_MODEL: as_text(item.get("model")),
        genai.USAGE_INPUT_TOKENS: as_integer(usage.get("input")),
        genai.USAGE_OUTPUT_TOKENS: as_integer(usage.get("output")),
        **_messages(genai.INPUT_MESSAGES, given),
        **_messages(genai.OUTPUT_MESSAGES, answer),
    }
    return {name: value for name, value in values.items() if value is not None}


def _messages(name: str, value: JsonValue) -> dict[str, AttributeValue]:
    """Return messages, in the form of the conventions or of OpenAI, as the attribute holds them; a text is a whole message."""
    held = as_object(value).get("messages", value)
    found: list[JsonValue] = [held] if isinstance(held, dict) else as_list(held)
    if isinstance(held, str) and held:
        found = [{"role": "assistant" if name == genai.OUTPUT_MESSAGES else "user", "content": held}]
    # Langfuse's callback for LangChain puts the tools offered among the messages.
    messages = [message for message in as_objects(found) if as_object(message.get("content")).get("type") != "function"]
    if not messages or not all(isinstance(message.get("role"), str) for message in messages):
        return {}
    whole: list[JsonValue] = [*messages]
    if all("parts" in message for message in messages):
        return {name: dump(whole)}
    plain: list[JsonValue] = [_plain(message) for message in messages]
    read = openai_chat.DIALECT.request_attributes(dump({"messages": plain}).encode())
    return {name: read.get(genai.INPUT_MESSAGES)}


def _plain(message: JsonObject) -> JsonObject:
    """Return a message with the calls that LangChain keeps next to it."""
    calls = as_object(message.get("additional_kwargs")).get("tool_calls")
    return {**message, "tool_calls": calls} if calls and not message.get("tool_calls") else message


def _value(value: JsonValue) -> JsonValue:
    """Return the JSON that a text holds: the page writes JSON as text, the API as it is."""
    found = parse(value) if isinstance(value, str) and value[:1] in ("{", "[", '"') else None
    return value if found is None else found


def _texts(fields: JsonObject) -> dict[str, AttributeValue]:
    return {
        name: value if isinstance(value, str | bool | int | float) else dump(value)
        for name, value in fields.items()
        if value is not None
    }


def _text_of(name: str, value: JsonValue) -> dict[str, AttributeValue]:
    return {} if value is None else {name: value if isinstance(value, str) else dump(value)}
