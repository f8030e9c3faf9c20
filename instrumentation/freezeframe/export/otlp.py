"""SpanRecords -> the bytes of an OTLP ``ExportTraceServiceRequest``.

Unlike the SDK's encoder, it drops nothing because of one odd value: a lone surrogate is escaped, an integer beyond int64
becomes its digits.

Source: opentelemetry-proto ``collector/trace/v1/trace_service.proto``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from freezeframe_schemas.otlp.encode import UNENCODABLE, encode_resource, encode_scope, encode_span, request_parts
from freezeframe_schemas.span import Attributes, AttributeValue, Resource, Scope, SpanRecord, digits_of, sound_text

_INT64: Final = range(-(2**63), 2**63)
_T = TypeVar("_T", Resource, Scope, SpanRecord)


def encode_request(records: Iterable[SpanRecord]) -> bytes:
    """Return one request with the spans grouped by resource and scope."""
    records = list(records)
    # By identity: the exporter gives all spans of one process the same resource. No id is reused while the records exist.
    resources = {id(record.resource): record.resource for record in records}
    scopes = {id(record.scope): record.scope for record in records}
    resource_of = {key: _encoded(encode_resource, _sound_resource, resource) for key, resource in resources.items()}
    scope_of = {key: _encoded(encode_scope, _sound_scope, scope) for key, scope in scopes.items()}
    return b"".join(
        request_parts(
            (resource_of[id(record.resource)], scope_of[id(record.scope)], _encoded(encode_span, _sound_span, record))
            for record in records
        )
    )


def _encoded(encode: Callable[[_T], bytes], sound: Callable[[_T], _T], value: _T) -> bytes:
    try:
        return encode(value)
    except UNENCODABLE:
        return encode(sound(value))


def _sound_resource(resource: Resource) -> Resource:
    return replace(resource, attributes=_sound_attributes(resource.attributes))


def _sound_scope(scope: Scope) -> Scope:
    return replace(scope, name=sound_text(scope.name), attributes=_sound_attributes(scope.attributes))


def _sound_span(record: SpanRecord) -> SpanRecord:
    """Return the span with each value that OTLP cannot carry in a form that it can."""
    return replace(
        record,
        name=sound_text(record.name),
        status_message=sound_text(record.status_message),
        attributes=_sound_attributes(record.attributes),
        events=tuple(
            replace(event, name=sound_text(event.name), attributes=_sound_attributes(event.attributes))
            for event in record.events
        ),
        links=tuple(replace(link, attributes=_sound_attributes(link.attributes)) for link in record.links),
    )


def _sound_attributes(attributes: Attributes) -> dict[str, AttributeValue]:
    return {sound_text(name): _sound_value(value) for name, value in attributes.items()}


def _sound_value(value: AttributeValue) -> AttributeValue:
    if isinstance(value, str):
        return sound_text(value)
    if isinstance(value, bool | float | bytes) or value is None:
        return value
    if isinstance(value, int):
        return value if value in _INT64 else digits_of(value)
    if isinstance(value, Mapping):
        return _sound_attributes(value)
    return tuple(_sound_value(item) for item in value)
