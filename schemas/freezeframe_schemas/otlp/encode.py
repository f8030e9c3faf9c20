"""SpanRecord -> OTLP protobuf, by hand: the wire form is simple, and building messages first costs several times as much.

A value without an OTLP form (a lone surrogate in a text, an integer over 64 bits) raises `UNENCODABLE` from the encoders of a
part. The caller decides what to do: the agent's side repairs the value, the collector refuses it.

Source: https://protobuf.dev/programming-guides/encoding, opentelemetry-proto v1 ``trace.proto``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final, TypeVar, cast

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import AttributeValue, Event, Link, Resource, Scope, SpanRecord

UNENCODABLE: Final = (UnicodeEncodeError, struct.error, OverflowError, ValueError)

_SMALL: Final = 96
"""Texts up to this many characters are remembered after the first encoding: model names, operation names."""
_REMEMBERED: Final = 16_384
HEAD_BYTES: Final = 4_096
"""Resources and scopes up to this size are remembered across requests."""
_HEADS_REMEMBERED: Final = 2_048
_H = TypeVar("_H", Resource, Scope)
_heads: dict[int, tuple[Resource | Scope, bytes]] = {}
_INT_LIMIT: Final = 1 << 63
_MASK: Final = (1 << 64) - 1
_encoded: dict[tuple[str, str], bytes] = {}
_numbered: dict[tuple[str, int], bytes] = {}
"""Whole ``KeyValue`` of numbers that are remembered, with their length in front: ports, statuses, counts."""
_FEW: Final = 1 << 14


def encode_traces(spans: Iterable[SpanRecord]) -> bytes:
    """Return the spans as an ``ExportTraceServiceRequest``.

    Raises:
        WireError: as `encode_parts`.
    """
    return b"".join(request_parts(map(encode_parts, spans)))


def encode_parts(span: SpanRecord) -> tuple[bytes, bytes, bytes]:
    """Return resource, scope and span for `request_parts`. Resources and scopes are remembered by identity.

    Raises:
        WireError: a value has no OTLP form (a lone surrogate in a text, an integer over 64 bits).
    """
    try:
        return _head(span.resource, encode_resource), _head(span.scope, encode_scope), encode_span(span)
    except UNENCODABLE as error:
        raise WireError(f"span {span.span_id}: a value has no OTLP form ({type(error).__name__})") from None


def request_parts(spans: Iterable[tuple[bytes, bytes, bytes]]) -> list[bytes]:
    """Return an ``ExportTraceServiceRequest`` in parts to be written one after the other, including the spans uncopied.

    Each span is given with its resource and scope; spans with the same resource and scope are grouped.
    """
    grouped: dict[bytes, dict[bytes, list[bytes]]] = {}
    for resource, scope, span in spans:
        grouped.setdefault(resource, {}).setdefault(scope, []).extend((b"\x12" + varint(len(span)), span))
    parts: list[bytes] = []
    for resource, scopes in grouped.items():
        inner = [resource]
        for scope, members in scopes.items():
            length = len(scope) + sum(map(len, members))
            inner.append(b"\x12" + varint(length) + scope)
            inner.extend(members)
        parts.append(b"\x0a" + varint(sum(map(len, inner))))
        parts.extend(inner)
    return parts


def _head(value: _H, encode: Callable[[_H], bytes]) -> bytes:
    # By identity: the decoder returns a sender's resource and scope as the same objects each time.
    found = _heads.get(id(value))
    if found is None:
        found = (value, encode(value))
        if len(found[1]) <= HEAD_BYTES:
            if len(_heads) >= _HEADS_REMEMBERED:
                _heads.clear()
            # Holding the value keeps another object from getting its id.
            _heads[id(value)] = found
    return found[1]


def encode_span(span: SpanRecord) -> bytes:
    """Return the fields of a ``Span``."""
    parts = [b"\x0a\x10", bytes.fromhex(span.trace_id), b"\x12\x08", bytes.fromhex(span.span_id)]
    if span.trace_state:
        parts.append(delimited(b"\x1a", span.trace_state.encode()))
    if span.parent_span_id:
        parts += (b"\x22\x08", bytes.fromhex(span.parent_span_id))
    parts.append(delimited(b"\x2a", span.name.encode()))
    parts.append(b"\x30" + varint(span.kind))
    parts.append(struct.pack("<BQBQ", 0x39, span.start_time_unix_nano, 0x41, span.end_time_unix_nano))
    _encode_attributes(parts, b"\x4a", span.attributes)
    _append_count(parts, b"\x50", span.dropped_attributes_count)
    parts += [delimited(b"\x5a", _encode_event(event)) for event in span.events]
    _append_count(parts, b"\x60", span.dropped_events_count)
    parts += [delimited(b"\x6a", _encode_link(link)) for link in span.links]
    _append_count(parts, b"\x70", span.dropped_links_count)
    if span.status_code or span.status_message:
        message = delimited(b"\x12", span.status_message.encode()) if span.status_message else b""
        parts.append(delimited(b"\x7a", message + b"\x18" + varint(span.status_code)))
    if span.flags:
        parts.append(b"\x85\x01" + struct.pack("<I", span.flags))
    return b"".join(parts)


def _encode_event(event: Event) -> bytes:
    parts = [b"\x09", struct.pack("<Q", event.time_unix_nano), delimited(b"\x12", event.name.encode())]
    _encode_attributes(parts, b"\x1a", event.attributes)
    _append_count(parts, b"\x20", event.dropped_attributes_count)
    return b"".join(parts)


def _encode_link(link: Link) -> bytes:
    parts = [delimited(b"\x0a", bytes.fromhex(link.trace_id)), delimited(b"\x12", bytes.fromhex(link.span_id))]
    if link.trace_state:
        parts.append(delimited(b"\x1a", link.trace_state.encode()))
    _encode_attributes(parts, b"\x22", link.attributes)
    _append_count(parts, b"\x28", link.dropped_attributes_count)
    if link.flags:
        parts.append(b"\x35" + struct.pack("<I", link.flags))
    return b"".join(parts)


def encode_scope(scope: Scope) -> bytes:
    """Return the fields of ``ScopeSpans`` except its spans."""
    parts: list[bytes] = []
    if scope.name:
        parts.append(delimited(b"\x0a", scope.name.encode()))
    if scope.version:
        parts.append(delimited(b"\x12", scope.version.encode()))
    _encode_attributes(parts, b"\x1a", scope.attributes)
    _append_count(parts, b"\x20", scope.dropped_attributes_count)
    url = delimited(b"\x1a", scope.schema_url.encode()) if scope.schema_url else b""
    return delimited(b"\x0a", b"".join(parts)) + url


def encode_resource(resource: Resource) -> bytes:
    """Return the fields of ``ResourceSpans`` except its scopes."""
    parts: list[bytes] = []
    _encode_attributes(parts, b"\x0a", resource.attributes)
    _append_count(parts, b"\x10", resource.dropped_attributes_count)
    url = delimited(b"\x1a", resource.schema_url.encode()) if resource.schema_url else b""
    return delimited(b"\x0a", b"".join(parts)) + url


def _encode_attributes(parts: list[bytes], tag: bytes, attributes: Mapping[str, AttributeValue]) -> None:
    for item in attributes.items():
        key, value = item
        if type(value) is str:
            if len(value) > _SMALL:
                parts.append(tag)
                parts += _encode_text_pair(key, value.encode())
                continue
            pair = _encoded.get(item)  # pyright: ignore[reportArgumentType]  # of a text, as `value` is
            if pair is None:
                pair = b"".join(_encode_text_pair(key, value.encode()))
                if len(_encoded) >= _REMEMBERED:
                    _encoded.clear()
                _encoded[key, value] = pair
            parts += (tag, pair)
        elif type(value) is int and 0 <= value < _FEW:
            pair = _numbered.get(item)  # pyright: ignore[reportArgumentType]  # of a number, as `value` is
            if pair is None:
                pair = _encode_pair(key, value)
                pair = varint(len(pair)) + pair
                if len(_numbered) >= _REMEMBERED:
                    _numbered.clear()
                _numbered[key, value] = pair
            parts += (tag, pair)
        else:
            pair = _encode_pair(key, value)
            parts += (tag, varint(len(pair)), pair)


def _encode_text_pair(key: str, text: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the length and head of a ``KeyValue`` with a text, the text's head, and the text: megabytes are copied once."""
    head = b"\x0a" + varint(len(text))
    inner = len(head) + len(text)
    name = _encode_key(key) + b"\x12" + varint(inner)
    return varint(len(name) + inner) + name, head, text


