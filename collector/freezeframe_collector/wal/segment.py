"""Segment: one file of the log with its content, and the recovery of a dead process's segment."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from freezeframe_collector.casts.found import Found
from freezeframe_collector.files import fsync_directory, write_all
from freezeframe_collector.store import Rejected
from freezeframe_collector.wal.format import SEALED_SUFFIX, Counts, Extent, file_header, read_segment, segment_mark
from freezeframe_collector.wal.ledger import Ledger
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.otlp.decode import NO_LIMITS, decode_traces
from freezeframe_schemas.span import SpanRecord

_LOG = logging.getLogger(__name__)
_DAMAGED: Final = ".damaged"
"""Suffix of damaged log files, which are kept but never read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSpans:
    """Readable part of a segment's file."""

    spans: list[SpanRecord]
    fault: str = ""
    """Reason for missing spans; empty if complete."""
    faulty: tuple[Segment, ...] = ()
    """Its damaged files."""


@dataclass(slots=True, kw_only=True)
class Segment:
    """A file of the log with its content. Only the log's thread changes one, and only while it is open."""

    number: int
    path: Path
    mark: bytes
    """First bytes of its records."""
    since_s: float = field(default_factory=time.monotonic)
    """Monotonic time at which this process opened or found it."""
    extent: Extent = field(default_factory=Extent)
    keys: list[int] = field(default_factory=list[int])
    rejected: list[Rejected] = field(default_factory=list[Rejected])
    found: list[Found] = field(default_factory=list[Found])
    """Findings read from it at the start; later ones go to the book at once."""
    spans: list[SpanRecord] | None = None
    """The spans themselves if memory allows, else None; then `load_spans` reads the file."""
    held_bytes: int = 0
    damage: str = ""
    """Losses of the file when this process found it."""
    parts: tuple[Segment, ...] = ()
    """The segments that make up this one if it has no file itself; else empty."""

    @property
    def size_bytes(self) -> int:
        """Return the valid size of the file."""
        return self.extent.size_bytes

    @property
    def counts(self) -> Counts:
        """Return the outcomes of its requests' spans."""
        return self.extent.counts

    @property
    def span_count(self) -> int:
        """Return the number of its spans for the store."""
        return self.extent.spans

    def load_spans(self) -> LoadedSpans:
        """Return the spans, from memory or from the file."""
        if self.spans is not None:
            return LoadedSpans(spans=self.spans)
        if self.parts:
            loaded = [part.load_spans() for part in self.parts]
            return LoadedSpans(
                spans=[span for one in loaded for span in one.spans],
                fault="; ".join(one.fault for one in loaded if one.fault),
                faulty=tuple(segment for one in loaded for segment in one.faulty),
            )
        spans: list[SpanRecord] = []
        fault = ""
        try:
            content = read_segment(self.path, self.mark, self.size_bytes)
            for record in content.records:
                decoded = decode_traces(record.otlp, NO_LIMITS)
                spans.extend(decoded.spans)
                fault = fault or next((f"one of its spans cannot be read: {item.reason}" for item in decoded.faults), "")
            if len(spans) != self.span_count and not fault:
                fault = f"{self.path.name}: {content.damage or 'the file was changed'}"
        except WireError as error:
            fault = error.message
        except OSError as error:
            fault = f"{self.path.name} cannot be read: {error.strerror}"
        return LoadedSpans(spans=spans, fault=fault, faulty=(self,) if fault else ())

    def keep_damaged(self) -> None:
        """Keep the file under a name that marks it as damaged, whatever happens to the segment."""
        kept = self.path.with_suffix(_DAMAGED)
        with contextlib.suppress(FileExistsError):
            try:
                os.link(self.path, kept)
            except PermissionError:
                # A file system without links.
                shutil.copyfile(self.path, kept)
            except FileNotFoundError:
                _LOG.error("%s no longer exists; there is nothing to keep", self.path)

    def discard(self) -> None:
        """Delete the files of a segment that is off the books."""
        for part in self.parts:
            part.discard()
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            # The books are what counts: the next start deletes the file unread.
            _LOG.error("%s cannot be deleted: %s", self.path, error.strerror)


def join_segments(parts: Sequence[Segment]) -> Segment:
    """Return these segments, which follow each other, as one under the number of the last."""
    if len(parts) == 1:
        return parts[0]
    return Segment(
        number=parts[-1].number,
        path=parts[-1].path,
        mark=parts[-1].mark,
        extent=sum((part.extent for part in parts), Extent(size_bytes=0)),
        keys=[key for part in parts for key in part.keys],
        rejected=[item for part in parts for item in part.rejected],
        found=[item for part in parts for item in part.found],
        damage="; ".join(part.damage for part in parts if part.damage),
        parts=tuple(parts),
    )


