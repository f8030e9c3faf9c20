"""For tests: capture into memory, with ids that are the same in each run."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from freezeframe_schemas.exchange import Exchange, exchange_from_span
from freezeframe_schemas.lifecycle import replace_pending
from freezeframe_schemas.span import SpanRecord

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from freezeframe._instrument import Handle
    from freezeframe.export.export_queue import BatchDeadline, BatchResult


class MemoryExporter:
    """Keeps every batch."""

    def __init__(self) -> None:
        self.records: list[SpanRecord] = []
        self._lock = threading.Lock()

    def export(self, records: Sequence[SpanRecord], deadline: BatchDeadline) -> BatchResult:
        """Keep the batch."""
        from freezeframe.export.export_queue import BatchResult

        del deadline
        with self._lock:
            self.records.extend(records)
        return BatchResult(delivered=len(records))

    def idle(self) -> bool:
        """Do nothing: no batch waits here."""
        return False

    def close(self) -> None:
        """Do nothing: no resource is open."""


class Captured:
    """Spans that a `capture()` block has seen so far."""

    def __init__(self, handle: Handle, exporter: MemoryExporter, provider: TracerProvider) -> None:
        self.handle = handle
        self.provider = provider
        """For other instrumentations that should be recorded next to ours."""
        self._exporter = exporter

    @property
    def spans(self) -> list[SpanRecord]:
        """Finished spans, in the order of their start, as recorded."""
        self.handle.flush(10)
        return sorted(replace_pending(self._exporter.records), key=lambda span: (span.start_time_unix_nano, span.span_id))

    @property
    def sent(self) -> list[SpanRecord]:
        """Every span as it was sent, pending ones included."""
        self.handle.flush(10)
        return [*self._exporter.records]

    @property
    def exchanges(self) -> list[Exchange]:
        """The exchanges among them, in the order of issue."""
        found = [exchange for span in self.spans if (exchange := exchange_from_span(span)) is not None]
        return sorted(found, key=lambda exchange: exchange.sequence)


@contextmanager
def capture(*, trace_config: object = None, **options: Any) -> Generator[Captured]:
    """Record the block in memory; takes the options of `instrument()`. Span ids count from 1.

    Raises:
        RuntimeError: the process is instrumented already.
    """
    from freezeframe import _instrument, seams
    from freezeframe._config import load_settings
    from freezeframe.export.tracing import OwnIds, make_provider
    from freezeframe.hosts import applications
    from freezeframe.seams.recorder.hiding import load_config

    class Counting(OwnIds):
        def __init__(self) -> None:
            super().__init__()
            self._spans = itertools.count(1)
            self._traces = itertools.count(1)

        def generate_span_id(self) -> int:
            return next(self._spans)

        def generate_trace_id(self) -> int:
            return next(self._traces)

    if _instrument.active_handle() is not None:
        raise RuntimeError("capture(): the process is already instrumented; call handle.uninstrument() first")
    provider = make_provider("test")
    provider.id_generator = Counting()
    exporter = MemoryExporter()
    settings = load_settings({"root": "never", **options}, environ={})
    hidden_by = load_config(trace_config, environ={})
    handle = _instrument.start_recording(settings, exporter, provider=provider, environment=dict, hidden_by=hidden_by)
    seams.install()
    applications.install()
    try:
        yield Captured(handle, exporter, provider)
    finally:
        handle.uninstrument()
