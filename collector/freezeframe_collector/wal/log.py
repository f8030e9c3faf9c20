"""The write-ahead log: redacted spans on disk before the sender gets its answer.

One thread writes. Requests that wait while it syncs go into the next write together (group commit), so one fdatasync serves
many. Only this thread decides what is a duplicate, in the order of the log, and it remembers a span only once it is durable:
a span whose first copy failed to be written is not a duplicate of anything.

Segments are named by a number that is never used again and handed to the writer in order. ``*.open`` is being written,
``*.wal`` is sealed. `format` defines the bytes; `ledger` records stored segments.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import queue
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Final

from freezeframe_collector.admission import BusyError
from freezeframe_collector.batch import Appended, Batch, Waiting
from freezeframe_collector.casts.book import RunCasts
from freezeframe_collector.files import free_bytes, fsync_directory, write_all
from freezeframe_collector.settings.config import WalConfig
from freezeframe_collector.wal.format import HEADER_BYTES, Audit, Counts, Extent, frame
from freezeframe_collector.wal.ledger import RememberedSpans, load_ledger, save_ledger
from freezeframe_collector.wal.segment import Segment, create_segment, gather_segments, recover_segment, write_durably

_MIN_BYTES: Final = 1 << 20
"""Free space below which a disk counts as full: a request of usual size does not fit."""
_PROBE_BYTES: Final = 4096


class LogDisk:
    """Result of the last write, as long as it is valid."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._fault = ""
        self._refused_bytes = 0

    def note_written(self) -> None:
        """Note that a write succeeded."""
        self._fault = ""

    def note_refused(self, error: OSError, size_bytes: int) -> str:
        """Note that a write of about this size failed, and return the reason."""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        self._refused_bytes = size_bytes
        self._fault = "the log's disk is full" if full else f"the log cannot be written: {error.strerror}"
        return self._fault

    def fault(self) -> str:
        """Return the obstacle to writing the log, or an empty text. After a refusal, try the disk without a request."""
        room = free_bytes(self._directory)
        if room < _MIN_BYTES + (self._refused_bytes if self._fault else 0):
            return f"the log's disk is full: {room:,} bytes are free"
        if self._fault and self._takes_a_probe():
            self._fault = ""
        return self._fault

    def _takes_a_probe(self) -> bool:
        path = self._directory / "room.probe"
        with self._lock:
            try:
                descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
                try:
                    write_all(descriptor, bytes(_PROBE_BYTES))
                    os.fdatasync(descriptor)
                finally:
                    os.close(descriptor)
                    path.unlink()
            except OSError:
                return False
        return True


_LOG = logging.getLogger(__name__)
_GROUP_BYTES: Final = 32 << 20
"""A group commit takes at most about this much, so that its first batch need not wait long."""
_GATHER_S: Final = 0.001


