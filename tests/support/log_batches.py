"""Requests for the write-ahead log by their spans' numbers, and which of them a log holds."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from bare_spans import bare_span

from freezeframe_collector.batch import Batch, encode_spans
from freezeframe_collector.settings.config import WalConfig
from freezeframe_collector.store import Rejected
from freezeframe_collector.wal.log import Log
from freezeframe_collector.wal.segment import Segment
from freezeframe_schemas.span import Resource, Scope, SpanRecord

NEVER = WalConfig(flush_interval_s=3600)
"""The open segment stays open, so that the test decides when it is sealed."""


RESOURCE, SCOPE = Resource(attributes={"service.name": "orders"}), Scope(name="test")


def span(number: int) -> SpanRecord:
    """Return a span whose number makes its ids."""
    ids = {"trace_id": f"{number + 1:032x}", "span_id": f"{number + 1:016x}"}
    return bare_span({"number": number}, **ids, name=f"span-{number}", resource=RESOURCE, scope=SCOPE)


def batch(*numbers: int, rejected: Sequence[str] = ()) -> Batch:
    """Return a request of these spans and of rejected ones with these reasons."""
    spans = [span(number) for number in numbers]
    reasons = tuple(
        Rejected(trace_id="", span_id="", name="", reason=reason, detail="", time_unix_nano=1) for reason in rejected
    )
    return Batch(encoded=encode_spans(spans), spans=spans, rejected=reasons)


def crash(log: Log, to: Path) -> Path:
    """Return a copy of the log's directory as a kill -9 at this moment would leave it."""
    return Path(shutil.copytree(log.directory, to))


def sealed(log: Log) -> list[Segment]:
    """Close the log and return the segments that it hands to the writer."""
    log.close()
    segments: list[Segment] = []
    while (segment := log.next_sealed()) is not None:
        segments.append(segment)
    return segments


def numbers(segments: Sequence[Segment]) -> list[int]:
    """Return the numbers of all spans, in order."""
    return [int(found.name.removeprefix("span-")) for segment in segments for found in segment.load_spans().spans]
