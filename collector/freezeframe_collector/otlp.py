"""OTLP protobuf -> SpanRecord, and SpanRecord -> OTLP protobuf.

Decoding looks at each span on its own: a span that cannot be read is reported as a fault beside the spans that can, so that
one bad span never takes its batch with it. Encoding gives each span as a piece of its own (`EncodedSpan`), which the log
can leave out (a duplicate) without encoding the rest again.

The raw schema and why it is there: `otlp_schema`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import xxhash
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from freezeframe_collector import otlp_schema as raw
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import AttributeValue, Event, Link, Resource, Scope, SpanKind, SpanRecord, StatusCode

_SMALL: Final = 96
"""Attributes up to this many raw bytes are remembered after the first decode: model names, operation names, small numbers."""
_REMEMBERED: Final = 50_000
_TIME_LIMIT: Final = 1 << 63
_KINDS: Final = tuple(SpanKind)
_STATUSES: Final = tuple(StatusCode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one span may hold. A span over a limit is rejected by name; its batch lands."""

    span_bytes: int = 48 << 20
    attributes: int = 4_096
    events: int = 10_000
    links: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanFault:
    """A span that could not be read. Holds ids where they could be read, never content."""

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
        WireError: the body is no such message; nothing of it could be read.
    """
    limits = limits or Limits()
    decoded = Decoded()
    for resource_spans in _parse(body, limits).resource_spans:
        resources: list[Resource] = []
        for scope_spans in resource_spans.scope_spans:
            try:
                if not resources:
                    resources.append(_resource(resource_spans.resource, resource_spans.schema_url))
                scope = _scope(scope_spans.scope, scope_spans.schema_url)
            except (DecodeError, UnicodeDecodeError, RecursionError) as error:
                fault = SpanFault(reason="unreadable resource or scope", detail=_describe(error))
                decoded.faults.extend([fault] * len(scope_spans.spans))
                continue
            for span in scope_spans.spans:
                _decode_into(decoded, span, resources[0], scope, limits)
    return decoded


def _parse(body: bytes, limits: Limits) -> raw.RawRequest | raw.SlicedRequest:
    try:
        # A request smaller than the limit of one span needs no look at the size of each.
        if len(body) <= limits.span_bytes:
            return raw.parse_request(body)
    except DecodeError:
        pass  # one span of it may be at fault: the other schema leaves spans to be parsed one by one
    try:
        return raw.parse_sliced_request(body)
    except DecodeError as error:
        raise WireError(f"OTLP traces: {len(body)} bytes that are no ExportTraceServiceRequest ({error})") from None


def _decode_into(decoded: Decoded, found: raw.RawSpan | bytes, resource: Resource, scope: Scope, limits: Limits) -> None:
    trace_id = span_id = ""
    try:
        if isinstance(found, bytes):
            if len(found) > limits.span_bytes:
                raise _SpanRejectedError("over limit", f"the span has {len(found)} bytes, the limit is {limits.span_bytes}")
            span = raw.parse_span(found)
        else:
            span = found
        trace_id, span_id = span.trace_id.hex(), span.span_id.hex()
        decoded.spans.append(_span(span, trace_id, span_id, resource, scope, limits))
    except _SpanRejectedError as error:
        fault = SpanFault(reason=error.reason, detail=error.detail, trace_id=trace_id[:32], span_id=span_id[:16])
        decoded.faults.append(fault)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        fault = SpanFault(reason="unreadable span", detail=_describe(error), trace_id=trace_id[:32], span_id=span_id[:16])
        decoded.faults.append(fault)


def _describe(error: Exception) -> str:
    # The message of a UnicodeDecodeError quotes the bytes; those are content.
    if isinstance(error, UnicodeDecodeError):
        return "a text is not UTF-8"
    return "the bytes are no such protobuf message" if isinstance(error, DecodeError) else "nested too deeply"


def _span(span: raw.RawSpan, trace_id: str, span_id: str, resource: Resource, scope: Scope, limits: Limits) -> SpanRecord:
    _check(span, trace_id, span_id, limits)
    status = raw.parse_status(span.status) if span.status else None
    events, links = span.events, span.links
    return SpanRecord(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=span.parent_span_id.hex(),
        name=span.name.decode(),
        start_time_unix_nano=span.start_time_unix_nano,
        end_time_unix_nano=span.end_time_unix_nano,
        kind=_KINDS[span.kind] if 0 <= span.kind < len(_KINDS) else SpanKind.UNSPECIFIED,
        trace_state=span.trace_state.decode(),
        flags=span.flags,
        attributes=_attributes(span.attributes),
        status_code=_STATUSES[status.code] if status is not None and 0 <= status.code < len(_STATUSES) else StatusCode.UNSET,
        status_message=status.message.decode() if status is not None else "",
        events=tuple(map(_event, events)) if events else (),
        links=tuple(map(_link, links)) if links else (),
        resource=resource,
        scope=scope,
        dropped_attributes_count=span.dropped_attributes_count,
        dropped_events_count=span.dropped_events_count,
        dropped_links_count=span.dropped_links_count,
    )


def _check(span: raw.RawSpan, trace_id: str, span_id: str, limits: Limits) -> None:
    if len(trace_id) != 32 or not trace_id.strip("0"):
        raise _SpanRejectedError("invalid trace id", f"found {len(span.trace_id)} bytes, expected 16 that are not all zero")
    if len(span_id) != 16 or not span_id.strip("0"):
        raise _SpanRejectedError("invalid span id", f"found {len(span.span_id)} bytes, expected 8 that are not all zero")
    if len(span.parent_span_id) not in (0, 8):
        raise _SpanRejectedError("invalid parent span id", f"found {len(span.parent_span_id)} bytes, expected 0 or 8")
    if span.start_time_unix_nano >= _TIME_LIMIT or span.end_time_unix_nano >= _TIME_LIMIT:
        raise _SpanRejectedError("invalid time", "a time lies after the year 2262")
    counts = (
        ("attributes", len(span.attributes), limits.attributes),
        ("events", len(span.events), limits.events),
        ("links", len(span.links), limits.links),
    )
    for what, found, limit in counts:
        if found > limit:
            raise _SpanRejectedError("over limit", f"the span has {found} {what}, the limit is {limit}")


def _event(data: bytes) -> Event:
    event = raw.parse_event(data)
    return Event(
        time_unix_nano=event.time_unix_nano,
        name=event.name.decode(),
        attributes=_attributes(event.attributes),
        dropped_attributes_count=event.dropped_attributes_count,
    )


def _link(data: bytes) -> Link:
    link = raw.parse_link(data)
    return Link(
        trace_id=link.trace_id.hex(),
        span_id=link.span_id.hex(),
        trace_state=link.trace_state.decode(),
        attributes=_attributes(link.attributes),
        dropped_attributes_count=link.dropped_attributes_count,
        flags=link.flags,
    )


def _resource(data: bytes, schema_url: bytes) -> Resource:
    resource = raw.parse_resource(data)
    return Resource(
        attributes=_attributes(resource.attributes),
        dropped_attributes_count=resource.dropped_attributes_count,
        schema_url=schema_url.decode(),
    )


def _scope(data: bytes, schema_url: bytes) -> Scope:
    scope = raw.parse_scope(data)
    return Scope(
        name=scope.name.decode(),
        version=scope.version.decode(),
        attributes=_attributes(scope.attributes),
        dropped_attributes_count=scope.dropped_attributes_count,
        schema_url=schema_url.decode(),
    )


# -- attributes ---------------------------------------------------------------------------------------------------------

_decoded: dict[bytes, tuple[str, AttributeValue]] = {}
_encoded: dict[tuple[str, str], bytes] = {}


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
                # The view saves a copy of a text that may be megabytes long.
                return data[2:value_at].decode(), str(memoryview(data)[text_at:], "utf-8")
    pair = KeyValue.FromString(data)
    return pair.key, decode_value(pair.value)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at` and the place after it; a number cut short reads as one that fits no message."""
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


