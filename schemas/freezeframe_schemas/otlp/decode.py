"""OTLP protobuf -> SpanRecord.

Decoding looks at each span on its own: a span that cannot be read is reported as a fault next to the spans that can, so one
bad span never takes its batch with it. The raw schema and its purpose are below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp.count import TRACES, refuse_too_many
from freezeframe_schemas.otlp.encode import HEAD_BYTES
from freezeframe_schemas.span import AttributeValue, Event, Link, Resource, Scope, SpanKind, SpanRecord, StatusCode

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue


_SMALL: Final = 96
"""Attributes up to this many raw bytes are remembered after the first decode: model names, operation names, small numbers."""
_REMEMBERED: Final = 50_000
_WHOLE_BYTES: Final = 1 << 20
"""A request up to this size is parsed whole, a larger one span by span."""
_HEADS_REMEMBERED: Final = 1_024
_T = TypeVar("_T")
_TIME_LIMIT: Final = 1 << 63
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16
_KINDS: Final = tuple(SpanKind)
_STATUSES: Final = tuple(StatusCode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one span and one request. A span over its limit is rejected by name; the rest of its batch is accepted."""

    spans: int = 100_000
    """Per request; a request with more is refused."""
    values: int = 1_000_000
    """Per request; a request with more is refused. Counts attributes, events, links, items of lists (`count`, `json_body`)."""
    span_bytes: int = 48 << 20
    attributes: int = 4_096
    events: int = 10_000
    links: int = 10_000


NO_LIMITS: Final = Limits(spans=1 << 62, values=1 << 62, span_bytes=1 << 62, attributes=1 << 62, events=1 << 62, links=1 << 62)
"""For files, and for the log: accepted spans stay valid if a limit has changed since or a stage exceeded one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanFault:
    """A span that could not be read. Holds ids if they could be read, never content."""

    reason: str
    detail: str
    trace_id: str = ""
    span_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A request's spans in wire order, and the ones that could not be read."""

    spans: list[SpanRecord] = field(default_factory=list[SpanRecord])
    faults: list[SpanFault] = field(default_factory=list[SpanFault])


class _SpanRejectedError(Exception):
    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


def decode_traces(body: bytes, limits: Limits | None = None) -> Decoded:
    """Return the spans of an ``ExportTraceServiceRequest``.

    Raises:
        WireError: the body is not a valid ExportTraceServiceRequest; nothing in it could be read.
    """
    limits = limits or Limits()
    refuse_too_many(body, TRACES, "OTLP traces", limits.values)
    decoded = Decoded()
    request = _parse(body, limits)
    count = sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)
    if count > limits.spans:
        raise WireError(f"the request has {count} spans, the limit is {limits.spans}")
    for resource_spans in request.resource_spans:
        resources: list[Resource] = []
        for scope_spans in resource_spans.scope_spans:
            try:
                if not resources:
                    resources.append(
                        _remembered(_known_resource, _resource, resource_spans.resource, resource_spans.schema_url)
                    )
                scope = _remembered(_known_scope, _scope, scope_spans.scope, scope_spans.schema_url)
            except (parsers().error, UnicodeDecodeError, RecursionError) as error:
                fault = SpanFault(reason="unreadable resource or scope", detail=_describe(error))
                decoded.faults.extend([fault] * len(scope_spans.spans))
                continue
            for span in scope_spans.spans:
                _decode_into(decoded, span, resources[0], scope, limits)
    return decoded


def _parse(body: bytes, limits: Limits) -> RawRequest | SlicedRequest:
    try:
        # A small request needs no check of each span's size. The spans of a large one are counted before they become objects:
        # ten million empty ones fit into 20 MB.
        if len(body) <= min(limits.span_bytes, _WHOLE_BYTES):
            return parsers().request(body)
    except parsers().error:
        pass  # one span in it may be at fault: with the other schema, spans are parsed one by one
    try:
        return parsers().sliced_request(body)
    except parsers().error as error:
        raise WireError(
            f"OTLP traces: the body ({len(body)} bytes) is not a valid ExportTraceServiceRequest ({error})"
        ) from None


def _decode_into(decoded: Decoded, found: RawSpan | bytes, resource: Resource, scope: Scope, limits: Limits) -> None:
    trace_id = span_id = ""
    try:
        if isinstance(found, bytes):
            if len(found) > limits.span_bytes:
                raise _SpanRejectedError("over limit", f"the span has {len(found)} bytes, the limit is {limits.span_bytes}")
            span = parsers().span(found)
        else:
            span = found
        trace_id, span_id = span.trace_id.hex(), span.span_id.hex()
        decoded.spans.append(_span(span, trace_id, span_id, resource, scope, limits))
    except _SpanRejectedError as error:
        fault = SpanFault(reason=error.reason, detail=error.detail, trace_id=trace_id[:32], span_id=span_id[:16])
        decoded.faults.append(fault)
    except (parsers().error, UnicodeDecodeError, RecursionError) as error:
        fault = SpanFault(reason="unreadable span", detail=_describe(error), trace_id=trace_id[:32], span_id=span_id[:16])
        decoded.faults.append(fault)