def gather_segments(directory: Path, found: Mapping[int, Segment], ledger: Ledger, most_bytes: int) -> list[Segment]:
    """Join the segments of dead processes, in order, into few of up to `most_bytes`: each costs the store an insert.

    The store may have begun with the first one, so it stays by itself, or with those that it was joined to before. A missing
    number means that someone deleted its file, since numbers are consecutive.
    """
    first = ledger.through + 1 if ledger.through else min(found, default=1)  # a lost ledger starts again
    numbers = range(first, max(found, default=0) + 1)
    segments = [found.get(number) or _missing_segment(number, directory, ledger.log) for number in numbers]
    groups: list[list[Segment]] = []
    for segment in segments:
        if groups and segment.number <= ledger.taken:
            groups[0].append(segment)
        elif len(groups) > 1 and sum(one.size_bytes for one in groups[-1]) + segment.size_bytes <= most_bytes:
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return [join_segments(group) for group in groups]


def _missing_segment(number: int, directory: Path, log: str) -> Segment:
    """Return a stand-in for a segment whose file someone deleted before the store had its spans; their number is unknown."""
    path = directory / f"{number:016d}{SEALED_SUFFIX}"
    damage = f"{path.name} is missing, and it is not known what it held"
    _LOG.error("%s: %s", directory, damage)
    extent = Extent(size_bytes=0, counts=Counts(damaged=1))
    return Segment(number=number, path=path, mark=segment_mark(log, number), extent=extent, spans=[], damage=damage)


def create_segment(directory: Path, number: int, log: str) -> tuple[Segment, int]:
    """Return a new segment and the descriptor of its file, whose name is on the disk.

    Raises:
        OSError: the disk failed; there is no such file.
    """
    path = directory / f"{number:016d}.open"
    segment = Segment(number=number, path=path, mark=segment_mark(log, number), spans=[])
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(descriptor, file_header(segment.mark, segment.extent))
        fsync_directory(directory)
    except OSError:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return segment, descriptor


def write_durably(segment: Segment, descriptor: int, blob: bytes, synced: Extent) -> None:
    """Append to the segment's file and sync; then record at the start of the file that all of `synced` is on the disk.

    Raises:
        OSError: the disk failed; nothing of the blob is in the file.
    """
    try:
        write_all(descriptor, blob)
        os.fdatasync(descriptor)
        # The next sync includes this. Until then, the process that starts after this one was killed can read it.
        os.pwrite(descriptor, file_header(segment.mark, synced), 0)
    except OSError:
        # Cut off what the failed write left: the next start would take it for damage. After a failed sync the kernel may
        # have dropped the pages, so the segment is not written to again.
        os.ftruncate(descriptor, segment.size_bytes)
        raise


def count_damaged(directory: Path) -> int:
    """Return the number of damaged files kept next to the log."""
    return sum(1 for _ in directory.glob(f"*{_DAMAGED}"))


def recover_segment(number: int, path: Path, log: str) -> tuple[Segment | None, int]:
    """Return the segment, sealed and without its torn tail, and how many torn bytes were cut off. None if it holds nothing.

    Raises:
        WireError: the segment is of a version that this code does not know.
    """
    mark = segment_mark(log, number)
    content = read_segment(path, mark)
    if content.torn_bytes:
        _LOG.warning("%s: cut off %d bytes at its end, from a write that was never acked", path, content.torn_bytes)
    if not content.records and content.damage is None:
        path.unlink()
        return None, content.torn_bytes
    segment = Segment(number=number, path=path, mark=mark, extent=content.extent)
    if content.damage is not None:
        _LOG.error("%s: %s; the file is kept as %s", path, content.damage, path.with_suffix(_DAMAGED).name)
        segment.keep_damaged()
        segment.damage = f"{path.stem}.wal: {content.damage}" if content.damage.cost_records else ""
    if content.torn_bytes:
        os.truncate(path, content.extent.size_bytes)
    segment.path = path.with_suffix(SEALED_SUFFIX)
    path.replace(segment.path)
    for record in content.records:
        segment.keys.extend(record.keys)
        segment.rejected.extend(record.rejected)
        segment.found.extend(record.found)
    return segment, content.torn_bytes
