"""Segment: one file of the log with what is in it, and how one that a dead process left is taken up again."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from freezeframe_collector.audit import Counts
from freezeframe_collector.otlp import decode_traces
from freezeframe_collector.store import Rejected
from freezeframe_collector.wal_format import FILE_HEADER, read_segment
from freezeframe_schemas.errors import StoreError
from freezeframe_schemas.span import SpanRecord

_LOG = logging.getLogger(__name__)


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

    def load_spans(self) -> list[SpanRecord]:
        """Return the spans, from memory or from the file.

        Raises:
            StoreError: the file does not hold what was written to it.
        """
        if self.spans is not None:
            return self.spans
        spans: list[SpanRecord] = []
        for record in read_segment(self.path, self.size_bytes).records:
            decoded = decode_traces(record.otlp)
            if decoded.faults:
                raise StoreError(
                    f"{self.path}: {len(decoded.faults)} spans of the log cannot be read: {decoded.faults[0].reason}"
                )
            spans.extend(decoded.spans)
        if len(spans) != self.span_count:
            raise StoreError(f"{self.path}: found {len(spans)} spans, expected {self.span_count}: the file was changed")
        return spans


def recover_segment(number: int, path: Path) -> tuple[Segment, int]:
    """Return the segment cut to its last whole record and sealed, and how many torn bytes were cut off.

    Raises:
        WireError: the file is no segment, or one of a version that this code does not know.
    """
    content = read_segment(path)
    torn_bytes = content.size_bytes - content.valid_bytes
    if torn_bytes and path.suffix == ".wal":
        # A sealed segment was synced whole. This is no torn tail but a damaged disk; what is left is kept aside.
        kept = path.with_suffix(".damaged")
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
