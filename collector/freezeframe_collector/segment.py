"""Segment: one file of the log with what is in it, and how one that a dead process left is taken up again."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from freezeframe_collector.audit import Counts
from freezeframe_collector.otlp import Limits, decode_traces
from freezeframe_collector.store import Rejected
from freezeframe_collector.wal_format import FILE_HEADER, read_segment
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import SpanRecord

_LOG = logging.getLogger(__name__)
_DAMAGED: Final = ".damaged"
"""Files of the log that did not hold what was written to them are kept under this ending, and read by nobody."""
_NO_LIMITS: Final = Limits(span_bytes=1 << 62, attributes=1 << 62, events=1 << 62, links=1 << 62)
"""What is in the log was accepted: a limit that has changed since, or that a stage went over, takes nothing back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSpans:
    """What a segment's file gives back."""

    spans: list[SpanRecord]
    fault: str = ""
    """Why it is not all that was written; empty where it is."""


@dataclass(slots=True, kw_only=True)
class Segment:
    """A file of the log with what is in it. Only the log's thread changes one, and only while it is open."""

    number: int
    path: Path
    since_s: float = field(default_factory=time.monotonic)
    """When this process opened or found it, monotonic."""
    size_bytes: int = len(FILE_HEADER)
    counts: Counts = field(default_factory=Counts)
    span_count: int = 0
    keys: list[int] = field(default_factory=list[int])
    rejected: list[Rejected] = field(default_factory=list[Rejected])
    spans: list[SpanRecord] | None = None
    """The spans themselves where memory allows, else None: `load_spans` reads the file."""
    held_bytes: int = 0

    def load_spans(self) -> LoadedSpans:
        """Return the spans, from memory or from the file.

        Raises:
            OSError: the file cannot be read.
        """
        if self.spans is not None:
            return LoadedSpans(spans=self.spans)
        spans: list[SpanRecord] = []
        fault = ""
        try:
            for record in read_segment(self.path, self.size_bytes).records:
                decoded = decode_traces(record.otlp, _NO_LIMITS)
                spans.extend(decoded.spans)
                fault = fault or next((f"a span of it cannot be read: {item.reason}" for item in decoded.faults), "")
        except WireError as error:
            fault = error.message
        if len(spans) != self.span_count and not fault:
            fault = f"found {len(spans)} spans, expected {self.span_count}: the file was changed"
        return LoadedSpans(spans=spans, fault=fault)

    def discard(self, *, damaged: bool) -> None:
        """Delete the file of a segment that is off the books; keep a `damaged` one under another name."""
        try:
            if damaged:
                self.path.replace(self.path.with_suffix(_DAMAGED))
            else:
                self.path.unlink(missing_ok=True)
        except OSError as error:
            # The books are what counts: the next start deletes the file unread.
            _LOG.error("%s cannot be deleted: %s", self.path, error.strerror)


def count_damaged(directory: Path) -> int:
    """Return how many files lie beside the log because they did not hold what was written to them."""
    return sum(1 for _ in directory.glob(f"*{_DAMAGED}"))


def recover_segment(number: int, path: Path) -> tuple[Segment, int]:
    """Return the segment cut to its last whole record and sealed, and how many torn bytes were cut off.

    Raises:
        WireError: the segment is of a version that this code does not know.
    """
    content = read_segment(path)
    torn_bytes = content.size_bytes - content.valid_bytes
    if torn_bytes and path.suffix == ".wal":
        # A sealed segment was synced whole. This is no torn tail but a damaged disk; what is left is kept aside.
        kept = path.with_suffix(_DAMAGED)
        kept.write_bytes(path.read_bytes())
        _LOG.error("%s is damaged after byte %d; the whole file is kept as %s", path, content.valid_bytes, kept.name)
    if torn_bytes:
        os.truncate(path, content.valid_bytes)
    sealed = path.with_suffix(".wal")
    path.replace(sealed)
    segment = Segment(number=number, path=sealed, size_bytes=content.valid_bytes)
    for record in content.records:
        segment.counts += record.counts
        segment.span_count += len(record.keys)
        segment.keys.extend(record.keys)
        segment.rejected.extend(record.rejected)
    return segment, torn_bytes