def _describe(error: Exception) -> str:
    # The message of a UnicodeDecodeError quotes the bytes, which are content.
    if isinstance(error, UnicodeDecodeError):
        return "a text is not UTF-8"
    if isinstance(error, RecursionError) or "MaxDepth" in str(error):  # as the parser's library words it
        return "nested too deeply: protobuf's parsers read some 45 arrays or maps inside one another"
    return "not a valid protobuf message"


def _span(span: RawSpan, trace_id: str, span_id: str, resource: Resource, scope: Scope, limits: Limits) -> SpanRecord:
    # Read each field once: reading a message's field costs as much as a few lines here.
    parent, kind, status = span.parent_span_id, span.kind, span.status
    start, end = span.start_time_unix_nano, span.end_time_unix_nano
    attributes, events, links = span.attributes, span.events, span.links
    if len(trace_id) != 32 or trace_id == _NO_TRACE:
        raise _SpanRejectedError("invalid trace id", f"found {len(span.trace_id)} bytes, expected 16 that are not all zero")
    if len(span_id) != 16 or span_id == _NO_SPAN:
        raise _SpanRejectedError("invalid span id", f"found {len(span.span_id)} bytes, expected 8 that are not all zero")
    if parent and len(parent) != 8:
        raise _SpanRejectedError("invalid parent span id", f"found {len(parent)} bytes, expected 0 or 8")
    if start >= _TIME_LIMIT or end >= _TIME_LIMIT:
        raise _SpanRejectedError("invalid time", "a time lies after the year 2262")
    if len(attributes) > limits.attributes:
        raise _over("attributes", len(attributes), limits.attributes)
    if events and len(events) > limits.events:
        raise _over("events", len(events), limits.events)
    if links and len(links) > limits.links:
        raise _over("links", len(links), limits.links)
    found = parsers().status(status) if status else None
    return SpanRecord(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent.hex() if parent.strip(b"\0") else "",  # some senders write zeros for a root
        name=span.name.decode(),
        start_time_unix_nano=start,
        end_time_unix_nano=end,
        kind=_KINDS[kind] if 0 <= kind < len(_KINDS) else SpanKind.UNSPECIFIED,
        trace_state=span.trace_state.decode(),
        flags=span.flags,
        attributes=_attributes(attributes),
        status_code=_STATUSES[found.code] if found is not None and 0 <= found.code < len(_STATUSES) else StatusCode.UNSET,
        status_message=found.message.decode() if found is not None else "",
        events=tuple(map(_event, events)) if events else (),
        links=tuple(map(_link, links)) if links else (),
        resource=resource,
        scope=scope,
        dropped_attributes_count=span.dropped_attributes_count,
        dropped_events_count=span.dropped_events_count,
        dropped_links_count=span.dropped_links_count,
    )


def _over(what: str, found: int, limit: int) -> _SpanRejectedError:
    return _SpanRejectedError("over limit", f"the span has {found} {what}, the limit is {limit}")


def _event(data: bytes) -> Event:
    event = parsers().event(data)
    return Event(
        time_unix_nano=event.time_unix_nano,
        name=event.name.decode(),
        attributes=_attributes(event.attributes),
        dropped_attributes_count=event.dropped_attributes_count,
    )


def _link(data: bytes) -> Link:
    link = parsers().link(data)
    return Link(
        trace_id=link.trace_id.hex(),
        span_id=link.span_id.hex(),
        trace_state=link.trace_state.decode(),
        attributes=_attributes(link.attributes),
        dropped_attributes_count=link.dropped_attributes_count,
        flags=link.flags,
    )


def _resource(data: bytes, schema_url: bytes) -> Resource:
    resource = parsers().resource(data)
    return Resource(
        attributes=_attributes(resource.attributes),
        dropped_attributes_count=resource.dropped_attributes_count,
        schema_url=schema_url.decode(),
    )


def _scope(data: bytes, schema_url: bytes) -> Scope:
    scope = parsers().scope(data)
    return Scope(
        name=scope.name.decode(),
        version=scope.version.decode(),
        attributes=_attributes(scope.attributes),
        dropped_attributes_count=scope.dropped_attributes_count,
        schema_url=schema_url.decode(),
    )


