"""Pipeline: from a finished span to a batch on the wire or in a file, on a thread of its own.

The application's thread appends to a bounded queue and goes on. Nothing here blocks it, and nothing raises into it: what cannot
be kept or sent is dropped, counted and said. A forked child starts with an empty queue and a thread of its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from freezeframe._call_ids import CallIds
from freezeframe._context import PLACE, Lane, Place
from freezeframe._guard import guard, logger, report, say_once
from freezeframe.seams.recording import Payload
from freezeframe_schemas.span import Attributes, Resource, SpanRecord

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class Deadline:
    """Until when a batch may be tried. The end of the process brings it forward, and wakes who waits."""

    def __init__(self, timeout_s: float) -> None:
        self._until_s = time.monotonic() + timeout_s
        self._hurry = threading.Event()

    @property
    def left_s(self) -> float:
        """Seconds left, negative once it has passed."""
        return self._until_s - time.monotonic()

    def bring_forward(self, timeout_s: float) -> None:
        """Leave at most `timeout_s` from now."""
        self._until_s = min(self._until_s, time.monotonic() + timeout_s)
        self._hurry.set()

    def wait(self, seconds: float) -> None:
        """Sleep before the next try; at most a tenth of what is left once there is hurry."""
        if self._hurry.wait(seconds):
            time.sleep(max(0.0, min(seconds, self.left_s / 10)))


class Exporter(Protocol):
    """Where batches go."""

    def export(self, records: Sequence[SpanRecord], deadline: Deadline) -> None:
        """Deliver the batch, or raise once the deadline has passed or the batch is refused."""
        ...

    def close(self) -> None:
        """Release what is held."""
        ...


@dataclass(slots=True)
class Counts:
    """What became of spans, for `doctor` and the log."""

    exported: int = 0
    dropped: int = 0
    """Did not fit into the queue."""
    failed: int = 0
    """Could not be delivered."""


_Item = tuple["ReadableSpan", "Payload | None", int]


class Pipeline:
    """A bounded queue, a thread, and an exporter."""

    def __init__(
        self,
        *,
        exporter: Exporter,
        environment: Callable[[], Attributes],
        max_queue_bytes: int,
        batch_bytes: int,
        batch_interval_s: float,
        export_timeout_s: float,
    ) -> None:
        self.counts = Counts()
        self.exporter = exporter
        self._environment = environment
        self._max_queue_bytes = max_queue_bytes
        self._batch_bytes = batch_bytes
        self._batch_interval_s = batch_interval_s
        self._export_timeout_s = export_timeout_s
        self._extra: Attributes | None = None
        self._call_ids = CallIds()
        self._resources: dict[int, tuple[Any, Resource]] = {}
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """Start from nothing: at first, and in a forked child, whose copy of the queue belongs to the parent."""
        self._queue: deque[_Item] = deque()
        self._queued_bytes = 0
        self._busy = False
        self._hurry = False
        self._closing = False
        self._deadline: Deadline | None = None
        self._in_flight = 0
        # Reentrant: a garbage collection inside may drop a response, whose recording then ends here, on this thread.
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None

    def put(self, span: ReadableSpan, payload: Payload | None) -> None:
        """Take a finished span. Never blocks longer than a short lock."""
        size = _size_of(span, payload)
        with self._changed:
            if self._closing:
                return
            if self._queued_bytes + size > self._max_queue_bytes:
                self.counts.dropped += 1
                dropped = self.counts.dropped
            else:
                dropped = 0
                self._queue.append((span, payload, size))
                self._queued_bytes += size
                if self._thread is None:
                    self._start()
                elif self._queued_bytes >= self._batch_bytes:
                    self._changed.notify_all()
        if dropped:
            say_once(
                "pipeline.dropped", "freezeframe: the queue is full (%d bytes), spans are being dropped", self._max_queue_bytes
            )

    def flush(self, timeout_s: float) -> bool:
        """Deliver what is queued. Return whether all of it left in time."""
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            while self._queue or self._busy:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or self._thread is None or not self._thread.is_alive():
                    break
                self._changed.wait(min(left_s, 0.5))
            self._hurry = False
            return not self._queue and not self._busy

    def close(self, timeout_s: float) -> bool:
        """Deliver what is queued, within `timeout_s`, and take no more."""
        with self._changed:
            self._export_timeout_s = min(self._export_timeout_s, timeout_s)
            if self._deadline is not None:
                self._deadline.bring_forward(timeout_s)
        done = self.flush(timeout_s)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            self.counts.failed += len(self._queue) + self._in_flight
        with guard("exporter.close"):
            if done:
                self.exporter.close()
        lost = self.counts.dropped + self.counts.failed
        if lost:
            logger.warning(
                "freezeframe: %d spans were delivered, %d did not fit the queue, %d could not be sent",
                self.counts.exported,
                self.counts.dropped,
                self.counts.failed,
            )
        return done

    # -- the thread -----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        # The thread belongs to no run and takes no ordinal of the application's lanes.
        token = PLACE.set(Place(lane=Lane()))
        try:
            self._thread = threading.Thread(target=self._work, name="freezeframe-export", daemon=True)
            self._thread.start()
        except RuntimeError:  # the interpreter is shutting down: no new threads
            self._thread = None
        finally:
            PLACE.reset(token)

    def _work(self) -> None:
        from opentelemetry import context

        # Neither our seams nor other instrumentations may see the exporter at work.
        context.attach(context.set_value("suppress_instrumentation", True, context.Context()))
        with guard("environment"):
            self._extra = self._environment()
        while True:
            with self._changed:
                if not self._queue and self._closing:
                    return
                if not self._hurry and self._queued_bytes < self._batch_bytes:
                    self._changed.wait(self._batch_interval_s)
                batch = self._take()
                self._busy = bool(batch)
                self._in_flight = len(batch)
                deadline = self._deadline = Deadline(self._export_timeout_s)
            try:
                if batch:
                    self._deliver(batch, deadline)
            except Exception as error:
                with guard("pipeline"):
                    report("pipeline", error)
            finally:
                with self._changed:
                    self._busy = False
                    self._in_flight = 0
                    self._changed.notify_all()

    def _take(self) -> list[_Item]:
        batch: list[_Item] = []
        size = 0
        while self._queue and (not batch or size + self._queue[0][2] <= self._batch_bytes):
            item = self._queue.popleft()
            size += item[2]
            batch.append(item)
        self._queued_bytes -= size
        return batch

    def _deliver(self, batch: list[_Item], deadline: Deadline) -> None:
        records = [record for item in batch if (record := self._record(item)) is not None]
        try:
            self.exporter.export(records, deadline)
        except Exception as error:  # the network, the disk, or the collector: never the application's concern
            self.counts.failed += len(batch)
            say_once("pipeline.failed", "freezeframe: %d spans could not be delivered: %s", len(batch), error)
        else:
            self.counts.exported += len(records)
            self.counts.failed += len(batch) - len(records)

    def _record(self, item: _Item) -> SpanRecord | None:
        from freezeframe._records import record_from_span

        span, payload, _ = item
        record = None
        with guard("record"):
            record = record_from_span(span, self._resource(span))
            if payload is not None:
                record = self._call_ids.link(payload.onto(record))
        return record

    def _resource(self, span: ReadableSpan) -> Resource:
        """Return the span's resource with the environment's attributes, one object per SDK resource."""
        from freezeframe._records import resource_from_sdk

        known = self._resources.get(id(span.resource))
        if known is None:
            known = self._resources[id(span.resource)] = (span.resource, resource_from_sdk(span.resource, self._extra or {}))
        return known[1]


_SPAN_BYTES = 1000
"""What a span without content comes to, about."""


def _size_of(span: ReadableSpan, payload: Payload | None) -> int:
    size = _SPAN_BYTES
    for value in (span.attributes or {}).values():
        size += len(value) if isinstance(value, str | bytes) else 16
    return size if payload is None else size + payload.size


class CollectorExporter:
    """OTLP over HTTP, with the standard library's client: no seam of ours, and no other instrumentation's, sees it."""

    def __init__(self, *, endpoint: str, headers: Sequence[tuple[str, str]], compression: str) -> None:
        from urllib.parse import urlsplit

        parts = urlsplit(endpoint)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or (443 if self._secure else 4318 if not parts.port and self._host == "127.0.0.1" else 80)
        path = parts.path.rstrip("/")
        self._path = path if path.endswith("/v1/traces") else f"{path}/v1/traces"
        self._headers = {"Content-Type": "application/x-protobuf", "User-Agent": "freezeframe", **dict(headers)}
        self._gzip = compression == "gzip"
        if self._gzip:
            self._headers["Content-Encoding"] = "gzip"
        self._connection: Any = None

    def export(self, records: Sequence[SpanRecord], deadline: Deadline) -> None:
        """Send one batch; try again while the collector is down or busy, as long as the deadline allows."""
        from freezeframe._otlp import encode_request

        body = encode_request(records)
        if self._gzip:
            import gzip

            body = gzip.compress(body, compresslevel=1)
        wait_s = 0.5
        while True:
            failure, retry_after_s = self._send(body, deadline.left_s)
            if failure is None:
                return
            wait_s = retry_after_s if retry_after_s is not None else min(wait_s * 2, 8.0)
            if retry_after_s == -1 or deadline.left_s < 0:
                raise ConnectionError(f"{self._host}:{self._port}{self._path}: {failure}")
            say_once("exporter.retry", "freezeframe: %s:%d: %s; trying again", self._host, self._port, failure)
            deadline.wait(min(wait_s, deadline.left_s))

    def _send(self, body: bytes, left_s: float) -> tuple[str | None, float | None]:
        """Return what went wrong (None: nothing) and how long to wait (-1: never try again, None: as usual)."""
        import http.client

        timeout_s = max(0.1, min(10.0, left_s))
        try:
            if self._connection is None:
                make = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
                self._connection = make(self._host, self._port, timeout=timeout_s)
            self._connection.request("POST", self._path, body=body, headers=self._headers)
            response = self._connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return f"{type(error).__name__}: {error}", None
        if response.status < 300:
            self._read_partial_success(answer, response.getheader("Content-Type") or "")
            return None, None
        self.close()
        if response.status not in (429, 502, 503, 504):
            return f"answered {response.status}", -1
        retry_after = response.getheader("Retry-After") or ""
        return f"answered {response.status}", float(retry_after) if retry_after.isdigit() else None

    def _read_partial_success(self, answer: bytes, content_type: str) -> None:
        """Say it where the collector set spans aside."""
        if not answer or "protobuf" not in content_type:
            return
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

        with guard("exporter.partial_success"):
            partial = ExportTraceServiceResponse.FromString(answer).partial_success
            if partial.rejected_spans:
                logger.warning(
                    "freezeframe: the collector set %d spans aside: %s", partial.rejected_spans, partial.error_message
                )

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class FileExporter:
    """Lines of OTLP/JSON in a file, one batch a line, for use without a collector."""

    def __init__(self, path: str) -> None:
        self._path = path

    def export(self, records: Sequence[SpanRecord], deadline: Deadline) -> None:
        """Append one line and flush it to the disk."""
        import orjson

        from freezeframe_schemas.otlp_json import spans_to_otlp_json

        del deadline
        line = orjson.dumps(spans_to_otlp_json(list(records))) + b"\n"
        with open(self._path, "ab", opener=_private) as file:
            file.write(line)

    def close(self) -> None:
        """Nothing is held between batches."""


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner may read: the content is not redacted."""
    return os.open(path, flags, 0o600)
