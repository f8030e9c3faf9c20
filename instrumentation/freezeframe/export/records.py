"""SDK spans -> `SpanRecord`. The one place that knows the SDK's span objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource as SdkResource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanKind as SdkKind
    from opentelemetry.trace import StatusCode as SdkStatusCode

    from freezeframe.seams.recorder.sink import Payload


def resource_from_sdk(resource: SdkResource, extra: Attributes) -> Resource:
    """Return the SDK's resource with `extra` attributes added, which take precedence."""
    return Resource(attributes={**_attributes(resource.attributes), **extra}, schema_url=resource.schema_url)


def record_from_span(span: ReadableSpan, resource: Resource, payload: Payload | None = None) -> SpanRecord:
    """Return a finished SDK span as a value, with the recording for it. Spans of one process share one `resource`."""
    name, attributes = None, _attributes(span.attributes)
    if payload is not None:
        name, attributes = payload.describe(attributes)
    context: Any = span.get_span_context()
    parent = span.parent
    scope = span.instrumentation_scope
    return SpanRecord(
        trace_id=format(context.trace_id, "032x"),
        span_id=format(context.span_id, "016x"),
        parent_span_id="" if parent is None else format(parent.span_id, "016x"),
        trace_state=context.trace_state.to_header(),
        flags=int(context.trace_flags),
        name=name or span.name,
        kind=_kind(span.kind),
        start_time_unix_nano=span.start_time or 0,
        end_time_unix_nano=span.end_time or 0,
        attributes=attributes,
        status_code=_status(span.status.status_code),
        status_message=span.status.description or "",
        events=tuple(
            Event(
                time_unix_nano=event.timestamp,
                name=event.name,
                attributes=_attributes(event.attributes),
                dropped_attributes_count=event.dropped_attributes,
            )
            for event in span.events
        ),
        links=tuple(
            Link(
                trace_id=format(link.context.trace_id, "032x"),
                span_id=format(link.context.span_id, "016x"),
                trace_state=link.context.trace_state.to_header(),
                attributes=_attributes(link.attributes),
                dropped_attributes_count=link.dropped_attributes,
                flags=int(link.context.trace_flags),
            )
            for link in span.links
        ),
        resource=resource,
        scope=Scope() if scope is None else _scope(scope),
        dropped_attributes_count=span.dropped_attributes,
        dropped_events_count=span.dropped_events,
        dropped_links_count=span.dropped_links,
    )


@cache
def _kind(kind: SdkKind) -> SpanKind:
    return SpanKind(kind.value + 1)  # the API counts from INTERNAL = 0, OTLP from UNSPECIFIED = 0


@cache
def _status(code: SdkStatusCode) -> StatusCode:
    return StatusCode(code.value)


@lru_cache(256)
def _scope(scope: InstrumentationScope) -> Scope:
    """Return the SDK's scope as a value: the same object each time, which the encoder writes once per batch."""
    attributes = _attributes(scope.attributes)
    return Scope(name=scope.name, version=scope.version or "", attributes=attributes, schema_url=scope.schema_url or "")


def _attributes(attributes: Mapping[str, Any] | None) -> dict[str, AttributeValue]:
    return {name: _value(value) for name, value in (attributes or {}).items()}


def _value(value: Any) -> AttributeValue:
    if isinstance(value, str | bytes | bool | int | float) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(key): _value(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return tuple(_value(item) for item in value)
    return str(value)
