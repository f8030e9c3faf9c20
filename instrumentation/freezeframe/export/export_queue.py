"""ExportQueue: from a finished span to a batch on the wire or in a file, on its own thread.

The application's thread appends to a bounded queue and goes on. Nothing here blocks it, and nothing raises into
it: spans that cannot be kept or sent are dropped, counted and reported. A forked child starts with an empty
queue and its own thread.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from freezeframe._guard import guard, log_once, logger, report
from freezeframe.context.current import PLACE, Lane, Place
from freezeframe.seams.recorder.hiding import Hiding
from freezeframe.seams.recorder.sink import Payload
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.span import Attributes, Resource, SpanRecord

_MAX_TRACES: Final = 1000
"""Runs in progress at once; beyond this, ids of the oldest are no longer found."""


class CallIds:
    """The calls that models asked for and no tool has answered yet, by trace."""

    def __init__(self) -> None:
        self._asked: OrderedDict[str, list[tuple[str, str, Any]]] = OrderedDict()

    def link(self, record: SpanRecord) -> SpanRecord:
        """Return the span; a tool's span without a call id gets the id of the call that it answers."""
        kind = record.text(genai.EXCHANGE_KIND)
        if kind == Kind.MODEL.value:
            self._note(record)
        elif kind == Kind.TOOL.value:
            return self._answer(record)
        return record

    def _note(self, record: SpanRecord) -> None:
        text = record.text(genai.OUTPUT_MESSAGES)
        if text is None or '"tool_call"' not in text:
            return
        open_calls = self._asked.setdefault(record.trace_id, [])
        self._asked.move_to_end(record.trace_id)
        for message in json.loads(text):
            for part in message.get("parts", ()):
                if part.get("type") == "tool_call" and part.get("id"):
                    open_calls.append((part["id"], part.get("name", ""), _parsed(part.get("arguments"))))
        while len(self._asked) > _MAX_TRACES:
            self._asked.popitem(last=False)

    def _answer(self, record: SpanRecord) -> SpanRecord:
        open_calls = self._asked.get(record.trace_id)
        if not open_calls:
            return record
        call_id = record.text(genai.TOOL_CALL_ID)
        if call_id is not None:
            self._asked[record.trace_id] = [call for call in open_calls if call[0] != call_id]
            return record
        name, arguments = record.text(genai.TOOL_NAME), _parsed(record.text(genai.TOOL_CALL_ARGUMENTS))
        same_name = [call for call in open_calls if call[1] == name]
        match = next((call for call in same_name if call[2] == arguments), same_name[0] if len(same_name) == 1 else None)
        if match is None:
            return record
        open_calls.remove(match)
        return record.with_attributes({genai.TOOL_CALL_ID: match[0]})


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class BatchDeadline:
    """The time until which a batch may be tried. The end of the process brings it forward and wakes any waiter."""

    def __init__(self, timeout_s: float, *, hurry: threading.Event | None = None) -> None:
        self._until_s = time.monotonic() + timeout_s
        self._hurry = hurry or threading.Event()
        self._inner: BatchDeadline | None = None

        self._is_first = False

    def within(self, timeout_s: float) -> BatchDeadline:
        """Return a deadline for a first attempt that leaves at least half of the time for a second."""
        self._inner = BatchDeadline(min(timeout_s, self.left_s / 2), hurry=self._hurry)
        self._inner._is_first = True
        return self._inner

    @property
    def is_hopeless_if_down(self) -> bool:
        """Return whether to give up without a collector: the process is ending, and the batch can be kept elsewhere."""
        return self._is_first and self._hurry.is_set()

    @property
    def left_s(self) -> float:
        """Seconds left, negative once it has passed."""
        return self._until_s - time.monotonic()

    def bring_forward(self, timeout_s: float) -> None:
        """Leave at most `timeout_s` from now."""
        self._until_s = min(self._until_s, time.monotonic() + timeout_s)
        if self._inner is not None:
            self._inner.bring_forward(timeout_s / 2)
        self._hurry.set()

    def wait(self, seconds: float) -> None:
        """Sleep before the next try; once the process is ending, at most a tenth of the time left."""
        if self._hurry.wait(seconds):
            time.sleep(max(0.0, min(seconds, self.left_s / 10)))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """Outcome of the spans of a batch."""

    delivered: int = 0
    spooled: int = 0
    """On the disk, to be delivered later."""
    failed: int = 0
    why: str = ""
    """Reason for the failures."""

    def __add__(self, other: BatchResult) -> BatchResult:
        return BatchResult(
            delivered=self.delivered + other.delivered,
            spooled=self.spooled + other.spooled,
            failed=self.failed + other.failed,
            why=self.why or other.why,
        )


