"""The settler: once a run has ended, or paused, its stored spans are searched for all values found in it.

A value that is found late may be in spans that are already stored. From then on the run is unsettled: the table
``unsettled_rows`` names it until this thread has rewritten those spans. It reads the run, replaces remaining
values, and stores the whole run in place of the old one. The new spans are in a file of ``settling/`` until the
store has them: a crash between deleting
and inserting loses nothing, because the next start repeats it before anything else is stored.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from freezeframe_collector.casts.book import DueRun, RunCasts
from freezeframe_collector.casts.found import RunKey
from freezeframe_collector.files import replace_durably
from freezeframe_collector.store import Store
from freezeframe_collector.store.engine import quote_text
from freezeframe_collector.store.own_rows import as_new
from freezeframe_collector.store.rewriting import begin_replacing, finish_replacing, load_runs
from freezeframe_schemas.errors import FreezeframeError, RetryableStoreError
from freezeframe_schemas.otlp.decode import NO_LIMITS, decode_traces
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import SpanRecord

_LOG = logging.getLogger(__name__)
FOLDER: Final = "settling"
_TICK_S: Final = 1.0
_MAX_PAUSE_S: Final = 30.0
_EVERY_S: Final = 10.0
"""Time that due runs wait for each other: to delete rows, the engine rewrites every file that holds one."""
_RUNS_AT_ONCE: Final = 200
"""Runs that are read and rewritten together: each step costs the store about the same for one as for all of them."""
_RUNS_PER_STATEMENT: Final = 1_000
Rewrite = Callable[[RunKey, Sequence[bytes], Sequence[SpanRecord]], list[SpanRecord]]
"""Takes a run, its sealed findings and its spans; returns the spans in the same order, unchanged ones as the same objects."""


@dataclass(slots=True, kw_only=True)
class SettlerState:
    """Counters of the settler, for telemetry. Written by one settling thread at a time."""

    settled_runs: int = 0
    rewritten_runs: int = 0
    rewritten_spans: int = 0
    failures: int = 0
    last_error: str = ""
    """Empty after a success."""


class Settler:
    """A thread that settles runs until it is stopped. `storing` is held while stored runs are changed."""

    def __init__(
        self,
        book: RunCasts,
        rewrite: Rewrite,
        open_store: Callable[[], Store],
        data: Path,
        is_stored: Callable[[int], bool],
        storing: threading.Lock,
    ) -> None:
        """`is_stored` returns whether the log no longer holds a segment up to a number."""
        self.state = SettlerState()
        self._book = book
        self._rewrite = rewrite
        self._open_store = open_store
        self._folder = data / FOLDER
        self._is_stored = is_stored
        self._storing = storing
        self._next_s = 0.0
        self._settling = threading.Lock()
        self._marking = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="freezeframe-settler", daemon=True)
        self._interrupted = sorted(self._folder.glob("*.pb"))

    def start(self) -> None:
        """Start the thread, before the writer: work that a crash interrupted comes before anything new is stored."""
        if self._interrupted:
            self._storing.acquire()  # released by the thread, in `_finish_interrupted`
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    def stop(self, timeout_s: float) -> bool:
        """Settle the remaining runs, ended or not, for up to `timeout_s`; return whether the thread has ended."""
        self._stopping.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def settle_ended(self, timeout_s: float) -> None:
        """Settle the ended runs without waiting for later spans, and let the store say which are unsettled."""
        self._attempt(lambda: self._settle_all(time.monotonic() + timeout_s, ended=True))

    def forget_deleted(self) -> None:
        """Destroy the casts of runs that the store once had and no longer has."""
        open_runs = self._book.open_runs(self._is_stored)
        held: set[str] = set()
        store = self._open_store()
        for at in range(0, len(open_runs), _RUNS_PER_STATEMENT):
            named = ", ".join(quote_text(trace_id) for _, trace_id in open_runs[at : at + _RUNS_PER_STATEMENT])
            _, rows = store.query(f"SELECT DISTINCT trace_id FROM {store.database}.run_rows WHERE trace_id IN ({named})")
            held.update(str(row[0]) for row in rows)
        gone = [run for run in open_runs if run[1] not in held]
        self._book.forget(gone)
        self._unmark(gone)

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        if self._interrupted and not self._attempt(self._finish_interrupted):
            return
        pause_s = 0.0 if self._attempt(self.forget_deleted) else _TICK_S
        while not self._stopping.wait(pause_s):
            went_well = self._attempt(self._tick)
            pause_s = _TICK_S if went_well else min(_MAX_PAUSE_S, pause_s * 2 or _TICK_S)
        self._attempt(lambda: self._settle_all(float("inf"), everything=True))

    def _attempt(self, step: Callable[[], object]) -> bool:
        """Take the step; a failure is logged, counted, and tried again later."""
        try:
            step()
        except (FreezeframeError, OSError) as error:
            text = error.message if isinstance(error, FreezeframeError) else str(error)
            self.state.failures += 1
            self.state.last_error = f"{type(error).__name__}: {text}"[:300]
            _LOG.error("runs cannot be settled at the moment: %s", self.state.last_error)
            return False
        self.state.last_error = ""
        return True

    def _tick(self) -> None:
        self._mark()
        if time.monotonic() >= self._next_s:
            self._settle_all(time.monotonic() + _MAX_PAUSE_S)
            self._book.expire()
            self._next_s = time.monotonic() + _EVERY_S

    def _settle_all(self, deadline: float, *, ended: bool = False, everything: bool = False) -> None:
        self._mark()
        with self._settling:
            while time.monotonic() < deadline:
                due = self._book.due(self._is_stored, _RUNS_AT_ONCE, ended=ended, everything=everything)
                if not due:
                    break
                self._settle(due)
        self._mark()

    def _settle(self, due: Sequence[DueRun]) -> None:
        store = self._open_store()
        with ExitStack() as held:
            held.enter_context(self._storing)
            changed = self._rewritten(store, due)
            if changed:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                path = self._folder / f"{time.time_ns()}.pb"
                replace_durably(path, encode_traces(changed))
                until_in_place = held.pop_all()  # an error leaves the lock held: see `_put_in_place`
                self._put_in_place(changed, path)
                until_in_place.close()
        finish_replacing(store, changed, again="it is tried again")
        settled = self._book.settle(due)
        self.state.settled_runs += len(settled)
        self._unmark(settled)

    def _rewritten(self, store: Store, due: Sequence[DueRun]) -> list[SpanRecord]:
        """Return all spans of the runs that have to be rewritten, rewritten."""
        by_run: dict[str, list[SpanRecord]] = defaultdict(list)
        for span in load_runs(store, [one.run[1] for one in due]):
            by_run[span.trace_id].append(span)
        changed: list[SpanRecord] = []
        for one in due:
            stored = by_run[one.run[1]]
            rewritten = by_run[one.run[1]] = self._rewrite(one.run, one.sealed, stored)
            count = sum(new is not old for new, old in zip(rewritten, stored, strict=True))
            if count:
                self.state.rewritten_runs += 1
                self.state.rewritten_spans += count
                changed += rewritten
        return changed

    def _put_in_place(self, spans: Sequence[SpanRecord], path: Path) -> None:
        """Replace the stored spans of these runs, however long the store is down. Nothing may be stored before that.

        If the process has to end first, the file stays and the lock stays held: the next start does it.
        """
        pause_s = _TICK_S
        while not self._attempt(lambda: begin_replacing(self._open_store(), spans)):
            if self._stopping.wait(pause_s):
                raise RetryableStoreError(f"{path.name}: the store does not take the runs that are being settled")
            pause_s = min(_MAX_PAUSE_S, pause_s * 2)
        path.unlink()

    def _finish_interrupted(self) -> None:
        """Insert the runs that a crash caught between deleting and inserting."""
        for path in self._interrupted:
            spans = decode_traces(path.read_bytes(), NO_LIMITS).spans
            self._put_in_place(spans, path)
            _LOG.info("%s: %d spans of runs that were being settled are in place", path.name, len(spans))
        self._storing.release()

    # -- what the store says ------------------------------------------------------------------------------------------

    def _mark(self) -> None:
        """Find the runs in the store that became unsettled."""
        with self._marking:
            runs = self._book.to_mark()
            if not runs:
                return
            store = self._open_store()
            for at in range(0, len(runs), _RUNS_PER_STATEMENT):
                part = runs[at : at + _RUNS_PER_STATEMENT]
                rows = ", ".join(f"({quote_text(tenant)}, {quote_text(trace_id)})" for tenant, trace_id in part)
                store.engine.command(
                    f"INSERT INTO {store.database}.unsettled_rows (tenant, trace_id) SETTINGS {as_new()} VALUES {rows}"
                )
                self._book.note_marked(part, marked=True)

    def _unmark(self, runs: Sequence[RunKey]) -> None:
        with self._marking:
            for condition in _conditions(runs):
                store = self._open_store()
                store.engine.command(
                    f"ALTER TABLE {store.stored('unsettled_rows')} DELETE WHERE {condition} SETTINGS mutations_sync = 2"
                )
            self._book.note_marked(runs, marked=False)


def _conditions(runs: Sequence[RunKey]) -> Iterator[str]:
    for at in range(0, len(runs), _RUNS_PER_STATEMENT):
        named = (f"({quote_text(tenant)}, {quote_text(trace_id)})" for tenant, trace_id in runs[at : at + _RUNS_PER_STATEMENT])
        yield f"(tenant, trace_id) IN ({', '.join(named)})"
