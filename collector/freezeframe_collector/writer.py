"""The writer: one thread that takes sealed segments in order and puts each into the store as one idempotent insert.

A store's answer is not trusted: a few of the spans are looked up before the log deletes them.

After a temporary failure, the insert is tried again for ever, with growing delays, while the log grows. A permanent failure is
caused by a span: the insert is halved until the span is found, which goes to the set-aside directory and the rejected table.
If the store refuses every span of a segment, the fault is the store's, and the segment is tried again a few times first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

from freezeframe_collector.files import replace_durably
from freezeframe_collector.settings.config import StoreConfig
from freezeframe_collector.store import Rejected
from freezeframe_collector.wal.log import Log
from freezeframe_collector.wal.segment import LoadedSpans, Segment
from freezeframe_schemas import genai
from freezeframe_schemas.data_directory import make_private
from freezeframe_schemas.errors import PermanentStoreError, StoreError
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import SpanRecord

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
_DETAIL_CHARACTERS: Final = 300
_SUSPICIOUS_REFUSALS: Final = 3
_LOOKED_FOR: Final = 8
"""Number of spans of a segment that are looked up, evenly spread, the first included."""
_Refusal = tuple[SpanRecord, str, str]
"""The span, the store's answer, and the token it was tried under."""


class SpanSink(Protocol):
    """The writer's view of a store."""

    def insert(self, spans: Sequence[SpanRecord], token: str) -> None:
        """Store the spans, durable on return; the same token again changes nothing."""
        ...

    def insert_rejected(self, rejected: Sequence[Rejected], token: str) -> None:
        """Store the reasons of rejected spans, durable on return; the same token again changes nothing."""
        ...

    def holds(self, spans: Sequence[SpanRecord]) -> bool:
        """Return whether the store has all of these few spans, by reading them."""
        ...


@dataclass(slots=True, kw_only=True)
class WriterState:
    """State of the writer, for telemetry. Written by its thread only."""

    segments: int = 0
    spans: int = 0
    retries: int = 0
    set_aside: int = 0
    busy_since: float | None = None
    """Monotonic seconds when the segment in progress was taken."""
    last_error: str = ""
    """Empty after a success."""


class _StoppedError(Exception):
    """The writer was asked to stop between two tries."""


class _AllRefusedError(Exception):
    """The store refused one span after another and accepted none: the fault seems to be the store's."""


@dataclass(slots=True, kw_only=True)
class _BisectState:
    """One search for the spans that the store refuses."""

    patience: int
    """Consecutive refusals after which the search is given up."""
    refused: int = 0
    stored: bool = False


