"""Traces that Langfuse exports: the JSON of its page and of ``GET /api/public/traces/{id}``, an object with ``observations``.

Langfuse keeps the attributes of the OpenTelemetry span that it received; they restore the span. Further
values of a model call or a tool are taken from the observation's own input and output.

Source: https://api.reference.langfuse.com, ``TraceWithFullDetails`` and ``ObservationsView``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from freezeframe_replay.sources.recordings.http_calls import Origin
from freezeframe_replay.sources.recordings.json_items import each, items_of
from freezeframe_replay.sources.recordings.observed import Names, span_of
from freezeframe_schemas.span import AttributeValue, Resource, Scope, SpanRecord, StatusCode
from freezeframe_schemas.vendors.langfuse import DIALECT, PREFIX
from freezeframe_schemas.vendors.normalise import normalise
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_text, dump, parse

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
    """Return the values of the observation's own fields: those that the SDK sends as attributes of its spans."""
    fields = {
        "type": str(item.get("type")).lower(),
        "input": item.get("input"),
        "output": item.get("output"),
        "model.name": item.get("model"),
        "model.parameters": item.get("modelParameters"),
        "usage_details": item.get("usageDetails"),
        "cost_details": item.get("costDetails"),
    }
    span = span_of(item, _NAMES, {f"{PREFIX}{name}": value for name, value in _texts(fields).items()})
    out = AttributeWriter()
    DIALECT.derive(span, out)
    return out.attributes


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
