"""Batch: one request as it goes into the log, and the log's durable answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from freezeframe_collector.otlp import EncodedSpan
from freezeframe_collector.store import Rejected
from freezeframe_schemas.span import SpanRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One request, redacted, as it goes into the log."""

    spans: Sequence[SpanRecord]
    encoded: Sequence[EncodedSpan]
    """Of `spans`, in the same order."""
    rejected: tuple[Rejected, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Return about how many bytes the batch takes in the log."""
        return sum(span.size for span in self.encoded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The durable answer to a batch."""

    segment: int
    duplicate: int
