"""Runs statements in readers: keeps the settings of sessions, and knows which reader runs which statement."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from freezeframe_collector.facade.protocol import QueryRequest, User
from freezeframe_collector.readers.client import Reader, ReaderHost
from freezeframe_collector.readers.errors import ClickHouseError, from_engine
from freezeframe_collector.readers.frames import Head, Question
from freezeframe_collector.store.embedded import insert_rows
from freezeframe_collector.store.engine import quote_identifier
from freezeframe_collector.store.own_rows import as_new

_MOVED: Final = 107
"""FILE_DOESNT_EXIST: a part went to the cold disk after the reader had listed it."""
_MAX_SESSIONS: Final = 1000
_MAX_CONTROLS: Final = 50


@dataclass(slots=True, kw_only=True)
class _Session:
    controls: tuple[str, ...] = ()
    """SET and USE statements in their order; each reader that runs a statement of the session runs them first."""
    expires: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Executor:
    """Runs statements in readers. Called from worker threads."""

    def __init__(self, host: ReaderHost, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._monotonic = monotonic
        self._sessions: dict[str, _Session] = {}
        self._running: dict[str, list[Reader]] = {}
        self._lock = threading.Lock()

    def run(self, request: QueryRequest) -> Generator[Head | bytes]:
        """Yield a `Head`, then the pieces of the answer; nothing for SET and USE.

        A session is free again before the last piece is handed over: a client may send its next statement the moment it
        sees the end.

        Raises:
            ClickHouseError: the statement failed.
        """
        held: Head | bytes | None = None
        with self._session(request) as session:
            question = _question(request, session)
            for item in self._answer(question, request.query_id):
                if isinstance(item, str):
                    session.controls = _with_control(session.controls, item)
                    continue
                if held is not None:
                    yield held
                held = item
        if held is not None:
            yield held

    def cancel(self, query_id: str) -> bool:
        """Stop the statement with that id if it is running; return whether it was."""
        with self._lock:
            readers = list(self._running.get(query_id, ()))
        for reader in readers:
            reader.kill()
        return bool(readers)

    def _answer(self, question: Question, query_id: str) -> Generator[Head | bytes | str]:
        """Yield a reader's answer; ask another reader if a part moved away before the first piece came."""
        begun = False
        try:
            with self._known(query_id) as reader, closing(reader.ask(question)) as items:
                for item in items:
                    begun = True
                    yield item
            return
        except ClickHouseError as error:
            if begun or error.code != _MOVED:
                raise
        with self._known(query_id) as reader, closing(reader.ask(question)) as items:
            yield from items

    @contextmanager
    def _known(self, query_id: str) -> Generator[Reader]:
        """Lend a reader and register it under the statement's id, so that it can be cancelled."""
        reader = self._host.take()
        with self._lock:
            self._running.setdefault(query_id, []).append(reader)
        try:
            yield reader
        finally:
            with self._lock:
                self._running[query_id].remove(reader)
                if not self._running[query_id]:
                    del self._running[query_id]

    @contextmanager
    def _session(self, request: QueryRequest) -> Generator[_Session]:
        if request.session_id is None:
            yield _Session()
            return
        session = self._locked_session(request)
        try:
            yield session
        finally:
            session.lock.release()

    def _locked_session(self, request: QueryRequest) -> _Session:
        key, now = request.session_id or "", self._monotonic()
        with self._lock:
            for name in [name for name, one in self._sessions.items() if one.expires < now and not one.lock.locked()]:
                del self._sessions[name]
            session = self._sessions.get(key)
            if session is None:
                if request.session_must_exist:
                    raise ClickHouseError(372, "SESSION_NOT_FOUND", f"Session {key} not found")
                if len(self._sessions) >= _MAX_SESSIONS:
                    raise ClickHouseError(202, "TOO_MANY_SIMULTANEOUS_QUERIES", f"{_MAX_SESSIONS} sessions are open")
                session = self._sessions[key] = _Session()
            session.expires = now + request.session_seconds
            if not session.lock.acquire(blocking=False):
                raise ClickHouseError(373, "SESSION_IS_LOCKED", f"Session {key} is locked by a concurrent client")
            return session


