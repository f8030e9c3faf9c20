"""The bytes of a log segment: writer and reader side by side.

**Shape** of a segment file::

    magic "FFWAL\\x00" | version u16 | mark 8 bytes | extent | checksum u64 of mark and extent
    record*            mark 8 bytes | length u32 | extent | checksum u64 of length, extent and body | body
    body               header length u32 | key count u32 | header (JSON) | keys u64* | OTLP ExportTraceServiceRequest
    extent             bytes, records, spans, received, duplicate, rejected: u64 each

All numbers little-endian, checksums xxh3-64. The OTLP bytes are redacted spans; the header holds the counts of
the batch, its rejected spans and, sealed, the values found in its runs (``found``; absent if empty).

**Acked data.** An extent records how much of the file was synced when it was written, and the content up to
there. The one at the start of the file is replaced after each sync and before the ack; each record holds the
one before its own group. So the reader knows from two places what the file must contain: a fault within the
extent is damage to acked records, and the extent gives the number of lost spans. A fault after it is a torn
tail, which was never acked.

**Damage.** The reader goes on at the next mark after a fault. The mark is secret and specific to a segment, so
that neither a payload nor an old block of the disk is taken for a record.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import xxhash

from freezeframe_collector.batch import EncodedSpan
from freezeframe_collector.casts.found import Found, found_from_json, found_to_json
from freezeframe_collector.store import Rejected
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp.encode import request_parts

# -- The audit ---------------------------------------------------------------------------------------------------------
# Every span received is stored, a duplicate, set aside, lost to damage, or in the log; none is unaccounted for.
# Counts live where the spans live. A log record carries the counts of its request, a segment adds up its records, and the
# ledger adds up the segments that the store has. So the sum survives a kill -9: nothing is counted only in memory.


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Number of spans with each outcome: of a request, of a segment, or of all segments up to one."""

    received: int = 0
    duplicate: int = 0
    rejected: int = 0
    stored: int = 0
    lost: int = 0
    """Acked, but lost with a part of the log that the disk damaged."""
    damaged: int = 0
    """Segments that lost spans, or may have lost some."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            received=self.received + other.received,
            duplicate=self.duplicate + other.duplicate,
            rejected=self.rejected + other.rejected,
            stored=self.stored + other.stored,
            lost=self.lost + other.lost,
            damaged=self.damaged + other.damaged,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """A snapshot of the counts."""

    counts: Counts
    in_log: int

    @property
    def missing(self) -> int:
        """Return how many spans are unaccounted for; anything but 0 is our bug."""
        counts = self.counts
        return counts.received - counts.stored - counts.duplicate - counts.rejected - counts.lost - self.in_log

    @property
    def balanced(self) -> bool:
        """Return whether the books account for every acked span, and none was lost to damage."""
        return not self.missing and not self.counts.lost and not self.counts.damaged


# -- The format --------------------------------------------------------------------------------------------------------

VERSION: Final = 1
MAGIC: Final = b"FFWAL\x00"
_LEAD: Final = MAGIC + struct.pack("<H", VERSION)
_MARK_BYTES: Final = 8
_EXTENT: Final = struct.Struct("<6Q")
_LENGTH: Final = struct.Struct("<I")
_CHECKSUM: Final = struct.Struct("<Q")
_BODY: Final = struct.Struct("<II")
_RECORD_HEAD_BYTES: Final = _MARK_BYTES + _LENGTH.size + _EXTENT.size + _CHECKSUM.size
HEADER_BYTES: Final = len(_LEAD) + _MARK_BYTES + _EXTENT.size + _CHECKSUM.size
SEALED_SUFFIX: Final = ".wal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Length of a segment, and the contents up to there."""

    size_bytes: int = HEADER_BYTES
    records: int = 0
    spans: int = 0
    counts: Counts = field(default_factory=Counts)
    """`stored` is 0: only the ledger knows what the store has."""

    def __add__(self, other: Extent) -> Extent:
        return Extent(
            size_bytes=self.size_bytes + other.size_bytes,
            records=self.records + other.records,
            spans=self.spans + other.spans,
            counts=self.counts + other.counts,
        )

    def to_bytes(self) -> bytes:
        """Return the extent as the file holds it."""
        counts = self.counts
        return _EXTENT.pack(self.size_bytes, self.records, self.spans, counts.received, counts.duplicate, counts.rejected)

    @staticmethod
    def from_bytes(data: bytes) -> Extent:
        """Return the extent of `to_bytes`."""
        size_bytes, records, spans, received, duplicate, rejected = _EXTENT.unpack(data)
        counts = Counts(received=received, duplicate=duplicate, rejected=rejected)
        return Extent(size_bytes=size_bytes, records=records, spans=spans, counts=counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One batch as the log holds it."""

    counts: Counts
    """`stored` is 0."""
    rejected: tuple[Rejected, ...]
    keys: tuple[int, ...]
    otlp: bytes
    found: tuple[Found, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Acknowledged data that a segment lost."""

    at: int
    """The first byte that is not part of a whole record."""
    size_bytes: int
    """Number of such bytes."""
    records: int
    spans: int
    is_counted: bool
    """True if `records` and `spans` count every loss; False if the damage also destroyed the counts."""

    @property
    def cost_records(self) -> bool:
        """Return whether acked records are lost, or may be."""
        return self.records > 0 or not self.is_counted

    def to_counts(self) -> Counts:
        """Return it as counts for the books."""
        return Counts(lost=self.spans, damaged=int(self.cost_records))

    def __str__(self) -> str:
        lost = f"{self.spans} spans in {self.records} records are lost"
        found = f"{self.size_bytes} bytes from offset {self.at} on are damaged"
        return f"{found}: {lost}" if self.is_counted else f"{found}: at least {lost}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentContent:
    """Readable part of a segment."""

    records: list[Record]
    extent: Extent
    """The extent to keep; `counts` includes damaged spans, `records` and `spans` do not."""
    torn_bytes: int
    """Bytes after that, from a write that was never acked."""
    damage: Damage | None


def segment_mark(log: str, number: int) -> bytes:
    """Return the mark of a log's segment: the same at each start, and impossible to guess."""
    return xxhash.xxh3_64_digest(f"{log}-{number}".encode())


def file_header(mark: bytes, extent: Extent) -> bytes:
    """Return the start of a segment's file."""
    fields = mark + extent.to_bytes()
    return _LEAD + fields + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(fields))