# -- encoding -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedSpan:
    """A span's OTLP bytes with the bytes of its resource and scope, each once per batch."""

    key: int
    """xxh3-64 over all three: equal keys are the same span sent twice."""
    span: bytes
    scope: bytes
    """The fields of ``ScopeSpans`` but its spans."""
    resource: bytes
    """The fields of ``ResourceSpans`` but its scopes."""

    @property
    def size(self) -> int:
        """Return the bytes of the span itself."""
        return len(self.span)


def encode_spans(spans: Iterable[SpanRecord]) -> list[EncodedSpan]:
    """Return the spans as pieces for `join_spans`.

    Raises:
        WireError: a value has no OTLP form (a lone surrogate in a text, an integer over 64 bits).
    """
    scopes: dict[int, tuple[Scope, bytes]] = {}
    resources: dict[int, tuple[Resource, bytes]] = {}
    encoded: list[EncodedSpan] = []
    for span in spans:
        try:
            # By identity: the decoder makes one Resource and Scope per batch; holding them keeps the ids from being reused.
            scope = scopes.get(id(span.scope))
            if scope is None:
                scope = scopes[id(span.scope)] = (span.scope, _encode_scope(span.scope))
            resource = resources.get(id(span.resource))
            if resource is None:
                resource = resources[id(span.resource)] = (span.resource, _encode_resource(span.resource))
            data = _encode_span(span)
        except (UnicodeEncodeError, struct.error, OverflowError, ValueError) as error:
            raise WireError(f"span {span.span_id}: a value has no OTLP form ({type(error).__name__})") from None
        key = xxhash.xxh3_64_intdigest(data, xxhash.xxh3_64_intdigest(resource[1] + scope[1]))
        encoded.append(EncodedSpan(key=key, span=data, scope=scope[1], resource=resource[1]))
    return encoded