# A sender has the same resource and scopes in every request. As the same objects, they are also redacted and encoded once.
_known_resource = lru_cache(_HEADS_REMEMBERED)(_resource)
_known_scope = lru_cache(_HEADS_REMEMBERED)(_scope)


def _remembered(known: Callable[[bytes, bytes], _T], read: Callable[[bytes, bytes], _T], data: bytes, schema_url: bytes) -> _T:
    return (known if len(data) + len(schema_url) <= HEAD_BYTES else read)(data, schema_url)


# -- attributes ---------------------------------------------------------------------------------------------------------

_decoded: dict[bytes, tuple[str, AttributeValue]] = {}


def _attributes(pairs: Iterable[bytes]) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {}
    for data in pairs:
        if len(data) <= _SMALL:
            pair = _decoded.get(data)
            if pair is None:
                pair = _attribute(data)
                if len(_decoded) >= _REMEMBERED:
                    _decoded.clear()
                _decoded[data] = pair
            attributes[pair[0]] = pair[1]
        else:
            key, value = _attribute(data)
            attributes[key] = value
    return attributes


def _attribute(data: bytes) -> tuple[str, AttributeValue]:
    """Decode one raw ``KeyValue``: the canonical form of a text by hand, all else by the official classes."""
    key_length = data[1] if len(data) > 2 else 0
    value_at = 2 + key_length
    if data and data[0] == 0x0A and key_length < 0x80 and len(data) > value_at and data[value_at] == 0x12:
        length, start = _read_varint(data, value_at + 1)
        if start + length == len(data) and length and data[start] == 0x0A:
            text_length, text_at = _read_varint(data, start + 1)
            if text_at + text_length == len(data):
                # The view avoids copying a text that may be megabytes long.
                return data[2:value_at].decode(), str(memoryview(data)[text_at:], "utf-8")
    pair = parsers().key_value(data)
    return pair.key, decode_value(pair.value)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at` and the position after it; a truncated number reads as -1, which fits no message."""
    value = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return -1, at


def decode_value(value: AnyValue) -> AttributeValue:
    """Return the plain value of an OTLP ``AnyValue``; the protobuf parser has bounded its depth to 100."""
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "bytes_value":
            return value.bytes_value
        case "array_value":
            return tuple(decode_value(item) for item in value.array_value.values)
        case "kvlist_value":
            return {pair.key: decode_value(pair.value) for pair in value.kvlist_value.values}
        case _:
            return None


# -- The raw schema -----------------------------------------------------------------------------------------------------
# The OTLP trace messages once more, same field numbers, with every inner message and string declared as ``bytes``.
# Bytes mean the same read by this schema and by the official one; this one returns attributes, and whole spans if
# needed, as raw slices. Two things follow. A damaged span or a text that is not UTF-8 costs only its span and not its
# batch, because the batch is parsed without looking into it. And nothing is decoded twice: measured on an 8.8 KB
# span, 12 us against 29 us with the official classes. ``test_otlp`` checks that both schemas agree.
#
# The classes below are the schema: each field is annotated with its number and, for an integer, its wire type.
#
# Source: opentelemetry-proto v1, ``trace.proto``.


_PACKAGE: Final = "freezeframe.raw_otlp"
_M = TypeVar("_M")


class RawEvent(Protocol):
    """``Span.Event``."""

    time_unix_nano: Annotated[int, 1, "fixed64"]
    name: Annotated[bytes, 2]
    attributes: Annotated[Sequence[bytes], 3]
    dropped_attributes_count: Annotated[int, 4, "uint32"]


class RawLink(Protocol):
    """``Span.Link``."""

    trace_id: Annotated[bytes, 1]
    span_id: Annotated[bytes, 2]
    trace_state: Annotated[bytes, 3]
    attributes: Annotated[Sequence[bytes], 4]
    dropped_attributes_count: Annotated[int, 5, "uint32"]
    flags: Annotated[int, 6, "fixed32"]


class RawStatus(Protocol):
    """``Status``."""

    message: Annotated[bytes, 2]
    code: Annotated[int, 3, "int32"]


class RawSpan(Protocol):
    """``Span``."""

    trace_id: Annotated[bytes, 1]
    span_id: Annotated[bytes, 2]
    trace_state: Annotated[bytes, 3]
    parent_span_id: Annotated[bytes, 4]
    name: Annotated[bytes, 5]
    kind: Annotated[int, 6, "int32"]
    start_time_unix_nano: Annotated[int, 7, "fixed64"]
    end_time_unix_nano: Annotated[int, 8, "fixed64"]
    attributes: Annotated[Sequence[bytes], 9]
    dropped_attributes_count: Annotated[int, 10, "uint32"]
    events: Annotated[Sequence[bytes], 11]
    dropped_events_count: Annotated[int, 12, "uint32"]
    links: Annotated[Sequence[bytes], 13]
    dropped_links_count: Annotated[int, 14, "uint32"]
    status: Annotated[bytes, 15]
    flags: Annotated[int, 16, "fixed32"]


class RawScope(Protocol):
    """``InstrumentationScope``."""

    name: Annotated[bytes, 1]
    version: Annotated[bytes, 2]
    attributes: Annotated[Sequence[bytes], 3]
    dropped_attributes_count: Annotated[int, 4, "uint32"]


class RawResource(Protocol):
    """``Resource``."""

    attributes: Annotated[Sequence[bytes], 1]
    dropped_attributes_count: Annotated[int, 2, "uint32"]


class RawScopeSpans(Protocol):
    """``ScopeSpans``."""

    scope: Annotated[bytes, 1]
    spans: Annotated[Sequence[RawSpan], 2]
    schema_url: Annotated[bytes, 3]


class RawResourceSpans(Protocol):
    """``ResourceSpans``."""

    resource: Annotated[bytes, 1]
    scope_spans: Annotated[Sequence[RawScopeSpans], 2]
    schema_url: Annotated[bytes, 3]


class RawRequest(Protocol):
    """``ExportTraceServiceRequest``."""

    resource_spans: Annotated[Sequence[RawResourceSpans], 1]


class ScopeSlices(Protocol):
    """``ScopeSpans`` with raw spans, for a request in which one span does not parse."""

    scope: Annotated[bytes, 1]
    spans: Annotated[Sequence[bytes], 2]
    schema_url: Annotated[bytes, 3]


class ResourceSlices(Protocol):
    """``ResourceSpans`` with raw spans."""

    resource: Annotated[bytes, 1]
    scope_spans: Annotated[Sequence[ScopeSlices], 2]
    schema_url: Annotated[bytes, 3]


class SlicedRequest(Protocol):
    """``ExportTraceServiceRequest`` with raw spans."""

    resource_spans: Annotated[Sequence[ResourceSlices], 1]


_MESSAGES: Final = (
    *(RawEvent, RawLink, RawStatus, RawSpan, RawScope, RawResource, RawScopeSpans, RawResourceSpans, RawRequest),
    *(ScopeSlices, ResourceSlices, SlicedRequest),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsers:
    """The parser of each message. All but `key_value` use this schema; a request is read down to its spans' attributes."""

    request: Callable[[bytes], RawRequest]
    sliced_request: Callable[[bytes], SlicedRequest]
    span: Callable[[bytes], RawSpan]
    event: Callable[[bytes], RawEvent]
    link: Callable[[bytes], RawLink]
    status: Callable[[bytes], RawStatus]
    scope: Callable[[bytes], RawScope]
    resource: Callable[[bytes], RawResource]
    key_value: Callable[[bytes], KeyValue]
    error: type[Exception]
    """Raised if the bytes are not a valid message."""


@cache
def parsers() -> Parsers:
    """Return the parsers. The first call imports protobuf; importing the schemas does not."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue

    file = descriptor_pb2.FileDescriptorProto(name="freezeframe_raw_otlp.proto", package=_PACKAGE, syntax="proto3")
    for message in _MESSAGES:
        _raw_describe(message, file.message_type.add(name=message.__name__))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # the stubs lack DescriptorPool.Add

    def of(message: type[_M]) -> Callable[[bytes], _M]:
        found = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{message.__name__}"))
        return cast("Any", found).FromString

    return Parsers(
        request=of(RawRequest),
        sliced_request=of(SlicedRequest),
        span=of(RawSpan),
        event=of(RawEvent),
        link=of(RawLink),
        status=of(RawStatus),
        scope=of(RawScope),
        resource=of(RawResource),
        key_value=KeyValue.FromString,
        error=DecodeError,
    )


def _raw_describe(message: type, made: DescriptorProto) -> None:
    for name, annotated in get_type_hints(message, include_extras=True).items():
        held, number, *wire = get_args(annotated)
        repeated = get_origin(held) is not None
        if repeated:
            (held,) = get_args(held)
        field: Any = made.field.add(name=name, number=number, label="LABEL_REPEATED" if repeated else "LABEL_OPTIONAL")
        if held in _MESSAGES:
            field.type, field.type_name = "TYPE_MESSAGE", f".{_PACKAGE}.{held.__name__}"
        else:
            field.type = f"TYPE_{(wire or ['bytes'])[0].upper()}"