def frame(
    mark: bytes,
    synced: Extent,
    counts: Counts,
    rejected: Sequence[Rejected],
    spans: Sequence[EncodedSpan],
    found: Sequence[Found] = (),
) -> list[bytes]:
    """Return the record of a batch, in parts to be written one after the other."""
    content: dict[str, object] = {
        "received": counts.received,
        "duplicate": counts.duplicate,
        "rejected": [dataclasses.asdict(item) for item in rejected],
    }
    if found:
        content["found"] = found_to_json(found)
    header = json.dumps(content).encode()
    keys = array("Q", (span.key for span in spans)).tobytes()
    body = [_BODY.pack(len(header), len(spans)), header, keys, *request_parts(span.parts for span in spans)]
    head = _LENGTH.pack(sum(map(len, body))) + synced.to_bytes()
    checksum = xxhash.xxh3_64(head)
    for part in body:
        checksum.update(part)
    return [mark, head, _CHECKSUM.pack(checksum.intdigest()), *body]


def read_segment(path: Path, mark: bytes = b"", limit_bytes: int | None = None) -> SegmentContent:
    """Return the content of a segment's file, up to `limit_bytes`; raises as `parse_segment`."""
    try:
        return parse_segment(path.read_bytes()[:limit_bytes], mark, is_sealed=path.suffix == SEALED_SUFFIX)
    except WireError as error:
        raise WireError(f"{path}: {error.message}") from None


