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
from freezeframe_replay.sources.recordings.observed import Names, span_of
from freezeframe_schemas.span import AttributeValue, Event, SpanRecord, StatusCode
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_objects, as_text, dump

_KIND: Final = "openinference.span.kind"
_NAMES: Final = Names(
    word="span", trace="context.trace_id", own="context.span_id", parent="parent_id", start="start_time", end="end_time"
)


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
    kind = as_text(item.get("span_kind"))
    return span_of(
        item,
        _NAMES,
        {_KIND: kind if kind != "UNKNOWN" else None, **_attributes(item)},
        status_code=StatusCode.ERROR if item.get("status_code") == "ERROR" else StatusCode.UNSET,
        status_message=as_text(item.get("status_message")) or "",
        events=tuple(map(_event, as_objects(item.get("events")))),
    )


def _event(item: JsonObject) -> Event:
    return Event(
        time_unix_nano=iso_time(item.get("timestamp"), "events.timestamp"),
        name=as_text(item.get("name")) or "event",
        attributes=_attributes(item),
    )


def _attributes(item: JsonObject) -> dict[str, AttributeValue]:
    return {name: _value(value) for name, value in as_object(item.get("attributes")).items() if value is not None}


def _value(value: JsonValue) -> AttributeValue:
    if isinstance(value, list) and all(isinstance(item, str | bool | int | float) for item in value):
        return tuple(item for item in value if isinstance(item, str | bool | int | float))
    return dump(value) if isinstance(value, dict | list) else value
