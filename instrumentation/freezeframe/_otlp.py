"""SpanRecords -> the bytes of an OTLP ``ExportTraceServiceRequest``.

Unlike the SDK's encoder it loses nothing to one odd value: a lone surrogate is escaped, an integer beyond int64 becomes its
digits.

Source: opentelemetry-proto ``collector/trace/v1/trace_service.proto``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from freezeframe_schemas.span import Attributes, AttributeValue, Resource, Scope, SpanRecord

_INT64: Final = range(-(2**63), 2**63)


def encode_request(records: Iterable[SpanRecord]) -> bytes:
    """Return one request with the spans grouped by resource and scope."""
    request = ExportTraceServiceRequest()
    resources: dict[int, tuple[Resource, dict[Scope | int, Any], Any]] = {}
    for record in records:
        # Grouped by identity: the exporter gives all spans of one process the same resource object.
        known = resources.get(id(record.resource))
        if known is None:
            group = request.resource_spans.add(schema_url=record.resource.schema_url)
            _put(group.resource.attributes, record.resource.attributes)
            known = resources[id(record.resource)] = (record.resource, {}, group)
        _, scopes, group = known
        mark = hash((record.scope.name, record.scope.version, record.scope.schema_url))
        spans = scopes.get(mark)
        if spans is None:
            spans = scopes[mark] = group.scope_spans.add(schema_url=record.scope.schema_url)
            spans.scope.name, spans.scope.version = record.scope.name, record.scope.version
            _put(spans.scope.attributes, record.scope.attributes)
        _write_span(spans.spans.add(), record)
    return request.SerializeToString()


def _write_span(span: Span, record: SpanRecord) -> None:
    span.trace_id = bytes.fromhex(record.trace_id)
    span.span_id = bytes.fromhex(record.span_id)
    span.parent_span_id = bytes.fromhex(record.parent_span_id)
    span.trace_state = record.trace_state
    span.flags = record.flags
    span.name = _sound(record.name)
    span.kind = Span.SpanKind.ValueType(int(record.kind))
    span.start_time_unix_nano = record.start_time_unix_nano
    span.end_time_unix_nano = record.end_time_unix_nano
    span.dropped_attributes_count = record.dropped_attributes_count
    span.dropped_events_count = record.dropped_events_count
    span.dropped_links_count = record.dropped_links_count
    _put(span.attributes, record.attributes)
    if record.status_code or record.status_message:
        span.status.code = int(record.status_code)  # pyright: ignore[reportAttributeAccessIssue] - enum values are ints
        span.status.message = _sound(record.status_message)
    for event in record.events:
        written = span.events.add(
            time_unix_nano=event.time_unix_nano,
            name=_sound(event.name),
            dropped_attributes_count=event.dropped_attributes_count,
        )
        _put(written.attributes, event.attributes)
    for link in record.links:
        linked = span.links.add(
            trace_id=bytes.fromhex(link.trace_id),
            span_id=bytes.fromhex(link.span_id),
            trace_state=link.trace_state,
            dropped_attributes_count=link.dropped_attributes_count,
            flags=link.flags,
        )
        _put(linked.attributes, link.attributes)


def _put(target: Any, attributes: Attributes) -> None:
    for name, value in attributes.items():
        pair = target.add()  # filled in place: half the cost of building messages and copying them in
        pair.key = _sound(name)
        _set(pair.value, value)


def _set(target: Any, value: AttributeValue) -> None:
    if isinstance(value, str):
        target.string_value = _sound(value)
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int):
        if value in _INT64:
            target.int_value = value
        else:
            target.string_value = str(value)
    elif isinstance(value, float):
        target.double_value = value
    elif isinstance(value, bytes):
        target.bytes_value = value
    elif isinstance(value, Mapping):
        target.kvlist_value.SetInParent()
        _put(target.kvlist_value.values, value)
    elif value is not None:
        target.array_value.SetInParent()
        for item in value:
            _set(target.array_value.values.add(), item)


def _sound(text: str) -> str:
    """Return the text with lone surrogates escaped: protobuf strings are UTF-8, and one surrogate would lose the batch."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text
