"""Batch: one record of the log, and the log's durable answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

import xxhash

from freezeframe_collector.casts.found import Found
from freezeframe_collector.store import Rejected
from freezeframe_schemas.otlp.encode import encode_parts
from freezeframe_schemas.span import SpanRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One request, redacted, as it goes into the log; or several small ones together."""

    encoded: Sequence[EncodedSpan]
    spans: Sequence[SpanRecord] | None
    """The same spans in the same order, if this process decoded them: the writer need not decode them again."""
    rejected: tuple[Rejected, ...] = ()
    found: tuple[Found, ...] = ()
    """Values found in each of its runs."""

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
        """Queue the batch.

        The answer comes when it is on the disk, or fails with a BusyError; in that case none of it was kept.

        Raises:
            BusyError: nothing of the batch was taken.
        """
        ...


# -- A span as the log keeps it ----------------------------------------------------------------------------------------
# One piece (`EncodedSpan`) that can be left out (a duplicate) without encoding the rest again.


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedSpan:
    """A span's OTLP bytes with the bytes of its resource and scope, each once per batch."""

    key: int
    """xxh3-64 over all three: equal keys are the same span sent twice."""
    span: bytes
    scope: bytes
    """The fields of ``ScopeSpans`` except its spans."""
    resource: bytes
    """The fields of ``ResourceSpans`` except its scopes."""

    @property
    def size(self) -> int:
        """Return the bytes of the span itself."""
        return len(self.span)

    @property
    def parts(self) -> tuple[bytes, bytes, bytes]:
        """Return the parts in the form that `request_parts` takes."""
        return self.resource, self.scope, self.span


def encode_spans(spans: Iterable[SpanRecord]) -> list[EncodedSpan]:
    """Return the spans as pieces.

    Raises:
        WireError: as `encode_parts`.
    """
    encoded: list[EncodedSpan] = []
    for resource, scope, data in map(encode_parts, spans):
        key = xxhash.xxh3_64_intdigest(data, xxhash.xxh3_64_intdigest(resource + scope))
        encoded.append(EncodedSpan(key=key, span=data, scope=scope, resource=resource))
    return encoded
