"""Spans that Phoenix exports: the JSON of ``GET /v1/projects/{project}/spans`` and of ``.../spans/otlpv1``.

Source: Phoenix's own OpenAPI description, ``/openapi.json`` of a server
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from freezeframe_replay.sources.otlp import spans_of_document
from freezeframe_replay.sources.recordings.http_calls import Origin, iso_time
from freezeframe_replay.sources.recordings.json_items import each, items_of
from freezeframe_schemas.span import AttributeValue, Event, SpanRecord, StatusCode
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_objects, as_text, dump

_DIGITS: Final = frozenset("0123456789abcdef")
_KIND: Final = "openinference.span.kind"


def read_phoenix(path: Path, origin: Origin) -> Iterator[SpanRecord]:
    """Return the spans of a document, under the ids that they had.

    Raises:
        WireError: a span does not follow the format; the message says which.
    """
    del origin
    return chain.from_iterable(each(path, "span", items_of(path, "data"), _spans))


def _spans(item: JsonObject) -> list[SpanRecord]:
    is_otlp = "start_time_unix_nano" in item or "startTimeUnixNano" in item
    return spans_of_document({"data": [item]}) if is_otlp else [phoenix_span(item)]


def phoenix_span(item: JsonObject) -> SpanRecord:
    """Return a span of Phoenix's own form.

    Raises:
        ValueError: it does not follow the format.
    """
    context = as_object(item.get("context"))
    start = iso_time(item.get("start_time"), "start_time")
    ended = item.get("end_time")
    parent = item.get("parent_id")
    attributes = {name: _value(value) for name, value in as_object(item.get("attributes")).items() if value is not None}
    kind = as_text(item.get("span_kind"))
    return SpanRecord(
        trace_id=_id(context.get("trace_id"), 32, "context.trace_id"),
        span_id=_id(context.get("span_id"), 16, "context.span_id"),
        parent_span_id=_id(parent, 16, "parent_id") if parent else "",
        name=as_text(item.get("name")) or "span",
        start_time_unix_nano=start,
        end_time_unix_nano=max(start, iso_time(ended, "end_time")) if ended else start,
        attributes={_KIND: kind, **attributes} if kind and kind != "UNKNOWN" else attributes,
        status_code=StatusCode.ERROR if item.get("status_code") == "ERROR" else StatusCode.UNSET,
        status_message=as_text(item.get("status_message")) or "",
        events=tuple(map(_event, as_objects(item.get("events")))),
    )


def _event(item: JsonObject) -> Event:
    attributes = {name: _value(value) for name, value in as_object(item.get("attributes")).items() if value is not None}
    return Event(
        time_unix_nano=iso_time(item.get("timestamp"), "events.timestamp"),
        name=as_text(item.get("name")) or "event",
        attributes=attributes,
    )


def _value(value: JsonValue) -> AttributeValue:
    if isinstance(value, list) and all(isinstance(item, str | bool | int | float) for item in value):
        return tuple(item for item in value if isinstance(item, str | bool | int | float))
    return dump(value) if isinstance(value, dict | list) else value


def _id(value: JsonValue, digits: int, name: str) -> str:
    if not isinstance(value, str) or len(value) != digits or not set(value) <= _DIGITS or not value.strip("0"):
        raise ValueError(f"{name}: expected an id of {digits} hex digits")
    return value
