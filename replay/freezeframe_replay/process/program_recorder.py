"""ProgramRecorder: the run of a program that is watched from outside, as the spans that our seams would have written.

A proxy reports calls, and the program's own OpenTelemetry reports its tools. Spans go to the exporter as they end, on a
separate thread. Calls that overlap are in separate lanes, so that a replay takes them in any order.
"""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from freezeframe.export.export_queue import BatchDeadline, BatchResult, Exporter
from freezeframe.seams.recorder.enrich import describe_exchange
from freezeframe_replay.engine.speak import plain
from freezeframe_schemas import genai, values
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Kind, Lane, Request, Response
from freezeframe_schemas.gaps import Gap, GapKind, gaps_to_json
from freezeframe_schemas.lifecycle import NO_PARENT
from freezeframe_schemas.run import EntryKind
from freezeframe_schemas.span import AttributeValue, Resource, Scope, SpanKind, SpanRecord, StatusCode
from freezeframe_schemas.vendors.normalise import normalise
from freezeframe_schemas.wire.document import as_object, dump, parse

SCOPE: Final = Scope(name=f"{genai.SCOPE}.record")
SEAM: Final = "proxy"
PROXIED: Final = "forward-proxy"
"""The seam of calls of a program that used us as its proxy, as its replay does."""
_TELEMETRY_SEAM: Final = "otel"
_SEND_S: Final = 30.0
_FIRST_ERROR_STATUS: Final = 400
_UNSEEN: Final = "recorded from outside: calls that did not go through the proxy were not seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Allow-listed variables."""
    resource: Mapping[str, AttributeValue] = field(default_factory=dict[str, AttributeValue])


class ProgramRecorder:
    """Records one run. Safe to call from any thread."""

    def __init__(self, program: Program, exporter: Exporter) -> None:
        self.trace_id = secrets.token_hex(16)
        self.entry_id = secrets.token_hex(8)
        self.counts: dict[str, int] = {}
        """Kind of call -> how many were recorded."""
        self.cached = 0
        """Calls that an earlier run answered; they are not part of the recording."""
        self._program = program
        self._resource = Resource(attributes=program.resource)
        self._start_ns = time.time_ns()
        self._lock = threading.Lock()
        self._lanes: set[int] = set()
        self._spans: set[str] = set()
        """Ids of the program's own spans so far."""
        self._children: list[tuple[str, SpanRecord]] = []
        """Calls whose parent the program named and has not sent yet."""
        self._sender = _Sender(exporter)
        self._sender.put(self._pending())

    def begin(self) -> int:
        """Return the slot of a new call: 0 if no other is in progress."""
        with self._lock:
            slot = next(number for number in range(len(self._lanes) + 1) if number not in self._lanes)
            self._lanes.add(slot)
            return slot

    def lane(self, slot: int) -> Lane:
        """Return the lane of a slot: that of the program itself for the first."""
        return (slot - 1,) if slot else ()

    def note_cached(self) -> None:
        """Count a call that an earlier run answered."""
        with self._lock:
            self.cached += 1

    def end(self, slot: int) -> None:
        with self._lock:
            self._lanes.discard(slot)

    def add(self, exchange: Exchange, provider: str | None = None, *, parent: str = "") -> None:
        """Record a finished call. `parent` is the id of the program's own span that it was made in."""
        name, attributes = describe_exchange({}, exchange, provider)
        status = exchange.response.status
        failed = exchange.error is not None or (status is not None and status >= _FIRST_ERROR_STATUS)
        span = self._span(
            name=name,
            kind=SpanKind.CLIENT,
            start_time_unix_nano=exchange.start_time_unix_nano,
            end_time_unix_nano=exchange.end_time_unix_nano,
            attributes=attributes,
            status_code=StatusCode.ERROR if failed else StatusCode.UNSET,
        )
        with self._lock:
            self._count(exchange.kind)
            if parent and parent not in self._spans:
                self._children.append((parent, span))
                return
        self._sender.put(replace(span, parent_span_id=parent or self.entry_id))

    def hear(self, spans: Iterable[SpanRecord]) -> None:
        """Take the program's own spans into the run; one that reports a tool with its result is a recorded call."""
        reported = [self._taken(normalise(span)) for span in spans]
        with self._lock:
            self._spans.update(span.span_id for span in reported)
            ready = [(parent, child) for parent, child in self._children if parent in self._spans]
            self._children = [item for item in self._children if item not in ready]
        for span in reported:
            self._sender.put(span)
        for parent, child in ready:
            self._sender.put(replace(child, parent_span_id=parent))

    def finish(self, status: int) -> BatchResult:
        """End the run with the program's exit status; return the counts of its spans."""
        with self._lock:
            left, self._children = self._children, []
        for _, child in left:  # the program never sent the span that it named
            self._sender.put(replace(child, parent_span_id=self.entry_id))
        attributes = {
            **self._entry_attributes(),
            genai.ENTRY_OUTPUT: values.encode({"exit": status}),
            genai.ENTRY_EXCHANGES: sum(self.counts.values()) or None,
        }
        entry = self._span(
            name=self._program.argv[0].rpartition("/")[2],
            start_time_unix_nano=self._start_ns,
            end_time_unix_nano=time.time_ns(),
            attributes={name: value for name, value in attributes.items() if value is not None},
            status_code=StatusCode.ERROR if status else StatusCode.UNSET,
            status_message=f"exit status {status}" if status else "",
        )
        self._sender.put(replace(entry, span_id=self.entry_id))
        return self._sender.close()

    # -- spans ------------------------------------------------------------------------------------------------------------

    def _span(self, **fields: Any) -> SpanRecord:
        return SpanRecord(trace_id=self.trace_id, span_id=secrets.token_hex(8), resource=self._resource, scope=SCOPE, **fields)

    def _pending(self) -> SpanRecord:
        """Return the span that marks the beginning of the run, see `freezeframe_schemas.lifecycle`."""
        span = self._span(
            name=self._program.argv[0].rpartition("/")[2],
            start_time_unix_nano=self._start_ns,
            end_time_unix_nano=self._start_ns,
            attributes={**self._entry_attributes(), genai.ENTRY_BEGUN: NO_PARENT},
        )
        return replace(span, parent_span_id=self.entry_id)

    def _entry_attributes(self) -> dict[str, AttributeValue]:
        gaps = [Gap(kind=GapKind.UNSEEN, text=_UNSEEN)]
        if self.cached:
            gaps.append(
                Gap(kind=GapKind.EXCHANGES_LOST, text=f"{self.cached} calls were answered from an earlier run and not recorded")
            )
        return {
            genai.OPERATION_NAME: genai.OP_INVOKE_WORKFLOW,
            genai.WORKFLOW_NAME: self._program.argv[0].rpartition("/")[2],
            genai.ENTRY_KIND: EntryKind.PROGRAM.value,
            genai.ENTRY_TARGET: self._program.argv[0],
            genai.ENTRY_INPUT: values.encode({"argv": list(self._program.argv)}),
            genai.ENTRY_RANDOM_STATE: genai.RANDOM_UNUSED,
            genai.ENTRY_ENVIRONMENT: dump(dict(self._program.environment)),
            genai.FLAGS: "{}",
            genai.ENTRY_GAPS: gaps_to_json(gaps),
        }

    def _taken(self, span: SpanRecord) -> SpanRecord:
        """Return one of the program's spans as part of this run's trace."""
        parent = span.parent_span_id or self.entry_id
        placed = replace(span, trace_id=self.trace_id, parent_span_id=parent)
        exchange = tool_call_of(placed)
        if exchange is None:
            return placed
        with self._lock:
            self._count(exchange.kind)
        name, attributes = describe_exchange(span.attributes, exchange, None)
        return replace(placed, name=name, attributes=attributes)

    def _count(self, kind: Kind) -> None:
        self.counts[kind.value] = self.counts.get(kind.value, 0) + 1