def join_spans(spans: Sequence[EncodedSpan]) -> bytes:
    """Return an ``ExportTraceServiceRequest``; neighbours of one resource and scope share it."""
    grouped: dict[bytes, dict[bytes, list[bytes]]] = {}
    for span in spans:
        grouped.setdefault(span.resource, {}).setdefault(span.scope, []).append(_delimited(b"\x12", span.span))
    parts: list[bytes] = []
    for resource, scopes in grouped.items():
        inner = [resource]
        for scope, members in scopes.items():
            length = len(scope) + sum(map(len, members))
            inner.append(b"\x12" + _varint(length) + scope)
            inner.extend(members)
        parts.append(b"\x0a" + _varint(sum(map(len, inner))))
        parts.extend(inner)
    return b"".join(parts)


def encode_traces(spans: Iterable[SpanRecord]) -> bytes:
    """Return the spans as an ``ExportTraceServiceRequest``.

    Raises:
        WireError: as `encode_spans`.
    """
    return join_spans(encode_spans(spans))


def _encode_span(span: SpanRecord) -> bytes:
    parts = [b"\x0a\x10", bytes.fromhex(span.trace_id), b"\x12\x08", bytes.fromhex(span.span_id)]
    if span.trace_state:
        parts.append(_delimited(b"\x1a", span.trace_state.encode()))
    if span.parent_span_id:
        parts += (b"\x22\x08", bytes.fromhex(span.parent_span_id))
    parts.append(_delimited(b"\x2a", span.name.encode()))
    parts.append(b"\x30" + _varint(span.kind))
    parts.append(struct.pack("<BQBQ", 0x39, span.start_time_unix_nano, 0x41, span.end_time_unix_nano))
    _encode_attributes(parts, b"\x4a", span.attributes)
    _append_count(parts, b"\x50", span.dropped_attributes_count)
    parts += [_delimited(b"\x5a", _encode_event(event)) for event in span.events]
    _append_count(parts, b"\x60", span.dropped_events_count)
    parts += [_delimited(b"\x6a", _encode_link(link)) for link in span.links]
    _append_count(parts, b"\x70", span.dropped_links_count)
    if span.status_code or span.status_message:
        message = _delimited(b"\x12", span.status_message.encode()) if span.status_message else b""
        parts.append(_delimited(b"\x7a", message + b"\x18" + _varint(span.status_code)))
    if span.flags:
        parts.append(b"\x85\x01" + struct.pack("<I", span.flags))
    return b"".join(parts)


def _encode_event(event: Event) -> bytes:
    parts = [b"\x09", struct.pack("<Q", event.time_unix_nano), _delimited(b"\x12", event.name.encode())]
    _encode_attributes(parts, b"\x1a", event.attributes)
    _append_count(parts, b"\x20", event.dropped_attributes_count)
    return b"".join(parts)