def parse_segment(data: bytes, mark: bytes, *, is_sealed: bool) -> SegmentContent:
    """Return the content of a segment's bytes: its whole records, and the damage to the rest.

    `mark` is the first bytes of its records, also stored at the start of the file. Sealed means that all of it
    was synced.

    Raises:
        WireError: the segment is of a version that this code does not know.
    """
    header = _read_header(data)
    if header is not None:
        mark = header[0]
    found, faults = _scan(data, mark)
    if header is None and not found:
        _refuse_other_version(data)
    known = [item.synced for item in found] + ([header[1]] if header else [])
    synced = max(known, key=lambda extent: extent.size_bytes, default=Extent(size_bytes=0))
    if len(data) < synced.size_bytes:
        faults.append((len(data), synced.size_bytes))
    if not is_sealed:
        # After the synced part, stop at the first fault: a power loss may keep any pages of the last write.
        cut = next((max(start, synced.size_bytes) for start, stop in faults if stop > synced.size_bytes), len(data))
        found = [item for item in found if item.start < cut]
        faults = [(start, min(stop, synced.size_bytes)) for start, stop in faults if start < synced.size_bytes]
    if not data.startswith(_LEAD) or header is None:
        if found or is_sealed:
            faults.insert(0, (0, HEADER_BYTES))
        kept = 0
    else:
        kept = HEADER_BYTES
    kept = min(len(data), max([kept, *(item.end for item in found), *(stop for _, stop in faults)]))
    return _content(found, faults, synced, kept=kept, torn_bytes=len(data) - kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A whole record and its place."""

    start: int
    end: int
    synced: Extent
    """The extent synced before its group was written."""
    record: Record


def _read_header(data: bytes) -> tuple[bytes, Extent] | None:
    """Return the mark and the synced extent, or None if the checksum does not match."""
    fields = data[len(_LEAD) : HEADER_BYTES - _CHECKSUM.size]
    if (
        len(data) < HEADER_BYTES
        or _CHECKSUM.pack(xxhash.xxh3_64_intdigest(fields)) != data[len(_LEAD) + len(fields) : HEADER_BYTES]
    ):
        return None
    return fields[:_MARK_BYTES], Extent.from_bytes(fields[_MARK_BYTES:])


def _refuse_other_version(data: bytes) -> None:
    (version,) = struct.unpack_from("<H", data, len(MAGIC)) if len(data) >= len(_LEAD) else (0,)
    # Zeros are not a version: the machine ended before the first sync.
    if data.startswith(MAGIC) and version not in (0, VERSION):
        raise WireError(f"log version {version}, this collector knows version {VERSION}")


def _scan(data: bytes, mark: bytes) -> tuple[list[_Found], list[tuple[int, int]]]:
    """Return the whole records, and start and end of each stretch that holds none."""
    found: list[_Found] = []
    faults: list[tuple[int, int]] = []
    at = HEADER_BYTES
    while at < len(data):
        item = _record_at(data, at, mark) or _next_record(data, at + 1, mark)
        if item is None or item.start > at:
            faults.append((at, item.start if item else len(data)))
        if item is None:
            break
        found.append(item)
        at = item.end
    return found, faults


def _next_record(data: bytes, at: int, mark: bytes) -> _Found | None:
    while mark and (at := data.find(mark, at)) >= 0:
        if item := _record_at(data, at, mark):
            return item
        at += 1
    return None


def _record_at(data: bytes, at: int, mark: bytes) -> _Found | None:
    head_at, body_at = at + _MARK_BYTES, at + _RECORD_HEAD_BYTES
    if body_at > len(data) or data[at:head_at] != mark:
        return None
    checksum_at = body_at - _CHECKSUM.size
    (length,) = _LENGTH.unpack_from(data, head_at)
    end = body_at + length
    if length < _BODY.size or end > len(data):
        return None
    body = data[body_at:end]
    found = xxhash.xxh3_64(data[head_at:checksum_at])
    found.update(body)
    if _CHECKSUM.pack(found.intdigest()) != data[checksum_at:body_at]:
        return None
    synced = Extent.from_bytes(data[head_at + _LENGTH.size : checksum_at])
    return _Found(start=at, end=end, synced=synced, record=_record(body))


def _record(body: bytes) -> Record:
    header_length, key_count = _BODY.unpack_from(body)
    keys_at = _BODY.size + header_length
    otlp_at = keys_at + 8 * key_count
    header = cast("dict[str, Any]", json.loads(body[_BODY.size : keys_at]))
    keys = array("Q")
    keys.frombytes(body[keys_at:otlp_at])
    rejected = tuple(Rejected(**item) for item in header["rejected"])
    counts = Counts(received=header["received"], duplicate=header["duplicate"], rejected=len(rejected))
    found = found_from_json(header.get("found", ()))
    return Record(counts=counts, rejected=rejected, keys=tuple(keys), otlp=body[otlp_at:], found=found)


def _content(
    found: Sequence[_Found], faults: Sequence[tuple[int, int]], synced: Extent, *, kept: int, torn_bytes: int
) -> SegmentContent:
    within = [item.record for item in found if item.start < synced.size_bytes]
    beyond = [item.record for item in found if item.start >= synced.size_bytes]
    records = [*within, *beyond]
    counts = sum((record.counts for record in beyond), synced.counts)
    damage = None
    if faults:
        damage = Damage(
            at=faults[0][0],
            size_bytes=sum(stop - start for start, stop in faults),
            records=synced.records - len(within),
            spans=synced.spans - sum(len(record.keys) for record in within),
            is_counted=faults[-1][1] <= synced.size_bytes,
        )
        counts += damage.to_counts()
    spans = sum(len(record.keys) for record in records)
    extent = Extent(size_bytes=kept, records=len(records), spans=spans, counts=counts)
    return SegmentContent(records=records, extent=extent, torn_bytes=torn_bytes, damage=damage)
