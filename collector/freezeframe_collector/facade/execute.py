"""Runs a checked statement on a handle of its own, fenced and bounded, and hands its answer over in pieces."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from freezeframe_collector.facade.errors import ClickHouseError, from_engine
from freezeframe_collector.facade.guard import Checked, check_setting
from freezeframe_collector.facade.protocol import Request
from freezeframe_collector.store.engine import quote_identifier, quote_text

STREAMED_FORMATS: Final = frozenset({"Native", "TabSeparated", "TSV", "CSV", "RowBinary", "JSONEachRow", "JSONLines", "NDJSON"})
"""Formats whose blocks can follow one another as they come; others have a frame around the whole."""
_PIECE_BYTES: Final = 4 << 20
_NAME_SETTING: Final = "log_comment"
"""The setting that carries the name of a statement to ``system.processes``: readers' own go nowhere, nothing is logged."""
_GREETING: Final = "SELECT displayName(), version(), revision(), timezone()"
"""What clickhouse-go (Grafana's plugin) asks first. chDB writes blocks as for the oldest client: that revision is told."""
_GREETING_ANSWER: Final = """SELECT 'freezeframe' AS "displayName()", version(), toUInt32(0) AS "revision()", timezone()"""
_BOUNDS: Final[Mapping[str, str]] = {
    "max_execution_time": "60",
    "max_memory_usage": "1000000000",
    # before the limit: what groups or joins more goes to disk, as a read of every attribute of `otel_traces` does
    "max_bytes_before_external_group_by": "300000000",
    "max_bytes_before_external_join": "300000000",
    "max_threads": "2",
    "max_result_bytes": "2000000000",
    "result_overflow_mode": "throw",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What is known before the first piece."""

    format: str
    read_rows: int = 0
    read_bytes: int = 0
    result_rows: int = 0
    elapsed_ns: int = 0


@dataclass(slots=True, kw_only=True)
class _Session:
    handle: Any
    expires: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Executor:
    """Opens handles for statements and keeps those of sessions. Called from worker threads."""

    def __init__(
        self, open_handle: Callable[[], Any], database: str, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._open = open_handle
        self._database = database
        self._monotonic = monotonic
        self._sessions: dict[str, _Session] = {}
        self._running: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def run(self, request: Request, checked: Checked, stop: threading.Event) -> Generator[Head | bytes]:
        """Yield a `Head`, then the pieces of the answer.

        A session is free again before the last piece is handed over: a client may send its next statement the moment it
        sees the end.

        Raises:
            ClickHouseError: the statement failed.
        """
        with self._named(request.query_id) as name, self._handle(request, name) as handle:
            held: Head | bytes | None = None
            try:
                # the answer is closed before its handle: chDB dies of a handle that is closed under an open stream
                with closing(self._answer(handle, request, checked, stop)) as pieces:
                    for piece in pieces:
                        if held is not None:
                            yield held
                        held = piece
            except RuntimeError as error:
                raise from_engine(error) from error
        if held is not None:
            yield held

    def cancel(self, query_id: str) -> bool:
        """Stop the statement of that id, if it runs; return whether it does."""
        with self._lock:
            names = list(self._running.get(query_id, ()))
        if names:
            with closing(self._open()) as handle:
                listed = ", ".join(map(quote_text, names))
                handle.query(f"KILL QUERY WHERE Settings['{_NAME_SETTING}'] IN ({listed}) ASYNC")
        return bool(names)

    @contextmanager
    def _named(self, query_id: str) -> Generator[str]:
        """Lend a name under which the engine knows the statement: it gives ids of its own."""
        name = secrets.token_hex(8)
        with self._lock:
            self._running.setdefault(query_id, []).append(name)
        try:
            yield name
        finally:
            with self._lock:
                self._running[query_id].remove(name)
                if not self._running[query_id]:
                    del self._running[query_id]

    def close(self) -> None:
        """Close the sessions' handles."""
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            session.handle.close()

    def _answer(self, handle: Any, request: Request, checked: Checked, stop: threading.Event) -> Generator[Head | bytes]:
        if checked.control:
            handle.query(checked.sql)
            return
        name = checked.format or request.default_format
        sql = _GREETING_ANSWER if checked.sql == _GREETING else checked.sql
        started = time.monotonic_ns()
        parameters = dict(request.parameters)
        if checked.select and name in STREAMED_FORMATS and not request.wait:
            stream = handle.send_query(sql, name, params=parameters)
            try:
                empty = True
                for chunk in stream:
                    if stop.is_set():
                        return
                    if empty:
                        yield Head(format=name, elapsed_ns=time.monotonic_ns() - started)
                        empty = False
                    yield chunk.bytes()
            finally:
                stream.close()
            if not empty:
                return
            # no block at all: the whole answer still has a header in some formats
        result = handle.query(sql, name, params=parameters)
        body: bytes = result.bytes() or b""
        yield Head(
            format=name,
            read_rows=result.storage_rows_read(),
            read_bytes=result.storage_bytes_read(),
            result_rows=result.rows_read(),
            elapsed_ns=time.monotonic_ns() - started,
        )
        for at in range(0, len(body), _PIECE_BYTES):
            yield body[at : at + _PIECE_BYTES]

    @contextmanager
    def _handle(self, request: Request, name: str) -> Generator[Any]:
        for setting, value in request.settings.items():
            check_setting(setting, value)
        settings = {**request.settings, _NAME_SETTING: name}
        if request.session_id is None:
            handle = self._fenced(request.database, settings)
            try:
                yield handle
            finally:
                handle.close()
            return
        session = self._session(request)
        try:
            with _temporary(session.handle, settings):
                yield session.handle
        finally:
            session.lock.release()

    def _fenced(self, database: str | None, settings: Mapping[str, str]) -> Any:
        handle = self._open()
        try:
            # clients that know no other name ask for `default`, which would be chDB's: it serves files of the host
            name = self._database if database in (None, "", "default") else database
            # nor `system`: a name without a database is taken for one of ours (`guard`)
            if name not in {self._database, "information_schema", "INFORMATION_SCHEMA"}:
                raise ClickHouseError(
                    81, "UNKNOWN_DATABASE", f"Database {name} does not exist. Maybe you meant {self._database}?"
                )
            handle.query(f"USE {quote_identifier(name)}")
            chosen = {**_BOUNDS, **{name: value for name, value in settings.items() if name != "readonly"}}
            handle.query("SET " + ", ".join(f"{name} = {quote_text(value)}" for name, value in chosen.items()))
            handle.query("SET readonly = 2")
        except Exception as error:
            handle.close()
            raise from_engine(error) from error
        return handle

    def _session(self, request: Request) -> _Session:
        """Return the session, locked."""
        key, now = request.session_id or "", self._monotonic()
        with self._lock:
            expired = [name for name, one in self._sessions.items() if one.expires < now and not one.lock.locked()]
            for name in expired:
                self._sessions.pop(name).handle.close()
            session = self._sessions.get(key)
            if session is None:
                if request.session_must_exist:
                    raise ClickHouseError(372, "SESSION_NOT_FOUND", f"Session {key} not found")
                session = self._sessions[key] = _Session(handle=self._fenced(request.database, {}))
            session.expires = now + request.session_seconds
            if not session.lock.acquire(blocking=False):
                raise ClickHouseError(373, "SESSION_IS_LOCKED", f"Session {key} is locked by a concurrent client")
            return session


@contextmanager
def _temporary(handle: Any, settings: Mapping[str, str]) -> Generator[None]:
    """Set a statement's settings on a session's handle, and put the old ones back."""
    before: dict[str, str] = {}
    try:
        for name, value in settings.items():
            if name == "readonly":
                continue
            answer = handle.query("SELECT value FROM system.settings WHERE name = {n:String}", "TSVRaw", params={"n": name})
            before[name] = answer.bytes().decode().rstrip("\n")
            handle.query(f"SET {quote_identifier(name)} = {quote_text(value)}")
        yield
    except RuntimeError as error:
        raise from_engine(error) from error
    finally:
        for name, value in before.items():
            with suppress(RuntimeError):
                handle.query(f"SET {quote_identifier(name)} = {quote_text(value)}")
