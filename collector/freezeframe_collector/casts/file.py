"""The casts of open runs on disk, next to the log: one SQLite file that holds only sealed values.

A row is written before the segment that holds the same findings leaves the log. It is deleted, and its bytes are overwritten,
when the run's grace time is over.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from freezeframe_collector.casts.found import RunKey, join_sealed, split_sealed
from freezeframe_schemas.errors import StoreError

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
