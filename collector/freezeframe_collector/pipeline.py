"""The pipeline: a request's bytes -> spans -> stages -> encoded -> log. It calls the stages; they never call each other.

It runs in the receivers' worker threads, or for small requests in their event loop, and returns once the
accepted spans are on the disk and the sender may be answered.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain
from typing import Final, Protocol

from freezeframe_collector.admission import ByteBudget
from freezeframe_collector.batch import Appended, Batch, EncodedSpan, LogWriter, encode_spans
from freezeframe_collector.casts.found import Found
from freezeframe_collector.store import Rejected
from freezeframe_schemas import genai
from freezeframe_schemas.errors import FreezeframeError, WireError
from freezeframe_schemas.otlp.decode import Decoded, Limits, SpanFault, decode_traces
from freezeframe_schemas.otlp.logs import DecodedLogs, decode_json_logs, decode_logs
from freezeframe_schemas.span import SpanRecord

_LOG = logging.getLogger(__name__)

_SCOPES_COUNTED: Final = 200
Decoder = Callable[[bytes, Limits], Decoded]
Apply = Callable[[SpanRecord, str], SpanRecord]


class RequestStage(Protocol):
    """A stage's work on one request as a whole."""

    def __call__(self, span: SpanRecord, tenant: str) -> SpanRecord:
        """Do the stage's step on each span, in order."""
        ...

    def finish(self, span: SpanRecord, tenant: str) -> SpanRecord:
        """Finish each span that was not rejected, after all have been read, in the same order."""
        ...

    def found(self) -> tuple[Found, ...]:
        """Return the values found in the request's runs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A named step from span to span. If it raises, the span is rejected with the stage's name as the reason."""

    name: str
    apply: Apply
    """Takes the span and its tenant."""
    begin: Callable[[], RequestStage] | None = None
    """Returns the stage of one request, if it looks at requests as a whole."""
    waits: bool = False
    """It may wait for others, so that no event loop may run it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a request. Its accepted and duplicate spans are durable."""

    received: int
    duplicate: int
    rejected: int
    message: str = ""
    """For the sender, if spans were rejected: the first reason. Never content."""


class Meter:
    """Counts for telemetry. They start at 0 with the process; the books that must balance are the log's (`Audit`)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.rejected_by_reason: Counter[str] = Counter()
        self.spans_by_dialect: Counter[str] = Counter()
        self.spans_by_unknown_scope: Counter[str] = Counter()

    def add(self, **amounts: int) -> None:
        with self._lock:
            for name, amount in amounts.items():
                self.counts[name] += amount

    def note_conventions(self, spans: Sequence[SpanRecord]) -> None:
        """Count spans by the dialect that read them, and those without GenAI content by scope."""
        with self._lock:
            for span in spans:
                source = span.attributes.get(genai.NORMALISED_FROM)
                if isinstance(source, str):
                    self.spans_by_dialect[source] += 1
                elif genai.OPERATION_NAME not in span.attributes and genai.EXCHANGE_KIND not in span.attributes:
                    name = span.scope.name[:100]
                    known = name in self.spans_by_unknown_scope or len(self.spans_by_unknown_scope) < _SCOPES_COUNTED
                    self.spans_by_unknown_scope[name if known else "others"] += 1

    def reject(self, rejected: Sequence[Rejected]) -> None:
        """Count rejected spans by reason."""
        with self._lock:
            self.rejected_by_reason.update(item.reason for item in rejected)

    def drain(self) -> dict[str, dict[str, int]]:
        """Return all counts by the name of their counter, and start again at 0: a worker's, for the owner to `merge`."""
        with self._lock:
            drained = {name: dict(counter) for name, counter in self._counters().items() if counter}
            for counter in self._counters().values():
                counter.clear()
        return drained

    def merge(self, taken: Mapping[str, Mapping[str, int]]) -> None:
        """Add the counts that `drain` returned elsewhere."""
        with self._lock:
            counters = self._counters()
            for name, counts in taken.items():
                counters[name].update(counts)

    def _counters(self) -> dict[str, Counter[str]]:
        return {
            "counts": self.counts,
            "rejected_by_reason": self.rejected_by_reason,
            "spans_by_dialect": self.spans_by_dialect,
            "spans_by_unknown_scope": self.spans_by_unknown_scope,
        }