def _question(request: QueryRequest, session: _Session) -> Question:
    return Question(
        sql=request.sql,
        database=request.database,
        default_format=request.default_format,
        parameters=request.parameters,
        settings=request.settings,
        wait=request.wait,
        controls=session.controls,
    )


def _with_control(controls: tuple[str, ...], statement: str) -> tuple[str, ...]:
    """Return the controls with one more; the same statement again counts once, at its last place."""
    kept = (*(one for one in controls if one != statement), statement)
    if len(kept) > _MAX_CONTROLS:
        raise ClickHouseError(396, "TOO_MANY_ROWS_OR_BYTES", f"over {_MAX_CONTROLS} SET and USE statements in one session")
    return kept


# -- The inserts that are accepted -------------------------------------------------------------------------------------
# Into the user's own tables, prices and pins, by anyone who has the admin token.
# Only the collector writes recorded runs. Values are data: no expression in them is evaluated.


TABLES: Final = frozenset({"prices", "pins"})
FORMATS: Final = frozenset({"Values", "Native", "JSONEachRow", "JSONCompactEachRow", "TabSeparated", "TSV", "CSV", "RowBinary"})

_INSERT: Final = re.compile(
    rb"\s*INSERT\s+INTO\s+(?:TABLE\s+)?(?:(?P<database>`?\w+`?)\s*\.\s*)?`?(?P<table>\w+)`?\s*(?P<columns>\([\w`,\s]*\))?\s*"
    rb"(?:VALUES|FORMAT\s+(?P<format>\w+))(?:[ \t]*\r?\n|[ \t]|(?=\()|\Z)",
    re.IGNORECASE,
)
_IS_INSERT: Final = re.compile(rb"\s*INSERT\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """Rows for one table."""

    table: str
    columns: str
    """As given, in parentheses; empty for all."""
    format: str
    data: bytes


def is_insert(sql: bytes) -> bool:
    """Return whether a statement begins as an INSERT."""
    return _IS_INSERT.match(sql) is not None


def parse_insert(sql: bytes, user: User, database: str) -> Insert:
    """Return the statement as an insert.

    Raises:
        ClickHouseError: the user may not insert, or not into this table.
    """
    found = _INSERT.match(sql)
    table = found["table"].decode() if found else ""
    named = (found["database"] or b"").decode().strip("`") if found else ""
    if found is None or table not in TABLES or named not in {"", database} or not user.may_insert:
        raise ClickHouseError(
            164,
            "READONLY",
            "Cannot execute query in readonly mode: this endpoint takes INSERT INTO prices or pins, with VALUES or FORMAT, from"
            " the user admin, whose password is the token in the data directory",
        )
    name = (found["format"] or b"Values").decode()
    if name not in FORMATS:
        raise ClickHouseError(73, "UNKNOWN_FORMAT", f"Unknown format {name}; known are {', '.join(sorted(FORMATS))}")
    return Insert(table=table, columns=(found["columns"] or b"").decode(), format=name, data=sql[found.end() :])


def insert(open_handle: Callable[[], Any], database: str, statement: Insert) -> None:
    """Insert the rows.

    Raises:
        ClickHouseError: they are not of the table's types, or the engine met a fault and may not have stored them.
    """
    handle = open_handle()
    try:
        # the same rows again say something new: a run may be pinned, unpinned and pinned
        handle.query(f"SET input_format_values_interpret_expressions = 0, {as_new()}")
        target = f"{quote_identifier(database)}.{quote_identifier(statement.table)} {statement.columns}"
        insert_rows(handle, f"INSERT INTO {target}", statement.format, statement.data)
    except RuntimeError as error:
        raise from_engine(error) from error
    finally:
        handle.close()
