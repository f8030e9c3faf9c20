"""Spans as tracing backends export them, by a table of their field names; and the rows of Braintrust's logs.

A model's span of Braintrust keeps the provider's own JSON, or parts of it, as its input, output and metadata; the wire
dialect reads the document made of them.

Source: https://www.braintrust.dev/docs/reference/api (logs) and rows that the braintrust SDK 0.48 sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.sources.recordings.conversations import answered
from freezeframe_replay.sources.recordings.http_calls import Origin, moment
from freezeframe_replay.sources.recordings.json_items import each, listed
from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue, SpanRecord, StatusCode
from freezeframe_schemas.wire import anthropic_messages, gemini, openai_chat, openai_responses
from freezeframe_schemas.wire.dialect import WireDialect
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list, as_object, as_text, dump


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """A backend's names for the fields of every span; a dot leads into an object or list."""

    word: str
    """Its word for a span."""
    trace: str
    own: str
    parent: str
    name: str = "name"
    start: str
    end: str
    error: str = ""


_BRAINTRUST: Final = Names(
    word="row",
    trace="root_span_id",
    own="span_id",
    parent="span_parents.0",
    name="span_attributes.name",
    start="metrics.start",
    end="metrics.end",
    error="error",
)


def read_braintrust(path: Path, origin: Origin) -> Iterator[SpanRecord]:
    """Return the spans of a file of rows.

    Raises:
        WireError: a row does not follow the format; the message says which.
    """

    def span(item: JsonObject) -> SpanRecord:
        return span_of(item, _BRAINTRUST, _attributes(item), seed=origin.kind)

    return each(path, _BRAINTRUST.word, listed(path, "rows", "events", "data"), span)


def span_of(
    item: JsonObject, names: Names, attributes: Mapping[str, AttributeValue], *, seed: str = "", **others: Any
) -> SpanRecord:
    """Return a span that a backend exported.

    Args:
        item: as exported.
        names: the names of its fields.
        attributes: the span's; those without a value are left out.
        seed: goes into an id that is made, because the backend's own has another form; by default its word for a span.
        others: fields of the span from another source.

    Raises:
        ValueError: the item does not follow the format; the message begins with the name of the field.
    """
    start, end = moment(_at(item, names.start), names.start), _at(item, names.end)
    parent, error = _at(item, names.parent), _at(item, names.error)
    made: dict[str, Any] = {
        "name": as_text(_at(item, names.name)) or names.word,
        "status_code": StatusCode.ERROR if error else StatusCode.UNSET,
        "status_message": error if isinstance(error, str) else dump(error) if error else "",
        **others,
    }
    seed = seed or names.word
    return SpanRecord(
        trace_id=_id(_at(item, names.trace), 32, names.trace, seed),
        span_id=_id(_at(item, names.own), 16, names.own, seed),
        parent_span_id=_id(parent, 16, names.parent, seed) if parent else "",
        start_time_unix_nano=start,
        end_time_unix_nano=max(start, moment(end, names.end)) if end else start,
        attributes={key: value for key, value in attributes.items() if value is not None},
        **made,
    )


def _attributes(item: JsonObject) -> Mapping[str, AttributeValue]:
    given, answer = item.get("input"), item.get("output")
    kind = _at(item, "span_attributes.type")
    if kind == "tool":
        result = as_object(answer).get("output", answer) if as_object(answer).keys() == {"output"} else answer
        return {
            genai.OPERATION_NAME: genai.OP_EXECUTE_TOOL,
            genai.TOOL_NAME: as_text(_at(item, _BRAINTRUST.name)) or _BRAINTRUST.word,
            genai.TOOL_CALL_ARGUMENTS: dump(given),
            genai.TOOL_CALL_RESULT: result if isinstance(result, str) else None if result is None else dump(result),
        }
    if kind != "llm":
        return {}
    about = as_object(item.get("metadata"))
    messages: list[JsonValue] = given if isinstance(given, list) else [_message("user", given)]
    request: JsonObject = given if isinstance(given, dict) else {"messages": messages}
    response = _answer_of(answer)
    dialect = _dialect_of(request, response)
    extra: JsonObject = {"id": about.get("id"), "usage": as_object(item.get("metrics"))}
    return {
        **dialect.request_attributes(dump({**_of_request(about), **request}).encode()),
        **(answered(dialect, {**extra, **response}) if answer is not None else {}),
        genai.PROVIDER_NAME: as_text(about.get("provider")) or dialect.provider,
    }


def _of_request(about: JsonObject) -> JsonObject:
    known_after = ("id", "usage", "created", "object", "created_from", "type", "provider", "service_tier", "system_fingerprint")
    return {name: value for name, value in about.items() if name not in known_after and value is not None}


def _answer_of(answer: JsonValue) -> JsonObject:
    """Return an answer as its API gave it: of some, only the choices, the items or the text are kept."""
    if isinstance(answer, dict):
        return answer
    items = [as_object(item) for item in as_list(answer)]
    if items:
        return {"choices" if "message" in items[0] else "output": answer}
    return {"choices": [{"message": _message("assistant", answer)}]}


def _message(role: str, content: JsonValue) -> JsonObject:
    return {"role": role, "content": content if isinstance(content, str) else dump(content)}


def _dialect_of(asked: JsonObject, response: JsonObject) -> WireDialect:
    if "contents" in asked or "candidates" in response:
        return gemini.DIALECT
    if "choices" in response:
        return openai_chat.DIALECT
    if "output" in response or "input" in asked:
        return openai_responses.DIALECT
    return anthropic_messages.DIALECT if "content" in response else openai_chat.DIALECT


def _at(item: JsonValue, where: str) -> JsonValue:
    for name in where.split("."):
        if name.isdigit():
            held = as_list(item)
            item = held[int(name)] if int(name) < len(held) else None
        else:
            item = as_object(item).get(name)
    return item


def _id(value: JsonValue, digits: int, name: str, seed: str) -> str:
    """Return an id of OpenTelemetry's form: the backend's own without dashes, or else a hash of it."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name}: expected text")
    plain = value.replace("-", "").lower()
    if len(plain) == digits and not plain.strip("0123456789abcdef") and plain.strip("0"):
        return plain
    return hashlib.sha256(f"{seed}:{value}".encode()).hexdigest()[:digits]
