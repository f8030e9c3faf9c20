"""The collector's reports about itself: structured logs, health, Prometheus metrics, status. Never a payload."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict
from types import TracebackType
from typing import Final

from aiohttp.http_exceptions import HttpProcessingError

from freezeframe_collector.admission import BudgetState
from freezeframe_collector.casts.book import RunCasts
from freezeframe_collector.files import free_bytes
from freezeframe_collector.pipeline import Meter
from freezeframe_collector.settler import Settler
from freezeframe_collector.store.parts import PartWatch
from freezeframe_collector.wal.log import Log
from freezeframe_collector.wal.segment import count_damaged
from freezeframe_collector.writer import Writer

_RATE_S: Final = 60
STUCK_S: Final = 60.0
"""Time after which a segment in progress makes the collector not ready."""


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            # The type and the place, not the message: an exception's text may quote what it choked on.
            line["error"] = record.exc_info[0].__name__
            line["where"] = _innermost(record)
        return json.dumps(line, ensure_ascii=False)


def _innermost(record: logging.LogRecord) -> str:
    traceback = record.exc_info[2] if record.exc_info else None
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return ""
    return f"{os.path.basename(traceback.tb_frame.f_code.co_filename)}:{traceback.tb_lineno}"


def _log_client_error(record: logging.LogRecord) -> bool:
    """Shorten to one line the errors that aiohttp logs for clients that left, or that did not send valid HTTP."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, ConnectionError):
        fault = "a client disconnected in the middle of its request"
    elif isinstance(error, HttpProcessingError):
        fault = "a client sent invalid HTTP"
    else:
        return True
    logger = logging.getLogger(__name__)
    if logger.isEnabledFor(logging.INFO):
        address = record.args[0] if isinstance(record.args, tuple) and record.args else "an unknown address"
        logger.info("http: %s, from %s", fault, address)
    return False


def configure_logging(level: str) -> None:
    """Send every log line of the process to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # aiohttp's access log names every request; the metrics count them.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.getLogger("aiohttp.server").addFilter(_log_client_error)
    # The writer already logs each attempt on a server that is away.
    for name in ("urllib3", "clickhouse_connect"):
        logging.getLogger(name).setLevel(logging.ERROR)


def hide_exception_text() -> None:
    """Log an uncaught exception like any error: its type and place, never its text or the arguments of a call.

    Python prints exceptions that end a thread or the process with their text, and asyncio callbacks with their arguments:
    either may hold data that was being read.
    """
    sys.excepthook = lambda type_, error, traceback: _log_unhandled("ended by an exception", type_, error, traceback)
    threading.excepthook = lambda args: _log_unhandled("a thread ended", args.exc_type, args.exc_value, args.exc_traceback)
    sys.unraisablehook = lambda args: _log_unhandled("unhandled exception", args.exc_type, args.exc_value, args.exc_traceback)
    logging.getLogger("asyncio").addFilter(_without_arguments)


def _log_unhandled(what: str, type_: type[BaseException], error: BaseException | None, traceback: TracebackType | None) -> None:
    if not issubclass(type_, SystemExit | KeyboardInterrupt):
        logging.getLogger(__name__).critical(what, exc_info=(type_, error or type_(), traceback))


def _without_arguments(record: logging.LogRecord) -> bool:
    """Keep the first line of asyncio's report of an exception: its other lines show futures, tasks and handles."""
    if record.exc_info:
        first_line = record.getMessage().partition("\n")[0]
        record.msg, record.args = (
            ("Exception in callback" if first_line.startswith("Exception in callback") else first_line),
            None,
        )
    return True