class Pipeline:
    """The function that receivers call with each batch."""

    def __init__(
        self,
        *,
        stages: Sequence[Stage],
        log: LogWriter,
        budget: ByteBudget,
        limits: Limits,
        meter: Meter,
    ) -> None:
        self.meter = meter
        self.budget = budget
        self._stages = tuple(stages)
        self._waits = any(stage.waits for stage in stages)
        self._log = log
        self._gathering = Gathering(log)
        self._limits = limits

    def renew(self, *, stages: Sequence[Stage], limits: Limits) -> None:
        """Use these from the next request on."""
        self._stages, self._limits = tuple(stages), limits
        self._waits = any(stage.waits for stage in stages)

    def export(self, body: bytes, *, tenant: str = "", decode: Decoder = decode_traces) -> Outcome:
        """Take one request; return when it is durable.

        Raises:
            BusyError: nothing was taken; the sender should try again.
            WireError: the body is not a valid request; trying again is useless.
        """
        with self.budget.reserve(len(body)):
            batch = self._batch(body, tenant, decode)
            duplicate = 0 if batch.is_empty else self._log.submit(batch).result().duplicate
            return self._note(batch, duplicate, len(body))

    async def export_small(self, body: bytes, *, tenant: str = "", decode: Decoder = decode_traces) -> Outcome:
        """Do what `export` does, in an event loop, for a request so small that it holds the loop for a moment only.

        A thread's hand-over and back would cost more than the work itself; the log gets such requests together (`Gathering`).
        Only the outcome of the first one counts the duplicates among them all. It does not wait for the budget.

        Raises:
            BusyError: as `export`, or the budget is spent at the moment.
            WireError: as `export`.
        """
        if self._waits:
            return await asyncio.to_thread(self.export, body, tenant=tenant, decode=decode)
        with self.budget.reserve_now(len(body)):
            batch = self._batch(body, tenant, decode)
            duplicate = 0 if batch.is_empty else await self._gathering.append(batch)
            return self._note(batch, duplicate, len(body))

    def _note(self, batch: Batch, duplicate: int, size_bytes: int) -> Outcome:
        """Return the outcome of a durable request, and count it."""
        rejected = batch.rejected
        received = len(batch.encoded) + len(rejected)
        if rejected:
            self.meter.reject(rejected)
        self.meter.add(requests=1, bytes=size_bytes, spans=received, duplicates=duplicate)
        return Outcome(
            received=received,
            duplicate=duplicate,
            rejected=len(rejected),
            message=_message(rejected) if rejected else "",
        )

    def decode_events(self, body: bytes, limits: Limits) -> Decoded:
        """Decode a logs request for `export`: its GenAI events; other records are counted.

        Raises:
            WireError: the body is not a valid request.
        """
        return self._counted(decode_logs(body, limits))

    def decode_json_events(self, body: bytes, limits: Limits) -> Decoded:
        """Do what `decode_events` does, for a request in JSON."""
        return self._counted(decode_json_logs(body, limits))

    def _counted(self, logs: DecodedLogs) -> Decoded:
        self.meter.add(events=len(logs.events.spans), log_records_ignored=logs.others)
        return logs.events

    def _batch(self, body: bytes, tenant: str, decode: Decoder) -> Batch:
        """Run all steps before the log."""
        decoded = decode(body, self._limits)
        count = len(decoded.spans) + len(decoded.faults)
        if count > self._limits.spans:
            raise WireError(f"the request has {count} spans, the limit is {self._limits.spans}")
        rejected = [_rejected(fault, fault.reason, fault.detail, tenant) for fault in decoded.faults]
        spans: list[SpanRecord] = []
        wholes = [(stage.name, stage.begin()) for stage in self._stages if stage.begin is not None]
        begun = dict(wholes)
        stages = [(stage.name, begun.get(stage.name, stage.apply)) for stage in self._stages]
        for span in decoded.spans:
            owned = span.with_attributes({genai.TENANT: tenant}) if tenant else span
            accepted = _process(owned, tenant, stages, rejected)
            if accepted is not None:
                spans.append(accepted)
        for name, whole in wholes:
            finished = (_process(span, tenant, [(name, whole.finish)], rejected) for span in spans)
            spans = [span for span in finished if span is not None]
        self.meter.note_conventions(spans)
        try:
            encoded = encode_spans(spans)
        except WireError:
            spans, encoded = _encode_each(spans, rejected, tenant)
        found = tuple(item for _, whole in wholes for item in whole.found())
        return Batch(encoded=encoded, spans=spans, rejected=tuple(rejected), found=found)


