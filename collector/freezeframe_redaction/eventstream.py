"""The binary framing of AWS event streams (Bedrock): frames apart, and together again with their lengths and checksums.

A frame: total length, length of headers, CRC of these; headers; payload; CRC of all before. Integers are big-endian, 32 bits.

Source: AWS, "Amazon Event Stream specification" (Smithy), message format; CRC-32 as in zlib.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

CONTENT_TYPE = "application/vnd.amazon.eventstream"
_PRELUDE = struct.Struct(">III")
_CRC = struct.Struct(">I")
_LEAST = _PRELUDE.size + _CRC.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One message of a stream."""

    headers: bytes
    """As they are on the wire: event type and content type, nobody's data."""
    payload: bytes

    def to_bytes(self) -> bytes:
        """Return the frame as it stands on the wire."""
        total = _LEAST + len(self.headers) + len(self.payload)
        lengths = struct.pack(">II", total, len(self.headers))
        body = lengths + _CRC.pack(zlib.crc32(lengths)) + self.headers + self.payload
        return body + _CRC.pack(zlib.crc32(body))


def parse_frames(body: bytes) -> tuple[tuple[Frame, ...], bytes] | None:
    """Return the whole frames of a stream and what is left of a broken-off last one; None where it is no such stream."""
    frames: list[Frame] = []
    at = 0
    while at + _LEAST <= len(body):
        total, headers, checksum = _PRELUDE.unpack_from(body, at)
        if checksum != zlib.crc32(body[at : at + 8]) or total < _LEAST + headers:
            return None
        end = at + total
        if end > len(body):
            break
        if _CRC.unpack_from(body, end - 4)[0] != zlib.crc32(body[at : end - 4]):
            return None
        start = at + _PRELUDE.size
        frames.append(Frame(headers=body[start : start + headers], payload=body[start + headers : end - 4]))
        at = end
    return tuple(frames), body[at:]
