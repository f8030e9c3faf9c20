"""OTLP/JSON and SpanRecord, both ways: the ``application/json`` of OTLP/HTTP, which the file exporter writes, too.

Source: opentelemetry-proto ``docs/specification.md``, "JSON Protobuf Encoding": ids are hex (not base64), 64-bit integers
are decimal strings, enums are numbers, bytes are base64.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

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
_V = TypeVar("_V", Event, Link)
_INT64 = range(-(2**63), 2**63)


_Write = Callable[[Any], Any]
_Read = Callable[[Any], Any]
_Field = tuple[str, str, _Write, _Read]
"""Name in JSON, name here, and functions to write and read a value."""


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
                "resource": _write(resource, _RESOURCE),
                "schemaUrl": resource.schema_url,
                "scopeSpans": [
                    {
                        "scope": _write(scope, _SCOPE),
                        "schemaUrl": scope.schema_url,
                        "spans": [{**_write(span, _SPAN), "status": _write(span, _STATUS)} for span in members],
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
        WireError: a field has a form that the specification does not allow; the message names the place.
    """
    spans: list[SpanRecord] = []
    try:
        for found in _list(request, "resourceSpans"):
            url = _text(found.get("schemaUrl"))
            resource = Resource(**_read(found.get("resource") or {}, _RESOURCE), schema_url=url)
            for inner in _list(found, "scopeSpans"):
                scope = Scope(**_read(inner.get("scope") or {}, _SCOPE), schema_url=_text(inner.get("schemaUrl")))
                for item in _list(inner, "spans"):
                    fields = {**_read(item, _SPAN), **_read(item.get("status") or {}, _STATUS)}
                    spans.append(SpanRecord(**fields, resource=resource, scope=scope))
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise WireError(f"OTLP/JSON: resourceSpans: span {len(spans) + 1}: {error}") from error
    return spans


def _write(value: Any, fields: Sequence[_Field]) -> dict[str, Any]:
    return {name: write(getattr(value, own)) for name, own, write, _ in fields}


def _read(item: Any, fields: Sequence[_Field]) -> dict[str, Any]:
    return {own: read(item.get(name)) for name, own, _, read in fields}


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


def _read_pairs(items: Any) -> dict[str, AttributeValue]:
    # An empty key may be left out, like any empty field.
    return {_text(pair.get("key")): _read_any(pair.get("value") or {}) for pair in _items(items, "attributes")}


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
        return _read_pairs((value["kvlistValue"] or {}).get("values"))
    return None


def _list(item: Any, name: str) -> list[Any]:
    return _items(item.get(name), name)


def _items(found: Any, name: str) -> list[Any]:
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


def _hex(value: Any, *, digits: int, name: str, empty: bool = False) -> str:
    text = _text(value).lower()
    if empty and (not text or not text.strip("0")):
        return ""
    if len(text) != digits or not set(text) <= set("0123456789abcdef") or not text.strip("0"):
        raise ValueError(f"{name}: expected {digits} hex digits, not all zero, found {len(text)} characters")
    return text


def _enum(cls: type[_E], prefix: str, value: Any) -> _E:
    if isinstance(value, str) and not value.isdigit():
        return cls[value.removeprefix(prefix)] if value.removeprefix(prefix) in cls.__members__ else cls(0)
    number = _int(value)
    return cls(number) if number in {int(member) for member in cls} else cls(0)


def _same(value: Any) -> Any:
    return value


def _many(kind: Callable[..., _V], fields: Sequence[_Field], name: str) -> tuple[_Write, _Read]:
    """Return the functions that write and read the events or links of a span."""
    return (
        lambda values: [_write(value, fields) for value in values],
        lambda items: tuple(kind(**_read(item, fields)) for item in _items(items, name)),
    )


_ATTRIBUTES: Final[Sequence[_Field]] = (
    ("attributes", "attributes", _attributes, _read_pairs),
    ("droppedAttributesCount", "dropped_attributes_count", _same, _int),
)
_IDS: Final[Sequence[_Field]] = (
    ("traceId", "trace_id", _same, partial(_hex, digits=32, name="traceId")),
    ("spanId", "span_id", _same, partial(_hex, digits=16, name="spanId")),
    ("traceState", "trace_state", _same, _text),
    ("flags", "flags", _same, _int),
)
_RESOURCE: Final = _ATTRIBUTES
_SCOPE: Final[Sequence[_Field]] = (("name", "name", _same, _text), ("version", "version", _same, _text), *_ATTRIBUTES)
_EVENT: Final[Sequence[_Field]] = (
    ("timeUnixNano", "time_unix_nano", str, _int),
    ("name", "name", _same, _text),
    *_ATTRIBUTES,
)
_LINK: Final = (*_IDS, *_ATTRIBUTES)
_SPAN: Final[Sequence[_Field]] = (
    *_IDS,
    ("parentSpanId", "parent_span_id", _same, partial(_hex, digits=16, name="parentSpanId", empty=True)),
    ("name", "name", _same, _text),
    ("kind", "kind", int, partial(_enum, SpanKind, "SPAN_KIND_")),
    ("startTimeUnixNano", "start_time_unix_nano", str, _int),
    ("endTimeUnixNano", "end_time_unix_nano", str, _int),
    *_ATTRIBUTES,
    ("events", "events", *_many(Event, _EVENT, "events")),
    ("droppedEventsCount", "dropped_events_count", _same, _int),
    ("links", "links", *_many(Link, _LINK, "links")),
    ("droppedLinksCount", "dropped_links_count", _same, _int),
)
_STATUS: Final[Sequence[_Field]] = (
    ("code", "status_code", int, partial(_enum, StatusCode, "STATUS_CODE_")),
    ("message", "status_message", _same, _text),
)
