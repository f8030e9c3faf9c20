"""SpanRecords -> the bytes of an OTLP ``ExportTraceServiceRequest``.

Unlike the SDK's encoder it loses nothing to one odd value: a lone surrogate is escaped, an integer beyond int64 becomes its
digits.

Source: opentelemetry-proto ``collector/trace/v1/trace_service.proto``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from freezeframe_schemas.otlp_encode import UNENCODABLE, delimited, encode_resource, encode_scope, encode_span, varint
from freezeframe_schemas.span import Attributes, AttributeValue, Resource, Scope, SpanRecord

_INT64: Final = range(-(2**63), 2**63)


def encode_request(records: Iterable[SpanRecord]) -> bytes:
    """Return one request with the spans grouped by resource and scope."""
    # Resources by identity: the exporter gives all spans of one process the same object, and hashing its attributes costs.
    resources: dict[int, tuple[Resource, dict[tuple[str, str, str], tuple[Scope, list[bytes]]]]] = {}
    for record in records:
        _, scopes = resources.setdefault(id(record.resource), (record.resource, {}))
        scope = record.scope
        _, spans = scopes.setdefault((scope.name, scope.version, scope.schema_url), (scope, []))
        try:
            span = encode_span(record)
        except UNENCODABLE:
            span = encode_span(_sound_span(record))
        spans.append(delimited(b"\x12", span))
    return b"".join(part for resource, scopes in resources.values() for part in _resource_spans(resource, scopes.values()))


def _resource_spans(resource: Resource, scopes: Iterable[tuple[Scope, list[bytes]]]) -> list[bytes]:
    try:
        inner = [encode_resource(resource)]
    except UNENCODABLE:
        inner = [encode_resource(replace(resource, attributes=_sound_attributes(resource.attributes)))]
    for scope, spans in scopes:
        try:
            head = encode_scope(scope)
        except UNENCODABLE:
            head = encode_scope(replace(scope, name=_sound(scope.name), attributes=_sound_attributes(scope.attributes)))
        inner.append(b"\x12" + varint(len(head) + sum(map(len, spans))) + head)
        inner += spans
    return [b"\x0a" + varint(sum(map(len, inner))), *inner]


def _sound_span(record: SpanRecord) -> SpanRecord:
    """Return the span with each value that OTLP cannot carry in a form that it can."""
    return replace(
        record,
        name=_sound(record.name),
        status_message=_sound(record.status_message),
        attributes=_sound_attributes(record.attributes),
        events=tuple(
            replace(event, name=_sound(event.name), attributes=_sound_attributes(event.attributes)) for event in record.events
        ),
        links=tuple(replace(link, attributes=_sound_attributes(link.attributes)) for link in record.links),
    )


def _sound_attributes(attributes: Attributes) -> dict[str, AttributeValue]:
    return {_sound(name): _sound_value(value) for name, value in attributes.items()}


def _sound_value(value: AttributeValue) -> AttributeValue:
    if isinstance(value, str):
        return _sound(value)
    if isinstance(value, bool | float | bytes) or value is None:
        return value
    if isinstance(value, int):
        return value if value in _INT64 else _digits(value)
    if isinstance(value, Mapping):
        return _sound_attributes(value)
    return tuple(_sound_value(item) for item in value)


def _sound(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _digits(number: int) -> str:
    try:
        return str(number)
    except ValueError:  # over sys.get_int_max_str_digits()
        return hex(number)