def tool_call_of(span: SpanRecord) -> Exchange | None:
    """Return the call of a tool that a program's own span reports, if it holds arguments and result."""
    name = span.text(genai.TOOL_NAME)
    if span.text(genai.OPERATION_NAME) != genai.OP_EXECUTE_TOOL or not name:
        return None
    arguments, result = span.attributes.get(genai.TOOL_CALL_ARGUMENTS), span.attributes.get(genai.TOOL_CALL_RESULT)
    failed = span.status_code is StatusCode.ERROR
    if arguments is None or (result is None and not failed):
        return None
    arguments_object = as_object(plain(parse(arguments))) if isinstance(arguments, str) else {}
    error = RuntimeError(span.status_message or span.text(genai.ERROR_TYPE) or "failed") if failed else None
    text = result if isinstance(result, str) and _is_json(result) else dump(result if isinstance(result, str) else None)
    return Exchange(
        kind=Kind.TOOL,
        name=name,
        seam=_TELEMETRY_SEAM,
        request=Request(body=dump({"args": [], "kwargs": arguments_object}).encode()),
        response=Response(completion=Completion.NONE) if error else Response(chunks=(Chunk(data=text.encode()),)),
        error=None if error is None else values.encode_exception(error),
        span_id=span.span_id,
        start_time_unix_nano=span.start_time_unix_nano,
        end_time_unix_nano=span.end_time_unix_nano,
        call_id=span.text(genai.TOOL_CALL_ID),
    )


def _is_json(text: str) -> bool:
    return text == "null" or parse(text) is not None


class _Sender:
    """Hands spans to the exporter, on a separate thread."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._queue: queue.SimpleQueue[SpanRecord | None] = queue.SimpleQueue()
        self._fate = BatchResult()
        self._thread = threading.Thread(target=self._work, name="freezeframe-record", daemon=True)
        self._thread.start()

    def put(self, span: SpanRecord) -> None:
        self._queue.put(span)

    def close(self) -> BatchResult:
        """Send the remaining spans, and return the counts of all."""
        self._queue.put(None)
        self._thread.join()
        self._exporter.close()
        return self._fate

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            batch, ends = [first], False
            while not ends and not self._queue.empty():
                following = self._queue.get()
                ends = following is None
                batch += [] if following is None else [following]
            self._fate += self._export(batch)
            if ends:
                return

    def _export(self, batch: Sequence[SpanRecord]) -> BatchResult:
        try:
            return self._exporter.export(batch, BatchDeadline(_SEND_S))
        except Exception as error:  # counted, and reported when the run ends
            return BatchResult(failed=len(batch), why=f"{type(error).__name__}: {error}")