class Reporter:
    """The pages behind ``/healthz``, ``/readyz``, ``/metrics``, ``/status`` and ``POST /v1/flush``."""

    def __init__(
        self,
        *,
        log: Log,
        writer: Writer,
        meter: Meter,
        budget: Callable[[], BudgetState],
        max_log_bytes: int,
        describe: Callable[[], dict[str, object]],
        parts: PartWatch | None = None,
        casts: RunCasts | None = None,
        settler: Settler | None = None,
    ) -> None:
        self._casts = casts
        self._settler = settler
        self._parts = parts
        self._ticks: deque[tuple[float, int, int]] = deque(maxlen=_RATE_S + 1)
        self._log = log
        self._writer = writer
        self._meter = meter
        self._budget = budget
        self._max_log_bytes = max_log_bytes
        self._describe = describe
        self._started_at = time.monotonic()
        self.stopping = False

    def tick(self) -> None:
        """Note the counts, once a second: `rates` are computed from them."""
        counts = self._log.audit().counts
        self._ticks.append((time.monotonic(), counts.received, counts.stored))

    def rates(self) -> dict[str, float]:
        """Return spans per second over the last minute, and how many seconds that was."""
        if len(self._ticks) < 2:
            return {"over_s": 0.0, "received": 0.0, "stored": 0.0}
        (since, received, stored), (until, received_now, stored_now) = self._ticks[0], self._ticks[-1]
        over_s = max(until - since, 0.001)
        return {
            "over_s": round(over_s, 1),
            "received": round((received_now - received) / over_s, 1),
            "stored": round((stored_now - stored) / over_s, 1),
        }

    def pages(self) -> dict[str, Callable[..., object]]:
        """Return the pages by name, for the workers to ask for."""
        return {
            "health": self.health,
            "readiness": self.readiness,
            "metrics": self.metrics,
            "status": self.status,
            "flush": self.flush,
        }

    def health(self) -> str:
        """Return an empty text if the process can do its work, else the permanent fault."""
        if not self._log.alive:
            return "the log's thread has ended"
        if self._settler is not None and not self._settler.alive:
            return "the settler's thread has ended"
        return "" if self._writer.alive else "the writer's thread has ended"

    def readiness(self) -> str:
        """Return an empty text if requests would be accepted and stored in time, else the obstacle."""
        if self.stopping:
            return "stopping"
        if fault := self.health():
            return fault
        if fault := self._log.disk.fault():
            return fault
        if self._log.backlog_bytes >= self._max_log_bytes:
            return "the log is full: the store does not accept it"
        if self._lag_s() > STUCK_S:
            why = self._writer.state.last_error
            return f"the store has not taken a segment for {self._lag_s():.0f} s" + (f": {why}" if why else "")
        broken = self._broken_parts()
        more = f", and {len(broken) - 1} more" if len(broken) > 1 else ""
        return f"{broken[0]}{more}" if broken else ""

    def _broken_parts(self) -> list[str]:
        return [] if self._parts is None else self._parts.faults()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all acked spans are in the store, and settle the ended runs; return whether all are stored."""
        until = time.monotonic() + timeout_s
        is_stored = self._writer.wait_retired(self._log.seal(), timeout_s)
        if is_stored and self._settler is not None:
            self._settler.settle_ended(max(0.0, until - time.monotonic()))
        return is_stored

    def status(self) -> dict[str, object]:
        """Return the state as one JSON object; ``freezeframe status`` prints it."""
        audit = self._log.audit()
        state = self._writer.state
        budget = self._budget()
        why_not = self.readiness()
        return {
            **self._describe(),
            "uptime_s": round(time.monotonic() - self._started_at, 1),
            "ready": not why_not,
            "not_ready_because": why_not,
            "audit": {
                **asdict(audit.counts),
                "in_log": audit.in_log,
                "missing": audit.missing,
                "balanced": audit.balanced,
            },
            "rates": self.rates(),
            "lag_s": round(self._log.lag_s, 3),
            "log": {
                "bytes": self._log.backlog_bytes,
                "segments": self._log.segment_count,
                "failures": self._log.failures,
                "damaged_files": count_damaged(self._log.directory),
                "disk_free_bytes": free_bytes(self._log.directory),
            },
            "writer": {
                "segments": state.segments,
                "spans": state.spans,
                "retries": state.retries,
                "set_aside": state.set_aside,
                "busy_s": round(self._lag_s(), 3),
                "last_error": state.last_error,
            },
            "store": {
                "parts_checked": 0 if self._parts is None else self._parts.checked,
                "broken_parts": self._broken_parts(),
            },
            **self._cast_status(),
            "admission": {
                "in_flight_bytes": budget.used_bytes,
                "limit_bytes": budget.limit_bytes,
                "refused": budget.refused,
            },
            "since_start": dict(self._meter.counts),
            "rejected_by_reason": dict(self._meter.rejected_by_reason),
            "spans_by_dialect": dict(self._meter.spans_by_dialect),
            "spans_by_unknown_scope": dict(self._meter.spans_by_unknown_scope),
        }

    def _cast_status(self) -> dict[str, object]:
        if self._casts is None or self._settler is None:
            return {}
        return {"casts": {**asdict(self._casts.state()), **asdict(self._settler.state)}}

    def metrics(self) -> str:
        """Return the Prometheus text format, version 0.0.4."""
        return "".join(self._metric_lines())

    def _figures(self) -> tuple[tuple[str, str, float], ...]:
        """Return each figure's name, meaning and value."""
        audit = self._log.audit()
        counts, state, meter = audit.counts, self._writer.state, self._meter.counts
        budget = self._budget()
        return (
            ("spans_received_total", "Spans of every acked request, across restarts.", counts.received),
            ("spans_stored_total", "Spans that the store has, across restarts.", counts.stored),
            ("spans_duplicate_total", "Spans that were sent again, across restarts.", counts.duplicate),
            ("spans_rejected_total", "Spans rejected with a reason, across restarts.", counts.rejected),
            ("spans_lost_total", "Acked spans lost to damage of the log, across restarts.", counts.lost),
            (
                "log_damaged_segments_total",
                "Segments of the log that lost spans, or may have, across restarts.",
                counts.damaged,
            ),
            ("spans_in_log", "Acked spans that the store does not have yet.", audit.in_log),
            ("spans_missing", "Spans unaccounted for; anything but 0 is a bug.", audit.missing),
            ("log_bytes", "Bytes of log that the store does not have yet.", self._log.backlog_bytes),
            ("log_segments", "Segments that the store does not have yet.", self._log.segment_count),
            ("log_syncs_total", "Group commits.", self._log.syncs),
            ("log_failures_total", "Group commits that failed on disk.", self._log.failures),
            (
                "log_damaged_files",
                "Files of the log kept because the disk lost part of them.",
                count_damaged(self._log.directory),
            ),
            ("log_torn_bytes_total", "Bytes of unacked writes cut off at start.", self._log.torn_bytes),
            ("log_disk_free_bytes", "Free space on the log's disk.", free_bytes(self._log.directory)),
            ("lag_seconds", "Age of the oldest acked span that the store does not have yet.", round(self._log.lag_s, 3)),
            ("store_broken_parts", "Parts of the embedded store that cannot be read.", len(self._broken_parts())),
            ("writer_segments_total", "Segments stored.", state.segments),
            ("writer_retries_total", "Tries that the store did not accept.", state.retries),
            ("writer_set_aside_total", "Spans that the store refused permanently.", state.set_aside),
            ("writer_busy_seconds", "Age of the segment being written.", round(self._lag_s(), 3)),
            ("in_flight_bytes", "Bytes of requests currently being processed.", budget.used_bytes),
            ("requests_refused_total", "Requests that were asked to retry later.", budget.refused),
            ("requests_total", "Requests acked.", meter["requests"]),
            ("requests_unauthenticated_total", "Requests without a known token.", meter["unauthenticated"]),
            ("requests_malformed_total", "Requests that are not valid OTLP, or over a limit.", meter["malformed"]),
            ("reloads_failed_total", "Reloads refused because of a fault in the configuration.", meter["reloads_failed"]),
            ("request_bytes_total", "Bytes of acked requests, decompressed.", meter["bytes"]),
            ("surrogate_collisions_total", "Values that share a surrogate with another value.", meter["surrogate_collisions"]),
            (
                "spans_not_read_total",
                "Spans whose redaction took too long, or failed: their texts, or the longest ones, are keyed hashes.",
                meter["spans_not_read"],
            ),
            ("detector_failures_total", "Spans that a detector behind HTTP did not read.", meter["detector_failures"]),
            ("log_events_total", "GenAI log events stored as spans.", meter["events"]),
            ("log_records_ignored_total", "Other log records, which are dropped.", meter["log_records_ignored"]),
            ("metrics_requests_refused_total", "OTLP metrics requests, which are refused.", meter["metrics_refused"]),
            *self._cast_figures(),
        )

    def _cast_figures(self) -> tuple[tuple[str, str, float], ...]:
        if self._casts is None or self._settler is None:
            return ()
        held, done = self._casts.state(), self._settler.state
        return (
            ("casts_open_runs", "Runs whose private values are remembered.", held.open_runs),
            ("casts_unsettled_runs", "Runs whose stored spans will be read and, if need be, rewritten.", held.unsettled_runs),
            ("casts_dropped_early_total", "Casts destroyed before their grace time, to make room.", held.dropped_early),
            ("runs_settled_total", "Runs that were settled.", done.settled_runs),
            ("spans_rewritten_total", "Stored spans rewritten after a later one showed what they hold.", done.rewritten_spans),
            ("settle_failures_total", "Tries to settle runs that failed.", done.failures),
        )

    def _metric_lines(self) -> Iterator[str]:
        for name, text, value in self._figures():
            full, kind = f"freezeframe_collector_{name}", "counter" if name.endswith("_total") else "gauge"
            yield f"# HELP {full} {text}\n# TYPE {full} {kind}\n{full} {value}\n"
        by_label = (
            ("rejected_by_reason_total", "reason", "Spans rejected since start.", self._meter.rejected_by_reason),
            (
                "spans_by_dialect_total",
                "dialect",
                "Spans that a dialect recognised, since start.",
                self._meter.spans_by_dialect,
            ),
            ("spans_unknown_total", "scope", "Spans without GenAI content, since start.", self._meter.spans_by_unknown_scope),
        )
        for name, label, text, counter in by_label:
            full = f"freezeframe_collector_{name}"
            yield f"# HELP {full} {text}\n# TYPE {full} counter\n"
            # A copy: receivers go on counting while the page is written.
            for value, count in sorted(counter.copy().items()):
                yield f'{full}{{{label}="{_label(value)}"}} {count}\n'

    def _lag_s(self) -> float:
        since = self._writer.state.busy_since
        return 0.0 if since is None else time.monotonic() - since


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
