"""AWS event stream framing (``application/vnd.amazon.eventstream``): bytes to messages and back, with both CRCs.

A message is ``total_length u32, headers_length u32, prelude crc32 u32, headers, payload, message crc32 u32``, big-endian.
`parse` stops when the bytes stop making sense (a cut connection, damage) and keeps what came before; it never raises.

Source: https://docs.aws.amazon.com/transcribe/latest/dg/event-stream.html
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

HeaderValue = bool | int | bytes | str
"""Integers are written as 64-bit; timestamps and UUIDs are read as integers and bytes."""

CONTENT_TYPE: Final = "application/vnd.amazon.eventstream"
_PRELUDE: Final = struct.Struct(">II")
_CRC: Final = struct.Struct(">I")
_MIN_BYTES: Final = _PRELUDE.size + 2 * _CRC.size
_MAX_BYTES: Final = 24 * 1024 * 1024
"""Limit of one message, as in botocore."""
_INTEGERS: Final = {2: 1, 3: 2, 4: 4, 5: 8, 8: 8}
"""Header type -> size: byte, short, integer, long, timestamp."""


def _no_headers() -> Mapping[str, HeaderValue]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMessage:
    """One message, and its byte range ``[start, end)`` in the body."""

    headers: Mapping[str, HeaderValue] = field(default_factory=_no_headers)
    payload: bytes = b""
    start: int = 0
    end: int = 0


def parse(body: bytes) -> list[EventMessage]:
    """Return the whole, undamaged messages from the start of `body`."""
    messages: list[EventMessage] = []
    position = 0
    while (message := _read_message(body, position)) is not None:
        messages.append(message)
        position = message.end
    return messages


def encode(messages: Iterable[EventMessage]) -> bytes:
    """Return the messages as a body; the byte ranges they carry are ignored."""
    return b"".join(_write_message(message) for message in messages)


def is_cut(rest: bytes) -> bool:
    """Return whether the bytes after the last message begin one that never came whole; otherwise they are damaged."""
    if len(rest) < _MIN_BYTES:
        return True
    total, headers_size = _PRELUDE.unpack_from(rest)
    (prelude_crc,) = _CRC.unpack_from(rest, _PRELUDE.size)
    return prelude_crc == zlib.crc32(rest[: _PRELUDE.size]) and total >= _MIN_BYTES + headers_size and total > len(rest)


def with_payload(message: bytes, payload: bytes) -> bytes:
    """Return a message with another payload and unchanged headers."""
    _, headers_size = _PRELUDE.unpack_from(message)
    headers_start = _PRELUDE.size + _CRC.size
    return _framed(message[headers_start : headers_start + headers_size], payload)


def _read_message(body: bytes, start: int) -> EventMessage | None:
    if len(body) - start < _MIN_BYTES:
        return None
    total, headers_size = _PRELUDE.unpack_from(body, start)
    end = start + total
    headers_start = start + _PRELUDE.size + _CRC.size
    payload_start = headers_start + headers_size
    if not _MIN_BYTES <= total <= _MAX_BYTES or payload_start > end - _CRC.size or end > len(body):
        return None
    (prelude_crc,) = _CRC.unpack_from(body, start + _PRELUDE.size)
    (message_crc,) = _CRC.unpack_from(body, end - _CRC.size)
    if zlib.crc32(body[start : start + _PRELUDE.size]) != prelude_crc:
        return None
    if zlib.crc32(body[start : end - _CRC.size]) != message_crc:
        return None
    return EventMessage(
        headers=_read_headers(body[headers_start:payload_start]),
        payload=body[payload_start : end - _CRC.size],
        start=start,
        end=end,
    )


def _read_headers(data: bytes) -> dict[str, HeaderValue]:
    """Read ``name length u8, name, type u8, value`` until the bytes end or stop making sense."""
    headers: dict[str, HeaderValue] = {}
    position = 0
    while position < len(data):
        kind_at = position + 1 + data[position]
        if kind_at >= len(data):
            break
        name = data[position + 1 : kind_at].decode("utf-8", "replace")
        kind = data[kind_at]
        position = kind_at + 1
        if kind in (0, 1):
            headers[name] = kind == 0
            continue
        if kind in (6, 7):
            size = int.from_bytes(data[position : position + 2])
            position += 2
        else:
            size = _INTEGERS.get(kind, 16 if kind == 9 else -1)
        if size < 0 or position + size > len(data):
            break
        value = data[position : position + size]
        position += size
        if kind == 7:
            headers[name] = value.decode("utf-8", "replace")
        elif kind in _INTEGERS:
            headers[name] = int.from_bytes(value, signed=True)
        else:
            headers[name] = value
    return headers


def _write_message(message: EventMessage) -> bytes:
    return _framed(b"".join(_write_header(name, value) for name, value in message.headers.items()), message.payload)


def _framed(headers: bytes, payload: bytes) -> bytes:
    prelude = _PRELUDE.pack(_MIN_BYTES + len(headers) + len(payload), len(headers))
    head = prelude + _CRC.pack(zlib.crc32(prelude)) + headers + payload
    return head + _CRC.pack(zlib.crc32(head))


def _write_header(name: str, value: HeaderValue) -> bytes:
    encoded = name.encode()
    head = bytes([len(encoded)]) + encoded
    match value:
        case bool():
            return head + (b"\0" if value else b"\1")
        case int():
            return head + b"\5" + value.to_bytes(8, signed=True)
        case bytes():
            return head + b"\6" + len(value).to_bytes(2) + value
        case str():
            text = value.encode()
            return head + b"\7" + len(text).to_bytes(2) + text
