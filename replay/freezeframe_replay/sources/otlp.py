"""OTLP/JSON as backends return it: in their own wrappers, with fields in snake case, nulls, and ids in base64. Pure.

Sources: the HTTP APIs of Jaeger (``/api/v3/traces/{id}``; its own form is below), Grafana Tempo
(``/api/traces/{id}``, ``/api/v2/traces/{id}``) and Phoenix (``/v1/projects/{project}/spans/otlpv1``).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable
from typing import Any, Final, cast

from freezeframe_replay.sources.retyped import retyped
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp.decode import NO_LIMITS
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.otlp.logs import decode_json_logs
from freezeframe_schemas.span import Attributes, AttributeValue, Event, Link, Resource, Scope, SpanKind, SpanRecord, StatusCode
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_objects, as_text

_WRAPPERS: Final = ("result", "trace")
_IDS: Final = {"traceId": 32, "spanId": 16, "parentSpanId": 16}
"""Field -> hex digits."""
_UNDERSCORE: Final = re.compile(r"_([a-z])")


def spans_of_document(document: Any) -> list[SpanRecord]:
    """Return the spans of one JSON value that holds OTLP in any of the forms above.

    Raises:
        WireError: a field has a form that OTLP does not allow; the message names the place.
    """
    try:
        value: Any = _plain(document)
    except RecursionError:
        raise WireError("OTLP/JSON: nested deeper than any span is") from None
    if isinstance(value, list):
        return _of_list(cast("list[Any]", value))
    for wrapper in _WRAPPERS:
        if isinstance(value, dict) and wrapper in value:
            value = cast("dict[str, Any]", value)[wrapper]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if "batches" in fields:
            value = {"resourceSpans": fields["batches"]}
        elif "data" in fields:
            if is_jaeger(fields["data"]):
                return spans_of_jaeger(fields["data"])
            value = {"resourceSpans": [{"scopeSpans": [{"spans": fields["data"]}]}]}
    if isinstance(value, dict) and "resourceLogs" in value:
        return decode_json_logs(json.dumps(value).encode(), NO_LIMITS).events.spans
    if not isinstance(value, dict) or "resourceSpans" not in value:
        raise WireError(f"found {_described(value)}, expected OTLP/JSON: an object with resourceSpans")
    return spans_from_otlp_json(value)


def _of_list(items: list[Any]) -> list[SpanRecord]:
    """Return the spans of a list of documents, each read like a line of a file."""
    spans: list[SpanRecord] = []
    for number, item in enumerate(items, 1):
        if isinstance(item, list):
            raise WireError(f"item {number}: found a list, expected OTLP/JSON: an object with resourceSpans")
        try:
            spans += spans_of_document(item)
        except WireError as error:
            raise WireError(f"item {number}: {error}") from error
    return spans


def _described(value: Any) -> str:
    """Describe a JSON value without its content."""
    if isinstance(value, dict):
        names = sorted(map(str, cast("dict[Any, Any]", value)))
        return f"an object with {', '.join(names[:5])[:100]}" if names else "an empty object"
    return {list: "a list", str: "a string", bool: "true or false", type(None): "null"}.get(type(value), "a number")


def _plain(value: Any, name: str = "") -> Any:
    """Return the value with field names in camel case, without nulls, and ids in hex. Field names are the only keys in OTLP."""
    if isinstance(value, dict):
        fields: dict[str, Any] = {}
        for key, item in cast("dict[str, Any]", value).items():
            if item is not None:
                camel = _UNDERSCORE.sub(lambda found: found[1].upper(), key)
                fields[camel] = _plain(item, camel)
        return fields
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    return _hex(value, _IDS[name]) if name in _IDS and isinstance(value, str) else value


def _hex(text: str, digits: int) -> str:
    """Return an id in hex; protobuf's own JSON writes it in base64, 24 or 12 characters long."""
    if len(text) == -(-digits // 6) * 4:
        try:
            return base64.b64decode(text, validate=True).hex()
        except binascii.Error:
            return text
    return text


# -- Spans of Jaeger's own JSON, which its older API returns and its page downloads. Pure ------------------------------
# Source: the specification's "OpenTelemetry to Jaeger Transformation", read backwards. Times are whole microseconds
# in it, and lists are JSON in text.


_KINDS: Final = {kind.name.lower(): kind for kind in SpanKind}
_STATUSES: Final = {"OK": StatusCode.OK, "ERROR": StatusCode.ERROR}
_MADE: Final = {"span.kind", "otel.status_code", "otel.status_description", "w3c.tracestate"} | {
    f"otel.{name}.{part}" for name in ("scope", "library") for part in ("name", "version")
}
"""Tags that do not come from attributes of the span."""
_HEX: Final = re.compile(r"[0-9a-f]{1,32}")


def is_jaeger(data: Any) -> bool:
    """Return whether this is Jaeger's list of traces."""
    return isinstance(data, list) and bool(data) and isinstance(data[0], dict) and {"traceID", "spans"} <= data[0].keys()


def spans_of_jaeger(data: Iterable[Any]) -> list[SpanRecord]:
    """Return the spans of the traces.

    Raises:
        WireError: an id, a time or a value is not of its type; the message names the span.
    """
    spans: list[SpanRecord] = []
    for trace in map(as_object, data):
        processes = as_object(trace.get("processes"))
        for span in as_objects(trace.get("spans")):
            process = as_object(span.get("process")) or as_object(processes.get(_text(span.get("processID"))))
            try:
                spans.append(_span(span, process))
            except ValueError:
                where = f"trace {_text(span.get('traceID'))[:32]}, span {_text(span.get('spanID'))[:16]}"
                raise WireError(f"Jaeger's JSON: {where}: an id, a time or a value is not of its type") from None
    return spans


def _span(span: JsonObject, process: JsonObject) -> SpanRecord:
    attributes = _attributes(span.get("tags"))
    made = {name: str(attributes.pop(name)) for name in _MADE & attributes.keys()}
    trace_id, span_id = _ids(span)
    references = [(_text(each.get("refType")), *_ids(each)) for each in as_objects(span.get("references"))]
    parents = [of_span for type_, of_trace, of_span in references if (type_, of_trace) == ("CHILD_OF", trace_id)]
    start = _nanoseconds(span.get("startTime"))
    service: Attributes = {"service.name": _text(process.get("serviceName"))}
    name, version = (made.get(f"otel.scope.{part}") or made.get(f"otel.library.{part}", "") for part in ("name", "version"))
    return SpanRecord(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parents[0] if parents else "",
        name=_text(span.get("operationName")),
        kind=_KINDS.get(made.get("span.kind", ""), SpanKind.INTERNAL),
        trace_state=made.get("w3c.tracestate", ""),
        start_time_unix_nano=start,
        end_time_unix_nano=start + _nanoseconds(span.get("duration", 0)),
        attributes=attributes,
        status_code=_STATUSES.get(made.get("otel.status_code", ""), StatusCode.UNSET),
        status_message=made.get("otel.status_description", ""),
        events=tuple(map(_event, as_objects(span.get("logs")))),
        links=tuple(
            Link(trace_id=of_trace, span_id=of_span) for _, of_trace, of_span in references if of_span not in parents[:1]
        ),
        resource=Resource(attributes={**service, **_attributes(process.get("tags"))}),
        scope=Scope(name=name, version=version),
    )


def _event(log: JsonObject) -> Event:
    attributes = _attributes(log.get("fields"))
    name = str(attributes.pop("event", ""))
    return Event(time_unix_nano=_nanoseconds(log.get("timestamp")), name=name, attributes=attributes)


def _attributes(tags: JsonValue) -> dict[str, AttributeValue]:
    named = {_text(tag.get("key")): (_text(tag.get("type")), tag.get("value")) for tag in as_objects(tags)}
    return {key: _value(key, *typed) for key, typed in named.items()}


def _value(key: str, type_: str, value: JsonValue) -> AttributeValue:
    match type_:
        case "bool":
            return value is True or value == "true"
        case "int64":
            return int(str(value))
        case "float64":
            return float(str(value))
        case "binary":
            return base64.b64decode(_text(value), validate=True)
        case _:
            return retyped({key: _text(value)})[key]


def _ids(named: JsonObject) -> tuple[str, str]:
    """Return ids of trace and span; Jaeger may leave out the zeros at their beginning."""
    found = _text(named.get("traceID")), _text(named.get("spanID"))
    if not all(map(_HEX.fullmatch, found)):
        raise ValueError
    return found[0].zfill(32), found[1].zfill(16)


def _nanoseconds(microseconds: JsonValue) -> int:
    return int(str(microseconds)) * 1000


def _text(value: JsonValue) -> str:
    return as_text(value) or ""