class Exporter(Protocol):
    """The destination of batches. Only the queue's thread calls it."""

    def export(self, records: Sequence[SpanRecord], deadline: BatchDeadline) -> BatchResult:
        """Deliver the batch before the deadline; raise if all of it failed."""
        ...

    def idle(self) -> bool:
        """Deliver a few waiting batches, if there is time between new ones; return whether more are waiting."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


@dataclass(slots=True)
class DeliveryCounts:
    """Counts of spans by outcome, for `doctor` and the log."""

    exported: int = 0
    dropped: int = 0
    """Did not fit into the queue."""
    failed: int = 0
    """Could not be delivered."""
    spooled: int = 0
    """On the disk because the collector was down; a later process delivers them if this one does not."""

    @property
    def lost(self) -> int:
        """Return how many spans are gone."""
        return self.dropped + self.failed


_Item = tuple["ReadableSpan", "Payload | None", int]


class ExportQueue:
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
        hiding: Hiding | None = None,
        note_call: Callable[[SpanRecord], None] | None = None,
    ) -> None:
        """`note_call`: takes each span that was recorded here, before anything is hidden; it may raise."""
        self.counts = DeliveryCounts()
        self.exporter = exporter
        self._environment = environment
        self.max_queue_bytes = max_queue_bytes
        self._batch_bytes = batch_bytes
        self._batch_interval_s = batch_interval_s
        self._export_timeout_s = export_timeout_s
        self._hiding = hiding
        self._note_call = note_call
        self._extra: Attributes | None = None
        self._call_ids = CallIds()
        self._resources: dict[int, tuple[Any, Resource]] = {}
        self._reset()
        os.register_at_fork(before=self._wait_for_imports, after_in_child=self._reset)

    def _reset(self) -> None:
        """Start afresh: at first, and in a forked child, whose copy of the queue belongs to the parent."""
        self._queue: deque[_Item] = deque()
        self._queued_bytes = 0
        self._busy = False
        self._hurry = False
        self._closing = False
        self._draining = False
        self._deadline: BatchDeadline | None = None
        self._ending = threading.Event()
        """The process is about to end."""
        self._in_flight = 0
        self._due_s = math.inf
        """Time at which urgent spans are sent."""
        self._prompt_from_s = 0.0
        self._aside = False
        self._changed = _make_condition()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def aside(self) -> Generator[None]:
        """Stop the thread while the block replaces the process's threads and locks (gevent, eventlet); then start a new one."""
        with self._changed:
            thread, self._aside = self._thread, True
            self._changed.notify_all()
        if thread is not None:
            thread.join(_DRAIN_AT_END_S)  # if it is still delivering, it ends afterwards
        try:
            yield
        finally:
            self._changed, self._ending = _make_condition(), threading.Event()
            self._aside, self._busy, self._in_flight, self._thread = False, False, 0, None
            if self._queue:
                self.wake()

    def _wait_for_imports(self) -> None:
        """Wait, before a fork, until our thread has finished the import it is in.

        The child would have the module half imported and no thread to finish it: it could never export a span.
        """
        with guard("export_queue.fork"):
            for _ in range(_IMPORT_MS):
                if self._thread is None or not is_importing(self._thread):
                    break
                self._thread.join(0.001)

    def put(self, span: ReadableSpan, payload: Payload | None, *, promptly: bool = False) -> None:
        """Take a finished span; it waits for others unless it is urgent. Never blocks longer than a short lock."""
        size = size_of(span, payload)
        with self._changed:
            if self._closing:
                return
            if self._queued_bytes + size > self.max_queue_bytes:
                self.counts.dropped += 1
                dropped = self.counts.dropped
            else:
                dropped = 0
                self._queue.append((span, payload, size))
                self._queued_bytes += size
                self.wake()
                if promptly:
                    self._due_s = min(self._due_s, self._prompt_from_s)
                if promptly or self._queued_bytes >= self._batch_bytes:
                    self._changed.notify_all()
        if dropped:
            log_once(
                "export_queue.dropped",
                "freezeframe: the queue is full (%d bytes), spans are being dropped",
                self.max_queue_bytes,
            )

    def wake(self) -> None:
        """Start the thread if it is missing: before the first span, if the exporter has work to do."""
        with self._changed:
            if self._thread is None and not self._aside:
                self._start()

    def flush(self, timeout_s: float) -> bool:
        """Deliver what is queued. Return whether all of it was delivered in time."""
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while self._queue or self._busy:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or self._thread is None or not self._thread.is_alive():
                    break
                self._hurry = True
                self._changed.notify_all()
                self._changed.wait(min(left_s, 0.5))
            self._hurry = False
            return not self._queue and not self._busy

    def flush_for_the_end(self, timeout_s: float) -> bool:
        """Deliver what is queued, and limit a delivery in progress to that time too: the process is about to end."""
        with self._changed:
            self._export_timeout_s = min(self._export_timeout_s, timeout_s)
            self._ending.set()
            if self._deadline is not None:
                self._deadline.bring_forward(timeout_s)
        return self.flush(timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Deliver what is queued, within `timeout_s`, and accept no more."""
        done = self.flush_for_the_end(timeout_s)
        if done:
            self._drain(min(timeout_s, _DRAIN_AT_END_S))
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            self.counts.failed += len(self._queue) + self._in_flight
            thread = self._thread
        if thread is None:
            self._close_exporter()
        elif done:
            thread.join(min(timeout_s, _DRAIN_AT_END_S))
        counts = self.counts
        if counts.lost:
            logger.warning(
                "freezeframe: %d spans were delivered, %d spooled, %d did not fit the queue, %d could not be sent",
                *(counts.exported, counts.spooled, counts.dropped, counts.failed),
            )
        return done

    def _drain(self, timeout_s: float) -> None:
        """Deliver batches that earlier processes left, for a limited time."""
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            self._draining = self._thread is not None and self._thread.is_alive()
            self._changed.notify_all()
            while self._draining and (left_s := deadline_s - time.monotonic()) > 0:
                self._changed.wait(min(left_s, 0.5))
            self._draining = False

    # -- the thread -----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        # The thread belongs to no run and takes no ordinal from the application's lanes.
        token = PLACE.set(Place(lane=Lane()))
        try:
            self._thread = threading.Thread(target=self._work, args=(self._changed,), name="freezeframe-export", daemon=True)
            self._thread.start()
        except RuntimeError:  # the interpreter is shutting down: no new threads
            self._thread = None
        finally:
            PLACE.reset(token)

    def _work(self, changed: threading.Condition) -> None:
        from opentelemetry import context

        # Neither our seams nor other instrumentations may see the exporter's work.
        context.attach(context.set_value("suppress_instrumentation", True, context.Context()))
        with guard("environment"):
            self._extra = self._environment()
        more = False
        while self._changed is changed:
            with changed:
                if not self._queue and self._closing:
                    break
                if not more:
                    self._wait_for_batch()
                if self._aside:
                    return
                batch = self._take()
                if self._hurry and not batch:
                    # Then wait: with gevent, only a thread that waits lets the others run.
                    self._hurry = False
                    continue
                self._busy = bool(batch)
                self._in_flight = len(batch)
                deadline = self._deadline = BatchDeadline(self._export_timeout_s, hurry=self._ending)
            more = False
            try:
                if batch:
                    self._deliver(batch, deadline)
                elif not self._hurry:
                    more = self.exporter.idle()
            except Exception as error:
                with guard("export_queue"):
                    report("export_queue", error)
            finally:
                if self._changed is changed:
                    self._delivered(more=more or bool(batch))
        if self._changed is changed:
            self._close_exporter()

    def _delivered(self, *, more: bool) -> None:
        with self._changed:
            self._busy = False
            self._in_flight = 0
            self._draining = self._draining and more
            self._changed.notify_all()

    def _close_exporter(self) -> None:
        with guard("exporter.close"):
            self.exporter.close()

    def _wait_for_batch(self) -> None:
        """Wait for a full batch, for the interval, or until an urgent span is due."""
        until_s = time.monotonic() + self._batch_interval_s
        while not (self._hurry or self._closing or self._aside or self._draining or self._queued_bytes >= self._batch_bytes):
            left_s = min(until_s, self._due_s) - time.monotonic()
            if left_s <= 0:
                break
            self._changed.wait(left_s)
        if self._due_s < math.inf:
            self._due_s = math.inf
            self._prompt_from_s = time.monotonic() + _PROMPT_EVERY_S

    def _take(self) -> list[_Item]:
        batch: list[_Item] = []
        size = 0
        while self._queue and (not batch or size + self._queue[0][2] <= self._batch_bytes):
            item = self._queue.popleft()
            size += item[2]
            batch.append(item)
        self._queued_bytes -= size
        return batch

    def _deliver(self, batch: list[_Item], deadline: BatchDeadline) -> None:
        records = [record for item in batch if (record := self._record(item)) is not None]
        try:
            result = self.exporter.export(records, deadline)
        except Exception as error:  # the network, the disk or the collector failed: never the application's concern
            result = BatchResult(failed=len(records), why=f"{type(error).__name__}: {error}")
        with self._changed:
            self.counts.exported += result.delivered
            self.counts.spooled += result.spooled
            # `close` has counted the whole batch as failed if it gave it up.
            self.counts.failed += result.failed + len(batch) - len(records) - (len(batch) if self._closing else 0)
            self._in_flight = 0
        if result.failed:
            log_once("export_queue.failed", "freezeframe: %d spans could not be delivered: %s", result.failed, result.why)

    def _record(self, item: _Item) -> SpanRecord | None:
        from freezeframe.export.records import record_from_span

        span, payload, _ = item
        record = None
        with guard("record"):
            record = record_from_span(span, self._resource(span), payload)
            if payload is not None:
                record = self._call_ids.link(record)
                if self._note_call is not None:
                    with guard("metrics"):
                        self._note_call(record)
            if self._hiding:
                record = replace(record, attributes=self._hiding.of(record.attributes))
        return record

    def _resource(self, span: ReadableSpan) -> Resource:
        """Return the span's resource with the environment's attributes, one object per SDK resource."""
        from freezeframe.export.records import resource_from_sdk

        known = self._resources.get(id(span.resource))
        if known is None:
            known = self._resources[id(span.resource)] = (span.resource, resource_from_sdk(span.resource, self._extra or {}))
        return known[1]


_PROMPT_EVERY_S = 0.05
"""Minimum interval between early batches: many runs that begin at once share a request."""
_DRAIN_AT_END_S = 2.0
"""Time at the end of a process for the batches of earlier ones, and for a delivery in progress."""
_IMPORT_MS = 2000
"""Maximum time that a fork waits for an import on our thread. One takes milliseconds."""


def _make_condition() -> threading.Condition:
    # Reentrant: a garbage collection meanwhile may drop a response, whose recording then ends here, on this thread.
    return threading.Condition(threading.RLock())


_SPAN_BYTES = 1000
"""Approximate size of a span without content."""


def size_of(span: ReadableSpan, payload: Payload | None) -> int:
    """Return roughly how many bytes of memory a finished span holds."""
    size = _SPAN_BYTES
    for value in (span.attributes or {}).values():
        size += len(value) if isinstance(value, str | bytes) else 16
    return size if payload is None else size + payload.size


def is_importing(thread: threading.Thread) -> bool:
    """Return whether the thread is somewhere inside an import statement."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
