"""The book of open runs: the values found in each, sealed, and whether its stored spans must still be read again.

The owner of the log keeps it. A finding is noted once the log's record that holds it is on the disk, written to the file before
that record leaves the log, and destroyed when the run's grace time is over. It opens no seal.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from freezeframe_collector.casts.found import Found, RunKey, join_sealed, split_sealed
from freezeframe_collector.settings.config import CastConfig
from freezeframe_schemas.errors import StoreError

NAME: Final = "casts.db"
Listener = Callable[[RunKey, int, bytes], None]
"""Takes the run, the finding's number in it (from 1), and the finding. Number 0: the run's cast was destroyed."""


@dataclass(slots=True, kw_only=True)
class _Run:
    sealed: list[bytes] = field(default_factory=list[bytes])
    unsettled: bool = False
    ended: bool = False
    has_spans: bool = False
    marked: bool = False
    """True if the store marks it as unsettled."""
    seen_s: float = 0.0
    segment: int = 0
    """The last segment of the log that has spans of it."""
    changes: int = 0
    is_saved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRun:
    """A run whose stored spans must be read again."""

    run: RunKey
    sealed: tuple[bytes, ...]
    changes: int
    """Number of its changes by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookState:
    """Number of values in the book, for telemetry."""

    open_runs: int
    unsettled_runs: int
    sealed_bytes: int
    dropped_early: int
    """Casts that were destroyed before their grace time was over, because there were too many."""