class Writer:
    """Carries the log's segments into the store."""

    def __init__(
        self,
        log: Log,
        sink: SpanSink,
        set_aside: Path,
        config: StoreConfig | None = None,
        storing: threading.Lock | None = None,
    ) -> None:
        """`storing` is held while the store is written to: a rewrite of stored runs holds it, too."""
        self._storing = storing or threading.Lock()
        self.state = WriterState()
        self._log = log
        self._sink = sink
        self._set_aside = set_aside
        self._config = config or StoreConfig()
        self._stopping = threading.Event()
        self._retired = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="freezeframe-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    def wait_retired(self, segment: int, timeout_s: float) -> bool:
        """Wait until the store has every segment up to this one; return whether that happened."""
        with self._retired:
            return self._retired.wait_for(lambda: not self._log.holds_up_to(segment), timeout_s)

    def stop(self, timeout_s: float) -> bool:
        """Wait for the segments of a closed log, then stop; return whether the thread has ended."""
        self._thread.join(timeout_s)
        self._stopping.set()
        # One more moment for a thread that sleeps between two tries.
        self._thread.join(1.0)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (segment := self._log.next_sealed()) is not None:
            self.state.busy_since = time.monotonic()
            try:
                with self._storing:
                    self._carry(segment)
            except _StoppedError:
                return
            self.state.busy_since = None
            self.state.segments += 1
            with self._retired:
                self._retired.notify_all()

    def _carry(self, segment: Segment) -> None:
        """Move one segment from the log into the store."""
        token = f"{self._log.identity}-{segment.number:016d}"
        self._retry(lambda: self._log.take(segment))
        if segment.rejected:
            self._store_reasons(segment.rejected, f"{token}-rejected")
        loaded = self._load(segment)
        spans, lost = loaded.spans, segment.span_count - len(loaded.spans)
        if fault := loaded.fault or segment.damage:
            self._store_reasons([_damage(segment, fault, lost)], f"{token}-damaged")
        refused = self._insert(spans, token) if spans else []
        refused += self._insert_until_shown(spans, refused, token)
        if refused:
            self._put_aside(refused, token)
        stored, rejected = len(spans) - len(refused), len(refused)
        self._retry(lambda: self._log.retire(segment, stored=stored, rejected=rejected, lost=lost))
        self.state.spans += len(spans) - len(refused)

    def _load(self, segment: Segment) -> LoadedSpans:
        """Return the segment's spans, or the readable ones of a damaged file: later segments must not wait for ever."""
        loaded = LoadedSpans(spans=[])
        for attempt in range(1, self._config.permanent_attempts + 1):
            loaded = segment.load_spans()
            if not loaded.fault:
                return loaded
            self.state.retries += 1
            self.state.last_error = loaded.fault
            if attempt < self._config.permanent_attempts:
                self._pause(attempt)
        _LOG.error("%s: %s; the file is kept with the ending .damaged", segment.path, loaded.fault)
        for faulty in loaded.faulty:
            faulty.keep_damaged()
        return loaded

    def _insert(self, spans: Sequence[SpanRecord], token: str) -> list[_Refusal]:
        """Insert the spans; return the ones that the store refuses, each with its answer."""
        for attempt in range(1, self._config.permanent_attempts):
            try:
                return self._confirm(self._halve(spans, token, _BisectState(patience=_SUSPICIOUS_REFUSALS)))
            except _AllRefusedError as error:
                _LOG.error("the store refuses one span of %s after another: %s", token, error)
                self.state.last_error = str(error)
                self._pause(attempt)
        return self._confirm(self._halve(spans, token, _BisectState(patience=len(spans))))

    def _insert_until_shown(self, spans: Sequence[SpanRecord], refused: Sequence[_Refusal], token: str) -> list[_Refusal]:
        """Insert again, under another token, as long as the store accepts the spans but does not show them."""
        lost = {id(span) for span, _, _ in refused}
        inserted = [span for span in spans if id(span) not in lost]
        late: list[_Refusal] = []
        times = 0
        while inserted and not self._shows(inserted[:: max(1, len(inserted) // _LOOKED_FOR)]):
            times += 1
            _LOG.error("the store accepted the spans of %s but does not have them: inserting them again", token)
            late = self._insert(inserted, f"{token}-again{times}")
            lost = {id(span) for span, _, _ in late}
            inserted = [span for span in inserted if id(span) not in lost]
        return late

    def _shows(self, spans: Sequence[SpanRecord]) -> bool:
        """Return whether the store has the spans, at once or after the delays that a slow replica may need."""
        for attempt in range(1, self._config.permanent_attempts + 1):
            if self._retry(lambda: self._sink.holds(spans)):
                return True
            self.state.retries += 1
            self.state.last_error = "the store accepted the spans but does not show them"
            self._pause(attempt)
        return False

    def _halve(self, spans: Sequence[SpanRecord], token: str, hunt: _BisectState) -> list[_Refusal]:
        # The tokens of the halves depend on the segment alone: after a crash in the middle the same halves are tried again.
        try:
            self._retry(lambda: self._sink.insert(spans, token))
        except PermanentStoreError as error:
            if len(spans) > 1:
                middle = len(spans) // 2
                return self._halve(spans[:middle], f"{token}a", hunt) + self._halve(spans[middle:], f"{token}b", hunt)
            answer = error.message.partition("\n")[0][:_DETAIL_CHARACTERS]
            hunt.refused += 1
            if not hunt.stored and hunt.refused > hunt.patience:
                raise _AllRefusedError(answer) from None
            return [(spans[0], answer, token)]
        hunt.stored = True
        return []

    def _confirm(self, refused: Sequence[_Refusal]) -> list[_Refusal]:
        """Try each refused span once more: the store may have been repaired while the others were tried."""
        return [again for span, _, token in refused for again in self._halve([span], token, _BisectState(patience=1))]

    def _put_aside(self, refused: Sequence[_Refusal], token: str) -> None:
        """Keep refused spans as a file (redacted, like all spans here) and their reasons as rows."""
        data = encode_traces(span for span, _, _ in refused)
        reasons = [
            Rejected(
                trace_id=span.trace_id,
                span_id=span.span_id,
                name=span.name,
                reason="refused by the store",
                detail=answer,
                time_unix_nano=time.time_ns(),
                tenant=span.text(genai.TENANT) or "",
            )
            for span, answer, _ in refused
        ]

        def keep() -> None:
            make_private(self._set_aside)
            replace_durably(self._set_aside / f"{token}.traces.pb", data)

        self._retry(keep)
        self._store_reasons(reasons, f"{token}-refused")
        self.state.set_aside += len(refused)
        _LOG.error("%d spans set aside as %s.traces.pb: %s", len(refused), token, refused[0][1])

    def _store_reasons(self, reasons: Sequence[Rejected], token: str) -> None:
        try:
            self._retry(lambda: self._sink.insert_rejected(reasons, token))
        except PermanentStoreError as error:
            # The spans are counted and, if they were redacted, kept as a file; only the table lacks their rows.
            _LOG.error("the rejected table refuses %d rows of %s: %s", len(reasons), token, error.message)

    def _retry(self, step: Callable[[], _T]) -> _T:
        """Take the step until it succeeds or fails for good.

        Raises:
            PermanentStoreError: the store's answer will not change.
            _StoppedError: the writer is to stop.
        """
        attempt = 0
        while True:
            try:
                result = step()
            except PermanentStoreError:
                raise
            except (StoreError, OSError) as error:
                attempt += 1
                self.state.retries += 1
                self.state.last_error = f"{type(error).__name__}: {error}"[:_DETAIL_CHARACTERS]
                _LOG.warning("the store did not accept it, try %d: %s", attempt, self.state.last_error)
                self._pause(attempt)
            else:
                self.state.last_error = ""
                return result

    def _pause(self, attempt: int) -> None:
        delay_s = min(self._config.retry_max_s, self._config.retry_initial_s * 2 ** min(attempt - 1, 20))
        if self._stopping.wait(delay_s):
            raise _StoppedError


def _damage(segment: Segment, fault: str, lost: int) -> Rejected:
    """Return the row for acked spans that the disk lost: `lost` since the log was opened, the others before."""
    count = segment.counts.lost + lost
    lost_spans = f"{count} spans" if count else "an unknown number of spans"
    detail = f"{lost_spans}: {fault}; damaged files are kept as wal/*.damaged"
    return Rejected(
        trace_id="",
        span_id="",
        name="",
        reason="the log was damaged",
        detail=detail[:_DETAIL_CHARACTERS],
        time_unix_nano=time.time_ns(),
    )