def _process(span: SpanRecord, tenant: str, stages: Sequence[tuple[str, Apply]], rejected: list[Rejected]) -> SpanRecord | None:
    """Return the span after all stages; None if one rejects it, which is noted."""
    for name, apply in stages:
        try:
            span = apply(span, tenant)
        except FreezeframeError as error:
            # Our own errors name places and kinds, never content.
            rejected.append(_rejected(span, f"{name} failed", error.message, tenant))
            return None
        except Exception as error:
            # A bug here costs one span, which the log names, and not the service. The error's message may quote content.
            _LOG.error("span %s: %s failed: %s", span.span_id, name, type(error).__name__)
            rejected.append(_rejected(span, f"{name} failed", type(error).__name__, tenant))
            return None
    return span


def _rejected(span: SpanRecord | SpanFault, reason: str, detail: str, tenant: str) -> Rejected:
    return Rejected(
        trace_id=span.trace_id,
        span_id=span.span_id,
        name="",  # not redacted, or not even read
        reason=reason,
        detail=detail,
        time_unix_nano=time.time_ns(),
        tenant=tenant,
    )


def _encode_each(
    spans: Sequence[SpanRecord], rejected: list[Rejected], tenant: str
) -> tuple[list[SpanRecord], list[EncodedSpan]]:
    """Encode span by span, setting aside the ones that have no OTLP form."""
    kept: list[SpanRecord] = []
    encoded: list[EncodedSpan] = []
    for span in spans:
        try:
            encoded.extend(encode_spans([span]))
            kept.append(span)
        except WireError as error:
            rejected.append(_rejected(span, "no OTLP form", error.message, tenant))
    return kept, encoded


def _message(rejected: Sequence[Rejected]) -> str:
    first = rejected[0]
    where = f"span {first.span_id}: " if first.span_id else ""
    return f"{len(rejected)} spans rejected; the first: {where}{first.reason}: {first.detail}"


# -- Gathering: the small requests of one event loop go into the log together ------------------------------------------
# While the log syncs one group, the requests that come meanwhile become the next: one record, one hand-over to the
# log's thread and one back serve all of them. Handing each over by itself costs more than all other work on a request
# of one span.


_GROUP: Final = 1_000
"""Maximum number of requests in a group: some 16 MB."""
_Member = tuple[Batch, asyncio.Future[int]]


class Gathering:
    """Takes batches in one event loop, and answers each when the log has its group."""

    def __init__(self, log: LogWriter) -> None:
        self._log = log
        self._waiting: list[_Member] = []
        self._is_busy = False

    async def append(self, batch: Batch) -> int:
        """Wait until the batch is on the disk; return the duplicates of its whole group, to the first of the group alone.

        Raises:
            BusyError: the log did not take the group; nothing of it was kept.
        """
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        self._waiting.append((batch, answer))
        if not self._is_busy:
            self._is_busy = True
            loop.call_soon(self._send, loop)  # what the other connections have sent already comes along
        return await answer

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        group, self._waiting = self._waiting[:_GROUP], self._waiting[_GROUP:]
        try:
            appended = self._log.submit(_merged([batch for batch, _ in group]))
        except Exception as error:  # each member of the group gets it, as if it had asked alone
            self._answer(loop, group, error)
        else:
            appended.add_done_callback(lambda done: self._call_back(loop, group, done))

    def _call_back(self, loop: asyncio.AbstractEventLoop, group: Sequence[_Member], done: Future[Appended]) -> None:
        """Pass the answer from the log's thread to the loop's."""
        if not loop.is_closed():  # at the end of a service no one is left to receive it
            loop.call_soon_threadsafe(self._answer, loop, group, done.exception() or done.result().duplicate)

    def _answer(self, loop: asyncio.AbstractEventLoop, group: Sequence[_Member], result: int | BaseException) -> None:
        for index, (_, answer) in enumerate(group):
            if answer.done():  # its connection is gone
                continue
            if isinstance(result, int):
                answer.set_result(0 if index else result)
            else:
                answer.set_exception(result)
        self._is_busy = bool(self._waiting)
        if self._is_busy:
            self._send(loop)


def _merged(batches: Sequence[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    return Batch(
        encoded=[*chain.from_iterable(batch.encoded for batch in batches)],
        # all or none: a part of the spans would be taken for all of them
        spans=None if any(batch.spans is None for batch in batches) else [s for batch in batches for s in batch.spans or ()],
        rejected=tuple(chain.from_iterable(batch.rejected for batch in batches)),
        found=tuple(chain.from_iterable(batch.found for batch in batches)),
    )