class RunCasts:
    """The book. Safe to use from many threads."""

    def __init__(self, directory: Path, config: CastConfig, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Open the book that is kept next to the log in `directory`."""
        self._config = config
        self._clock = clock
        self._lock = threading.Lock()
        self._file = CastFile(directory / NAME)
        self._listeners: list[Listener] = []
        self._runs: OrderedDict[RunKey, _Run] = OrderedDict()
        """Ordered by last activity, the latest last."""
        self._dropped_early = 0
        self._to_delete: set[RunKey] = set()
        """Runs that were dropped early, and may have rows in the file."""
        for saved in self._file.load_all():
            self._runs[saved.run] = _Run(
                sealed=list(saved.sealed),
                unsettled=saved.unsettled,
                ended=saved.ended,
                has_spans=True,
                seen_s=clock(),
                is_saved=True,
            )

    # -- the log's thread ---------------------------------------------------------------------------------------------

    def note(self, found: Iterable[Found], segment: int) -> None:
        """Note the findings in a segment's records, in log order, once they are on disk; and again at each start."""
        with self._lock:
            now = self._clock()
            for item in found:
                self._note(item, segment, now)
            if len(self._runs) > self._config.runs:
                self._drop_oldest()

    def _note(self, item: Found, segment: int, now: float) -> None:
        run = self._runs.setdefault(item.run, _Run())
        self._runs.move_to_end(item.run)
        known = len(run.sealed)
        # A finding is late if earlier spans were redacted without it, if others found it while this batch was redacted,
        # or if the whole run has to judge it.
        late = item.waits or item.based_on < known
        if item.sealed and item.sealed not in run.sealed:
            late |= run.has_spans or self._dropped_early > 0
            run.sealed.append(item.sealed)
            for listener in self._listeners:
                listener(item.run, len(run.sealed), item.sealed)
        elif item.sealed:
            late = item.waits or item.based_on + 1 < known
        run.unsettled |= late
        run.ended |= item.ended
        run.has_spans, run.seen_s, run.segment, run.is_saved = True, now, max(run.segment, segment), False
        run.changes += 1

    def _drop_oldest(self) -> None:
        """Destroy the casts of settled runs, those silent for longest first; destroy a few more than needed."""
        count = len(self._runs) - self._config.runs + self._config.runs // 20
        oldest = [key for key, run in self._runs.items() if not run.unsettled][:count]
        self._dropped_early += len(oldest)
        self._to_delete.update(oldest)  # with the next `expire`: the log's thread does not wait for that
        for key in oldest:
            del self._runs[key]
            self._announce_gone(key)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` for every finding, at once for the existing ones; return a function that stops this."""
        with self._lock:
            self._listeners.append(listener)
            for key, run in self._runs.items():
                for number, sealed in enumerate(run.sealed, 1):
                    listener(key, number, sealed)

        def end() -> None:
            with self._lock:
                self._listeners.remove(listener)

        return end

    # -- the writer's thread ------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write the changes to the file: a segment with findings is about to leave the log.

        Raises:
            OSError: the disk failed.
        """
        with self._lock:
            changed = [key for key, run in self._runs.items() if not run.is_saved]
            rows = [self._saved(key) for key in changed]
            for key in changed:
                self._runs[key].is_saved = True
        try:
            self._file.save(rows)
        except OSError:
            with self._lock:
                for key in changed:
                    if key in self._runs:
                        self._runs[key].is_saved = False
            raise

    def _saved(self, key: RunKey) -> SavedRun:
        run = self._runs[key]
        return SavedRun(run=key, sealed=tuple(run.sealed), unsettled=run.unsettled, ended=run.ended)

    # -- the settler's thread -----------------------------------------------------------------------------------------

    def due(
        self, is_stored: Callable[[int], bool], most: int, *, ended: bool = False, everything: bool = False
    ) -> list[DueRun]:
        """Return unsettled runs that have ended or paused and whose spans are all stored, by `is_stored(segment)`.

        `ended` adds the runs that ended only just now, `everything` adds all runs.
        """
        with self._lock:
            now = self._clock()
            in_haste = everything or len(self._runs) > self._config.runs
            found: list[DueRun] = []
            for key, run in self._runs.items():
                wait_s = self._config.settle_after_s if run.ended else self._config.pause_s
                is_quiet = in_haste or (ended and run.ended) or now - run.seen_s >= wait_s
                if run.unsettled and is_quiet and is_stored(run.segment):
                    found.append(DueRun(run=key, sealed=tuple(run.sealed), changes=run.changes))
                    if len(found) == most:
                        break
            return found

    def settle(self, done: Sequence[DueRun]) -> list[RunKey]:
        """Note that the stored spans of these runs no longer hold any of their findings; return the runs unchanged since.

        Raises:
            OSError: the disk failed; they are still unsettled.
        """
        with self._lock:
            same = [one.run for one in done if one.run in self._runs and self._runs[one.run].changes == one.changes]
            for key in same:
                self._runs[key].unsettled = False
            rows = [self._saved(key) for key in same]
        try:
            self._file.save(rows)
        except OSError:
            with self._lock:
                for key in same:
                    self._runs[key].unsettled = True
            raise
        return same

    def to_mark(self) -> list[RunKey]:
        """Return the unsettled runs that the store does not mark as unsettled."""
        with self._lock:
            return [key for key, run in self._runs.items() if run.unsettled and not run.marked]

    def note_marked(self, keys: Iterable[RunKey], marked: bool) -> None:
        """Note that the store marks these runs."""
        with self._lock:
            for key in keys:
                if key in self._runs:
                    self._runs[key].marked = marked

    def expire(self) -> int:
        """Destroy the casts of settled runs that have been silent for longer than the grace time; return how many.

        Raises:
            OSError: the disk failed; their rows are deleted the next time.
        """
        with self._lock:
            before = self._clock() - self._config.grace_s
            gone = [key for key, run in self._runs.items() if not run.unsettled and run.seen_s < before]
            dropped = [key for key in self._to_delete if key not in self._runs]
        self.forget([*gone, *dropped])
        with self._lock:
            self._to_delete.difference_update(dropped)
        return len(gone)

    def forget(self, keys: Sequence[RunKey]) -> None:
        """Destroy the casts of these runs now.

        Raises:
            OSError: the disk failed; their rows are deleted the next time.
        """
        if not keys:
            return
        self._file.delete(keys)
        with self._lock:
            for key in keys:
                if self._runs.pop(key, None) is not None:
                    self._announce_gone(key)

    def open_runs(self, is_stored: Callable[[int], bool]) -> list[RunKey]:
        """Return the runs that have left the log, by `is_stored(segment)`."""
        with self._lock:
            return [key for key, run in self._runs.items() if is_stored(run.segment)]

    def state(self) -> BookState:
        """Return the numbers of runs and values."""
        with self._lock:
            return BookState(
                open_runs=len(self._runs),
                unsettled_runs=sum(run.unsettled for run in self._runs.values()),
                sealed_bytes=sum(len(sealed) for run in self._runs.values() for sealed in run.sealed),
                dropped_early=self._dropped_early,
            )

    def _announce_gone(self, key: RunKey) -> None:
        for listener in self._listeners:
            listener(key, 0, b"")


# -- The casts of open runs on disk, next to the log: one SQLite file that holds only sealed values --------------------
# A row is written before the segment that holds the same findings leaves the log. It is deleted, and its bytes are
# overwritten, when the run's grace time is over.


VERSION: Final = 1
_DDL: Final = """
CREATE TABLE IF NOT EXISTS open_run (
    tenant TEXT NOT NULL, trace_id TEXT NOT NULL, unsettled INTEGER NOT NULL, ended INTEGER NOT NULL, sealed BLOB NOT NULL,
    PRIMARY KEY (tenant, trace_id)
) WITHOUT ROWID;
"""
_WAIT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRun:
    """An open run as stored in the file."""

    run: RunKey
    sealed: tuple[bytes, ...]
    unsettled: bool
    ended: bool


class CastFile:
    """The file. Safe to use from many threads."""

    def __init__(self, path: Path) -> None:
        """Open or create it.

        Raises:
            StoreError: the file is of a version that this code does not know, or cannot be read.
        """
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        try:
            with self._connect() as connection:
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                if version not in (0, VERSION):
                    raise StoreError(f"{path}: casts of version {version}, this collector knows version {VERSION}")
                connection.executescript(f"{_DDL} PRAGMA user_version = {VERSION};")
        except sqlite3.DatabaseError as error:
            raise StoreError(
                f"{path}: the casts of open runs cannot be read ({error})",
                do="restore the file, or remove it: stored runs that were open keep what was found late in clear",
            ) from None

    @contextmanager
    def _connect(self) -> Generator[sqlite3.Connection]:
        connection = sqlite3.connect(self._path, timeout=_WAIT_S)
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA synchronous = FULL")
        try:
            with connection:
                yield connection
        finally:
            connection.close()

    def save(self, runs: Iterable[SavedRun]) -> None:
        """Write these runs, durable on return.

        Raises:
            OSError: the disk failed.
        """
        rows = [(*run.run, int(run.unsettled), int(run.ended), join_sealed(run.sealed)) for run in runs]
        if not rows:
            return
        try:
            with self._connect() as connection:
                connection.executemany("INSERT OR REPLACE INTO open_run VALUES (?, ?, ?, ?, ?)", rows)
        except sqlite3.OperationalError as error:
            raise OSError(f"{self._path.name}: {error}") from None

    def delete(self, runs: Iterable[RunKey]) -> None:
        """Delete these runs; raises as `save`."""
        try:
            with self._connect() as connection:
                connection.executemany("DELETE FROM open_run WHERE tenant = ? AND trace_id = ?", runs)
        except sqlite3.OperationalError as error:
            raise OSError(f"{self._path.name}: {error}") from None

    def load(self, run: RunKey) -> SavedRun | None:
        """Return one run, None if it is not there."""
        return next(self._read("WHERE tenant = ? AND trace_id = ?", run), None)

    def load_all(self) -> Iterator[SavedRun]:
        return self._read("")

    def _read(self, condition: str, values: tuple[str, ...] = ()) -> Iterator[SavedRun]:
        with self._connect() as connection:
            rows = connection.execute(
                f"SELECT tenant, trace_id, unsettled, ended, sealed FROM open_run {condition}",  # our own texts
                values,
            ).fetchall()
        for tenant, trace_id, unsettled, ended, sealed in rows:
            yield SavedRun(
                run=(tenant, trace_id), sealed=tuple(split_sealed(sealed)), unsettled=bool(unsettled), ended=bool(ended)
            )
