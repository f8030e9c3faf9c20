"""The bytes of a log segment: writer and reader side by side.

**Shape** of a segment file::

    magic "FFWAL\\x00" | version u16
    record*            length u32 | xxh3-64 of the body u64 | body
    body               header length u32 | key count u32 | header (JSON) | keys u64* | OTLP ExportTraceServiceRequest

All numbers little-endian. The OTLP bytes are redacted spans; the header holds the counts of the batch and its rejected
spans. A record is whole or it is not there: one whose length or checksum does not fit ends the segment (a torn tail).
"""

from __future__ import annotations

import dataclasses
import json
import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import xxhash

from freezeframe_collector.audit import Counts
from freezeframe_collector.otlp import EncodedSpan, request_parts
from freezeframe_collector.store import Rejected
from freezeframe_schemas.errors import WireError

VERSION: Final = 1
MAGIC: Final = b"FFWAL\x00"
FILE_HEADER: Final = MAGIC + struct.pack("<H", VERSION)
_FRAME: Final = struct.Struct("<IQ")
_BODY: Final = struct.Struct("<II")
_MAX_RECORD: Final = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One batch as the log holds it."""

    counts: Counts
    """`stored` is 0: what the store has is the ledger's to say."""
    rejected: tuple[Rejected, ...]
    keys: tuple[int, ...]
    otlp: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentContent:
    """What could be read of a segment."""

    records: list[Record]
    valid_bytes: int
    """Where the last whole record ends."""
    size_bytes: int


def frame(counts: Counts, rejected: Sequence[Rejected], spans: Sequence[EncodedSpan]) -> list[bytes]:
    """Return the record of a batch, in parts to be written one after the other."""
    header = json.dumps(
        {
            "received": counts.received,
            "duplicate": counts.duplicate,
            "rejected": [dataclasses.asdict(item) for item in rejected],
        }
    ).encode()
    keys = array("Q", (span.key for span in spans)).tobytes()
    body = [_BODY.pack(len(header), len(spans)), header, keys, *request_parts(spans)]
    checksum = xxhash.xxh3_64()
    for part in body:
        checksum.update(part)
    return [_FRAME.pack(sum(map(len, body)), checksum.intdigest()), *body]


def read_segment(path: Path, limit_bytes: int | None = None) -> SegmentContent:
    """Return the whole records of a segment, up to a torn tail or up to `limit_bytes`.

    Raises:
        WireError: the segment is of a version that this code does not know.
    """
    data = path.read_bytes()[:limit_bytes]
    (version,) = struct.unpack_from("<H", data, len(MAGIC)) if len(data) >= len(FILE_HEADER) else (0,)
    if version == 0 or not data.startswith(MAGIC):
        # The machine ended before the first sync: the file may be short, or as long as it was to be and full of zeros.
        return SegmentContent(records=[], valid_bytes=0, size_bytes=len(data))
    if version != VERSION:
        raise WireError(f"{path}: log version {version}, this collector knows version {VERSION}")
    records: list[Record] = []
    end = len(FILE_HEADER)
    for record, record_end in _records(data, end):
        records.append(record)
        end = record_end
    return SegmentContent(records=records, valid_bytes=end, size_bytes=len(data))


def _records(data: bytes, at: int) -> Iterator[tuple[Record, int]]:
    while at + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, at)
        start, end = at + _FRAME.size, at + _FRAME.size + length
        if length < _BODY.size or length > _MAX_RECORD or end > len(data):
            return
        body = data[start:end]
        if xxhash.xxh3_64_intdigest(body) != checksum:
            return
        yield _record(body), end
        at = end


def _record(body: bytes) -> Record:
    header_length, key_count = _BODY.unpack_from(body)
    keys_at = _BODY.size + header_length
    otlp_at = keys_at + 8 * key_count
    header = cast("dict[str, Any]", json.loads(body[_BODY.size : keys_at]))
    keys = array("Q")
    keys.frombytes(body[keys_at:otlp_at])
    rejected = tuple(Rejected(**item) for item in header["rejected"])
    counts = Counts(received=header["received"], duplicate=header["duplicate"], rejected=len(rejected))
    return Record(counts=counts, rejected=rejected, keys=tuple(keys), otlp=body[otlp_at:])
