"""SpanRecord -> OTLP protobuf, by hand: the wire form is simple, and building messages first costs several times as much.

Each span is a piece of its own (`EncodedSpan`), which the log can leave out (a duplicate) without encoding the rest again.

Source: https://protobuf.dev/programming-guides/encoding, opentelemetry-proto v1 ``trace.proto``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import xxhash

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import AttributeValue, Event, Link, Resource, Scope, SpanRecord

_SMALL: Final = 96
"""Texts up to this many characters are remembered after the first encoding: model names, operation names."""
_REMEMBERED: Final = 50_000
_encoded: dict[tuple[str, str], bytes] = {}


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