def _encode_link(link: Link) -> bytes:
    parts = [_delimited(b"\x0a", bytes.fromhex(link.trace_id)), _delimited(b"\x12", bytes.fromhex(link.span_id))]
    if link.trace_state:
        parts.append(_delimited(b"\x1a", link.trace_state.encode()))
    _encode_attributes(parts, b"\x22", link.attributes)
    _append_count(parts, b"\x28", link.dropped_attributes_count)
    if link.flags:
        parts.append(b"\x35" + struct.pack("<I", link.flags))
    return b"".join(parts)


def _encode_scope(scope: Scope) -> bytes:
    parts: list[bytes] = []
    if scope.name:
        parts.append(_delimited(b"\x0a", scope.name.encode()))
    if scope.version:
        parts.append(_delimited(b"\x12", scope.version.encode()))
    _encode_attributes(parts, b"\x1a", scope.attributes)
    _append_count(parts, b"\x20", scope.dropped_attributes_count)
    url = _delimited(b"\x1a", scope.schema_url.encode()) if scope.schema_url else b""
    return _delimited(b"\x0a", b"".join(parts)) + url


def _encode_resource(resource: Resource) -> bytes:
    parts: list[bytes] = []
    _encode_attributes(parts, b"\x0a", resource.attributes)
    _append_count(parts, b"\x10", resource.dropped_attributes_count)
    url = _delimited(b"\x1a", resource.schema_url.encode()) if resource.schema_url else b""
    return _delimited(b"\x0a", b"".join(parts)) + url


def _encode_attributes(parts: list[bytes], tag: bytes, attributes: Mapping[str, AttributeValue]) -> None:
    for key, value in attributes.items():
        kind = type(value)
        if kind is str:
            # `value` is a str here; the cast tells the type checker what `kind` told us.
            text = cast("str", value)
            if len(text) > _SMALL:
                parts += (tag, *_encode_text_pair(key, text.encode()))
                continue
            pair = _encoded.get((key, text))
            if pair is None:
                pair = b"".join(_encode_text_pair(key, text.encode()))
                if len(_encoded) >= _REMEMBERED:
                    _encoded.clear()
                _encoded[key, text] = pair
            parts += (tag, pair)
        else:
            pair = _encode_pair(key, value)
            parts += (tag, _varint(len(pair)), pair)


def _encode_text_pair(key: str, text: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the length and head of a ``KeyValue`` with a text, the text's own head, and the text: megabytes copied once."""
    name = _delimited(b"\x0a", key.encode())
    head = b"\x0a" + _varint(len(text))
    inner = len(head) + len(text)
    name += b"\x12" + _varint(inner)
    return _varint(len(name) + inner) + name, head, text


def _encode_pair(key: str, value: AttributeValue) -> bytes:
    return _delimited(b"\x0a", key.encode()) + _delimited(b"\x12", _encode_value(value))


def _encode_value(value: AttributeValue) -> bytes:
    match value:
        case str():
            return _delimited(b"\x0a", value.encode())
        case bool():
            return b"\x10\x01" if value else b"\x10\x00"
        case int():
            return b"\x18" + _varint(struct.unpack("<Q", struct.pack("<q", value))[0])
        case float():
            return b"\x21" + struct.pack("<d", value)
        case None:
            return b""
        case bytes():
            return _delimited(b"\x3a", value)
        case Mapping():
            pairs = cast("Mapping[str, AttributeValue]", value)
            body = b"".join(_delimited(b"\x0a", _encode_pair(key, item)) for key, item in pairs.items())
            return _delimited(b"\x32", body)
        case _:
            return _delimited(b"\x2a", b"".join(_delimited(b"\x0a", _encode_value(item)) for item in value))


def _append_count(parts: list[bytes], tag: bytes, count: int) -> None:
    if count:
        parts.append(tag + _varint(count))


_VARINTS: Final = tuple(bytes((n,)) if n < 0x80 else bytes((n & 0x7F | 0x80, n >> 7)) for n in range(1 << 14))


def _varint(value: int) -> bytes:
    """Return the base-128 form of a number that is not negative."""
    if value < len(_VARINTS):
        return _VARINTS[value]
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _delimited(tag: bytes, data: bytes) -> bytes:
    return tag + _varint(len(data)) + data
