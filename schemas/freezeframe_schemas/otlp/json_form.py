"""OTLP/JSON and SpanRecord, both ways: what OTLP/HTTP carries as ``application/json`` and what the file exporter writes.

Source: opentelemetry-proto ``docs/specification.md``, "JSON Protobuf Encoding": ids are hex (not base64), 64-bit integers
are decimal strings, enums are numbers, bytes are base64.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import (
    Attributes,
    AttributeValue,
    Event,
    Link,
    Resource,
    Scope,
    SpanKind,
    SpanRecord,
    StatusCode,
)

_E = TypeVar("_E", SpanKind, StatusCode)
_N = TypeVar("_N", int, float)
_INT64 = range(-(2**63), 2**63)


def spans_to_otlp_json(spans: Iterable[SpanRecord]) -> dict[str, Any]:
    """Return an ``ExportTraceServiceRequest`` as a JSON value, spans grouped by resource and scope in order of appearance."""
    groups: dict[str, tuple[Resource, dict[str, tuple[Scope, list[SpanRecord]]]]] = {}
    for span in spans:
        # Grouped by text: resources that differ only by `1` and `True` are equal to Python and different in OTLP.
        _, scopes = groups.setdefault(repr(span.resource), (span.resource, {}))
        _, members = scopes.setdefault(repr(span.scope), (span.scope, []))
        members.append(span)
    return {
        "resourceSpans": [
            {
                "resource": {
                    "attributes": _attributes(resource.attributes),
                    "droppedAttributesCount": resource.dropped_attributes_count,
                },
                "schemaUrl": resource.schema_url,
                "scopeSpans": [
                    {
                        "scope": {
                            "name": scope.name,
                            "version": scope.version,
                            "attributes": _attributes(scope.attributes),
                            "droppedAttributesCount": scope.dropped_attributes_count,
                        },
                        "schemaUrl": scope.schema_url,
                        "spans": [_span(span) for span in members],
                    }
                    for scope, members in scopes.values()
                ],
            }
            for resource, scopes in groups.values()
        ]
    }


def spans_from_otlp_json(request: Any) -> list[SpanRecord]:
    """Return the spans of an ``ExportTraceServiceRequest`` given as a JSON value. Unknown fields are ignored, as the
    specification asks.

    Raises:
        WireError: a field has a form that the specification does not allow; the message says where.
    """
    spans: list[SpanRecord] = []
    try:
        for resource_spans in _list(request, "resourceSpans"):
            resource_json = resource_spans.get("resource") or {}
            resource = Resource(
                attributes=_read_pairs(resource_json, "attributes"),
                dropped_attributes_count=_int(resource_json.get("droppedAttributesCount")),
                schema_url=_text(resource_spans.get("schemaUrl")),
            )
            for scope_spans in _list(resource_spans, "scopeSpans"):
                scope_json = scope_spans.get("scope") or {}
                scope = Scope(
                    name=_text(scope_json.get("name")),
                    version=_text(scope_json.get("version")),
                    attributes=_read_pairs(scope_json, "attributes"),
                    dropped_attributes_count=_int(scope_json.get("droppedAttributesCount")),
                    schema_url=_text(scope_spans.get("schemaUrl")),
                )
                spans.extend(_read_span(item, resource, scope) for item in _list(scope_spans, "spans"))
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise WireError(f"OTLP/JSON: resourceSpans: span {len(spans) + 1}: {error}") from error
    return spans


def _span(span: SpanRecord) -> dict[str, Any]:
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "parentSpanId": span.parent_span_id,
        "traceState": span.trace_state,
        "flags": span.flags,
        "name": span.name,
        "kind": int(span.kind),
        "startTimeUnixNano": str(span.start_time_unix_nano),
        "endTimeUnixNano": str(span.end_time_unix_nano),
        "attributes": _attributes(span.attributes),
        "droppedAttributesCount": span.dropped_attributes_count,
        "events": [
            {
                "timeUnixNano": str(event.time_unix_nano),
                "name": event.name,
                "attributes": _attributes(event.attributes),
                "droppedAttributesCount": event.dropped_attributes_count,
            }
            for event in span.events
        ],
        "droppedEventsCount": span.dropped_events_count,
        "links": [
            {
                "traceId": link.trace_id,
                "spanId": link.span_id,
                "traceState": link.trace_state,
                "attributes": _attributes(link.attributes),
                "droppedAttributesCount": link.dropped_attributes_count,
                "flags": link.flags,
            }
            for link in span.links
        ],
        "droppedLinksCount": span.dropped_links_count,
        "status": {"code": int(span.status_code), "message": span.status_message},
    }


def _attributes(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": key, "value": _any_value(value)} for key, value in attributes.items()]


def _any_value(value: AttributeValue) -> dict[str, Any]:
    match value:
        case None:
            return {}
        case bool():
            return {"boolValue": value}
        case str():
            return {"stringValue": value}
        case int():
            return {"intValue": str(value)} if value in _INT64 else {"stringValue": str(value)}
        case float():
            return {"doubleValue": value if math.isfinite(value) else _special(value)}
        case bytes():
            return {"bytesValue": base64.b64encode(value).decode()}
        case Mapping():
            return {"kvlistValue": {"values": _attributes(value)}}
        case _:
            return {"arrayValue": {"values": [_any_value(item) for item in value]}}


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _read_span(item: Any, resource: Resource, scope: Scope) -> SpanRecord:
    status = item.get("status") or {}
    return SpanRecord(
        trace_id=_hex(item.get("traceId"), 32, "traceId"),
        span_id=_hex(item.get("spanId"), 16, "spanId"),
        parent_span_id=_hex(item.get("parentSpanId") or "", 16, "parentSpanId", empty=True),
        trace_state=_text(item.get("traceState")),
        flags=_int(item.get("flags")),
        name=_text(item.get("name")),
        kind=_enum(SpanKind, item.get("kind"), "SPAN_KIND_"),
        start_time_unix_nano=_int(item.get("startTimeUnixNano")),
        end_time_unix_nano=_int(item.get("endTimeUnixNano")),
        attributes=_read_pairs(item, "attributes"),
        dropped_attributes_count=_int(item.get("droppedAttributesCount")),
        events=tuple(
            Event(
                time_unix_nano=_int(event.get("timeUnixNano")),
                name=_text(event.get("name")),
                attributes=_read_pairs(event, "attributes"),
                dropped_attributes_count=_int(event.get("droppedAttributesCount")),
            )
            for event in _list(item, "events")
        ),
        dropped_events_count=_int(item.get("droppedEventsCount")),
        links=tuple(
            Link(
                trace_id=_hex(link.get("traceId"), 32, "links.traceId"),
                span_id=_hex(link.get("spanId"), 16, "links.spanId"),
                trace_state=_text(link.get("traceState")),
                attributes=_read_pairs(link, "attributes"),
                dropped_attributes_count=_int(link.get("droppedAttributesCount")),
                flags=_int(link.get("flags")),
            )
            for link in _list(item, "links")
        ),
        dropped_links_count=_int(item.get("droppedLinksCount")),
        status_code=_enum(StatusCode, status.get("code"), "STATUS_CODE_"),
        status_message=_text(status.get("message")),
        resource=resource,
        scope=scope,
    )


def _read_pairs(item: Any, name: str) -> dict[str, AttributeValue]:
    # An empty key may be left out, like any empty field.
    return {_text(pair.get("key")): _read_any(pair.get("value") or {}) for pair in _list(item, name)}


def _read_any(value: Any) -> AttributeValue:
    if "stringValue" in value:
        return _text(value["stringValue"])
    if "boolValue" in value:
        return bool(value["boolValue"])
    if "intValue" in value:
        return _int(value["intValue"])
    if "doubleValue" in value:
        return _number(float, value["doubleValue"])
    if "bytesValue" in value:
        return base64.b64decode(value["bytesValue"], validate=True)
    if "arrayValue" in value:
        return tuple(_read_any(item or {}) for item in _list(value["arrayValue"] or {}, "values"))
    if "kvlistValue" in value:
        return _read_pairs(value["kvlistValue"] or {}, "values")
    return None


def _list(item: Any, name: str) -> list[Any]:
    found = item.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise ValueError(f"{name}: found {type(found).__name__}, expected an array")
    return found


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"found {type(value).__name__}, expected a string")
    return value


def _int(value: Any) -> int:
    """Read a 64-bit integer, which the encoding allows as a number or as a decimal string."""
    if value is None or value == "":
        return 0
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"found {type(value).__name__}, expected an integer")
    return _number(int, value)


def _number(kind: type[_N], value: Any) -> _N:
    """Read a number. Python's own message would quote the text that is not a number, which may be anything."""
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"found text of {len(value)} characters, expected a number") from None


def _hex(value: Any, digits: int, name: str, *, empty: bool = False) -> str:
    text = _text(value).lower()
    if empty and (not text or not text.strip("0")):
        return ""
    if len(text) != digits or not set(text) <= set("0123456789abcdef") or not text.strip("0"):
        raise ValueError(f"{name}: expected {digits} hex digits, not all zero, found {len(text)} characters")
    return text


def _enum(cls: type[_E], value: Any, prefix: str) -> _E:
    if isinstance(value, str) and not value.isdigit():
        return cls[value.removeprefix(prefix)] if value.removeprefix(prefix) in cls.__members__ else cls(0)
    number = _int(value)
    return cls(number) if number in {int(member) for member in cls} else cls(0)