def _encode_pair(key: str, value: AttributeValue) -> bytes:
    return _encode_key(key) + delimited(b"\x12", _encode_value(value))


@lru_cache(_REMEMBERED)
def _encode_key(key: str) -> bytes:
    return delimited(b"\x0a", key.encode())


def _encode_value(value: AttributeValue) -> bytes:
    match value:
        case str():
            return delimited(b"\x0a", value.encode())
        case bool():
            return b"\x10\x01" if value else b"\x10\x00"
        case int():
            if not -_INT_LIMIT <= value < _INT_LIMIT:
                raise OverflowError("an integer over 64 bits")
            return b"\x18" + varint(value & _MASK)
        case float():
            return b"\x21" + struct.pack("<d", value)
        case None:
            return b""
        case bytes():
            return delimited(b"\x3a", value)
        case _ if type(value) is tuple or not isinstance(value, Mapping):  # to ask for an abstract class takes a while
            return delimited(b"\x2a", b"".join([_encode_item(item) for item in value]))
        case _:
            pairs = cast("Mapping[str, AttributeValue]", value)
            body = b"".join(delimited(b"\x0a", _encode_pair(key, item)) for key, item in pairs.items())
            return delimited(b"\x32", body)


def _encode_item(value: AttributeValue) -> bytes:
    """Return an item of an ``ArrayValue``: most are the sizes and times of chunks."""
    if type(value) is int and 0 <= value < _INT_LIMIT:
        data = b"\x18" + varint(value)
        return b"\x0a" + _VARINTS[len(data)] + data
    return delimited(b"\x0a", _encode_value(value))


def _append_count(parts: list[bytes], tag: bytes, count: int) -> None:
    if count:
        parts.append(tag + varint(count))


_VARINTS: Final = tuple(bytes((n,)) if n < 0x80 else bytes((n & 0x7F | 0x80, n >> 7)) for n in range(_FEW))


def varint(value: int) -> bytes:
    """Return the base-128 form of a number that is not negative."""
    if value < _FEW:
        return _VARINTS[value]
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def delimited(tag: bytes, data: bytes) -> bytes:
    """Return a field of bytes, a text or a message: tag, length, data."""
    length = len(data)
    return tag + (_VARINTS[length] if length < _FEW else varint(length)) + data
