"""Batch: what goes into the log as one record, and the log's durable answer."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from freezeframe_collector.casts.found import Found
from freezeframe_collector.encoded import EncodedSpan
from freezeframe_collector.store import Rejected
from freezeframe_schemas.span import SpanRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One request, redacted, as it goes into the log; or several small ones together."""

    encoded: Sequence[EncodedSpan]
    spans: Sequence[SpanRecord] | None
    """The same spans in the same order, if this process decoded them: the writer need not decode them again."""
    rejected: tuple[Rejected, ...] = ()
    found: tuple[Found, ...] = ()
    """What was found in each of its runs."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to log."""
        return not self.encoded and not self.rejected

    @property
    def size_bytes(self) -> int:
        """Return about how many bytes the batch takes in the log."""
        return sum(span.size for span in self.encoded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The durable answer to a batch."""

    segment: int
    duplicate: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A batch on its way to the disk, and its sender's answer."""

    batch: Batch | None = None
    """None asks for a seal."""
    is_nudge: bool = False
    """Only wakes the thread: the writer has become idle."""
    answer: Future[Appended] = field(default_factory=Future[Appended])


class LogWriter(Protocol):
    """The log as receivers need it: in this process, or in the one that owns the data directory."""

    def submit(self, batch: Batch) -> Future[Appended]:
        """Queue the batch. The answer comes when it is on the disk, or fails with a BusyError: then nothing of it was kept.

        Raises:
            BusyError: nothing of the batch was taken.
        """
        ...