class Log:
    """The log of one data directory. `append` and `seal` may be called from any thread; `next_sealed` from the writer's."""

    def __init__(
        self, directory: Path, config: WalConfig | None = None, *, retry_after_s: float = 1.0, casts: RunCasts | None = None
    ) -> None:
        self.directory = directory
        self._casts = casts
        self._config = config or WalConfig()
        self._retry_after_s = retry_after_s
        self.syncs = 0
        self.failures = 0
        self.torn_bytes = 0
        """Bytes of unacked writes found at the start."""
        directory.mkdir(parents=True, exist_ok=True)
        self.disk = LogDisk(directory)
        self._lock = threading.Lock()
        """Guards the sources of the books: the ledger, the list of segments, the open one, the held bytes."""
        self._ledger = load_ledger(directory)
        self._remembered = RememberedSpans(directory, self._config.remembered_spans)
        self._segments: dict[int, Segment] = {}
        self._sealed: queue.SimpleQueue[Segment | None] = queue.SimpleQueue()
        self._held_bytes = 0
        self._recover()
        self._open: Segment | None = None
        self._descriptor = -1
        self._last_group_size = 0
        """Requests of the last group commit."""
        self._queue: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="freezeframe-log", daemon=True)
        self._thread.start()

    # -- any thread ---------------------------------------------------------------------------------------------------

    @property
    def identity(self) -> str:
        """Return the log's id, which with a segment's number makes its insert token."""
        return self._ledger.log

    @property
    def backlog_bytes(self) -> int:
        """Return the bytes on disk that the store does not have yet."""
        with self._lock:
            return sum(segment.size_bytes for segment in self._segments.values())

    @property
    def lag_s(self) -> float:
        """Return how long the oldest acked span has waited for the store; 0 if none is waiting."""
        with self._lock:
            now = time.monotonic()
            return max((now - held.since_s for held in self._segments.values() if held.counts.received), default=0.0)

    @property
    def segment_count(self) -> int:
        """Return how many segments the store does not have yet."""
        return len(self._segments)

    def holds_up_to(self, number: int) -> bool:
        """Return whether the log still holds a segment up to this number."""
        with self._lock:
            return any(held <= number for held in self._segments)

    @property
    def alive(self) -> bool:
        """Return whether the thread runs."""
        return not self._ended.is_set()

    def audit(self) -> Audit:
        """Return the books of everything that was ever acked."""
        with self._lock:
            counts = self._ledger.counts
            for segment in self._segments.values():
                counts += segment.counts
            in_log = sum(segment.span_count for segment in self._segments.values())
        return Audit(counts=counts, in_log=in_log)

    def append(self, batch: Batch) -> Appended:
        """Write the batch and wait until it is on the disk; a BusyError means that none of it is kept."""
        return self.submit(batch).result()

    def submit(self, batch: Batch) -> Future[Appended]:
        """Queue the batch; the answer comes when it is on the disk, in the log's thread, and fails as `append` does.

        Raises:
            BusyError: the log is full.
        """
        if self.backlog_bytes + batch.size_bytes > self._config.max_bytes:
            raise BusyError(
                f"the log holds {self.backlog_bytes} bytes for the store, the limit is {self._config.max_bytes}",
                retry_after_s=self._retry_after_s,
            )
        return self._enqueue(Waiting(batch=batch))

    def seal(self) -> int:
        """Pass the content of the log to the writer now; return the number of the last segment with acked spans so far.

        Raises:
            BusyError: the disk failed.
        """
        return self._enqueue(Waiting()).result().segment

    def close(self) -> None:
        """Write the waiting batches, seal, and end the thread; `next_sealed` then returns None after the last segment."""
        self._queue.put(None)
        self._thread.join()

    def _enqueue(self, waiting: Waiting) -> Future[Appended]:
        self._queue.put(waiting)
        if not self.alive:
            self._refuse_all()
        return waiting.answer

    # -- the writer's thread ------------------------------------------------------------------------------------------

    def next_sealed(self) -> Segment | None:
        """Wait for the next segment in order; None after `close`."""
        return self._sealed.get()

    def take(self, segment: Segment) -> None:
        """Note, before the insert, which segments go to the store together, so that the same ones do after a crash.

        Raises:
            OSError: the books could not be written.
        """
        if segment.parts:
            ledger = replace(self._ledger, taken=segment.number)
            save_ledger(self.directory, ledger)
            self._ledger = ledger

    def retire(self, segment: Segment, stored: int, rejected: int, *, lost: int = 0) -> None:
        """Take the segment off the books: the store has durably `stored` of its spans, `rejected` more were set aside.

        `lost` spans were missing from its file; those already found missing by recovery are in the segment's own counts.

        Raises:
            OSError: the books could not be written; the segment is still on them.
        """
        newly_damaged = int(lost > 0 and not segment.counts.damaged)
        done = Counts(stored=stored, rejected=rejected, lost=lost, damaged=newly_damaged)
        with self._lock:
            ledger = replace(self._ledger, through=segment.number, counts=self._ledger.counts + segment.counts + done)
        # The order is what makes a crash harmless: remembered keys and casts, then the ledger, then the file. After the ledger
        # names the segment a start deletes the file unread; before, the segment is inserted again under the same token.
        self._remembered.save(segment.keys)
        if self._casts is not None:
            self._casts.save()
        save_ledger(self.directory, ledger)
        with self._lock:
            self._ledger = ledger
            del self._segments[segment.number]
            self._held_bytes -= segment.held_bytes
        segment.discard()
        self._queue.put(Waiting(is_nudge=True))

    # -- start --------------------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Pass the writer every segment of an earlier process, without its torn tail."""
        for path in sorted(self.directory.glob("*.open")) + sorted(self.directory.glob("*.wal")):
            number = int(path.stem)
            if number <= self._ledger.through:
                path.unlink()
                continue
            segment, torn_bytes = recover_segment(number, path, self.identity)
            self.torn_bytes += torn_bytes
            if segment is not None:
                self._segments[number] = segment
        gathered = gather_segments(self.directory, self._segments, self._ledger, self._config.segment_bytes)
        self._segments = {segment.number: segment for segment in gathered}
        for segment in gathered:
            self._remembered.add(segment.keys)
            if self._casts is not None:
                self._casts.note(segment.found, segment.number)
            self._sealed.put(segment)
        fsync_directory(self.directory)

    # -- the log's thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        finally:
            # Requests that wait, or arrive from now on, are refused: no sender waits for ever.
            self._ended.set()
            self._refuse_all()
            self._sealed.put(None)

    def _refuse_all(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._refuse([self._queue.get_nowait()])

    def _refuse(self, group: Iterable[Waiting | None], why: str = "the log is closed") -> None:
        for waiting in group:
            if waiting is not None and not waiting.answer.done():  # what was written before is on the disk and answered
                waiting.answer.set_exception(BusyError(why, retry_after_s=self._retry_after_s))

    def _work(self) -> None:
        closing = False
        while not closing:
            group, closing = self._next_group()
            seal = closing or any(waiting.batch is None for waiting in group)
            batches = [waiting for waiting in group if waiting.batch is not None]
            self._last_group_size = len(batches) if batches else self._last_group_size
            try:
                if batches:
                    self._write(batches)
                    self.disk.note_written()
                if seal or self._is_due():
                    self._seal_open()
            except OSError as error:
                self._fail(group, error)
            except BaseException:  # ends this thread
                self._refuse(group)
                raise
            else:
                for waiting in group:
                    if waiting.batch is None:
                        waiting.answer.set_result(Appended(segment=self._last_number(), duplicate=0))

    def _next_group(self) -> tuple[list[Waiting], bool]:
        """Return the waiting batches, and whether the log is to close. Wait no longer than until the open segment is due."""
        timeout: float | None = None
        if self._open is not None and self._writer_is_idle():
            timeout = max(0.0, self._open.since_s + self._config.flush_interval_s - time.monotonic())
        group: list[Waiting] = []
        size_bytes = 0
        with contextlib.suppress(queue.Empty):
            item = self._queue.get(timeout=timeout)
            if self._last_group_size > 1:
                # Several senders wait at once: a moment more lets the others of this round join the same sync.
                time.sleep(_GATHER_S)
            while item is not None:
                if item.is_nudge:
                    return group, False
                group.append(item)
                size_bytes += item.batch.size_bytes if item.batch else 0
                if size_bytes > _GROUP_BYTES:
                    return group, False
                item = self._queue.get_nowait()
            return group, True
        return group, False

    def _is_due(self) -> bool:
        if self._open is None:
            return False
        if self._open.size_bytes >= self._config.segment_bytes:
            return True
        # While the writer is busy a segment gains nothing by being sealed: it goes on growing, so that a store that was down
        # for hours finds few large segments and not thousands of small ones. `retire` wakes this thread.
        age_s = time.monotonic() - self._open.since_s
        return age_s >= self._config.flush_interval_s and self._writer_is_idle()

    def _writer_is_idle(self) -> bool:
        with self._lock:
            return len(self._segments) <= (self._open is not None)

    def _write(self, group: Sequence[Waiting]) -> None:
        """Write the group's records, sync once, then book them and wake their senders.

        Raises:
            OSError: nothing of the group is in the segment.
        """
        segment = self._open or self._open_segment()
        seen: set[int] = set()
        planned: list[tuple[Waiting, Batch, Counts]] = []
        records: list[bytes] = []
        for waiting in group:
            assert waiting.batch is not None
            batch = self._without_duplicates(waiting.batch, seen)
            duplicate = len(waiting.batch.encoded) - len(batch.encoded)
            received = len(waiting.batch.encoded) + len(batch.rejected)
            counts = Counts(received=received, duplicate=duplicate, rejected=len(batch.rejected))
            planned.append((waiting, batch, counts))
            records += frame(segment.mark, segment.extent, counts, batch.rejected, batch.encoded, batch.found)
        blob = b"".join(records)
        written = Extent(
            size_bytes=len(blob),
            records=len(planned),
            spans=sum(len(batch.encoded) for _, batch, _ in planned),
            counts=sum((counts for _, _, counts in planned), Counts()),
        )
        write_durably(segment, self._descriptor, blob, segment.extent + written)
        self.syncs += 1
        with self._lock:
            segment.extent += written
            for _, batch, _ in planned:
                self._book(segment, batch)
        self._remembered.add(seen)
        if self._casts is not None:
            self._casts.note((item for _, batch, _ in planned for item in batch.found), segment.number)
        for waiting, _, counts in planned:
            waiting.answer.set_result(Appended(segment=segment.number, duplicate=counts.duplicate))

    def _without_duplicates(self, batch: Batch, seen: set[int]) -> Batch:
        """Return the batch without the spans that the log has or had; note the others in `seen`."""
        kept: list[int] = []
        for index, span in enumerate(batch.encoded):
            if span.key not in seen and span.key not in self._remembered:
                seen.add(span.key)
                kept.append(index)
        if len(kept) == len(batch.encoded):
            return batch
        spans = None if batch.spans is None else [batch.spans[index] for index in kept]
        encoded = [batch.encoded[index] for index in kept]
        return Batch(spans=spans, encoded=encoded, rejected=batch.rejected, found=batch.found)

    def _book(self, segment: Segment, batch: Batch) -> None:
        segment.keys.extend(span.key for span in batch.encoded)
        segment.rejected.extend(batch.rejected)
        if segment.spans is None:
            return
        size_bytes = batch.size_bytes
        if batch.spans is None or self._held_bytes + size_bytes > self._config.memory_bytes:
            self._held_bytes -= segment.held_bytes
            segment.held_bytes, segment.spans = 0, None
            return
        segment.spans.extend(batch.spans)
        segment.held_bytes += size_bytes
        self._held_bytes += size_bytes

    def _open_segment(self) -> Segment:
        segment, self._descriptor = create_segment(self.directory, self._last_number() + 1, self.identity)
        with self._lock:
            self._segments[segment.number] = segment
        self._open = segment
        return segment

    def _fail(self, group: Sequence[Waiting], error: OSError) -> None:
        self.failures += 1
        _LOG.error("the log cannot be written: %s", error.strerror)
        self._refuse(group, self.disk.note_refused(error, sum(waiting.batch.size_bytes for waiting in group if waiting.batch)))
        try:
            self._seal_open()
        except OSError as seal_error:
            _LOG.error("a segment cannot be sealed: %s", seal_error.strerror)

    def _seal_open(self) -> None:
        """Hand the open segment to the writer, or forget it if it holds nothing."""
        segment = self._open
        if segment is None:
            return
        self._open = None
        os.close(self._descriptor)
        if segment.size_bytes == HEADER_BYTES:
            with self._lock:
                del self._segments[segment.number]
            segment.path.unlink(missing_ok=True)
            return
        sealed = segment.path.with_suffix(".wal")
        # Only the name changes, and a start reads both names: the rename need not be synced.
        segment.path.replace(sealed)
        segment.path = sealed
        self._sealed.put(segment)

    def _last_number(self) -> int:
        with self._lock:
            return max((self._ledger.through, *self._segments))
