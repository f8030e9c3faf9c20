"""psycopg 3, sync and async: each `execute` of a cursor, and `executemany`, with the server's input and output as text.

In a replay a connection leads to a stub on loopback, which gives psycopg the recorded results (`PostgresStub`).

Not seen: `copy`, `stream`, pipelines, server-side cursors, notifications.
"""

from __future__ import annotations

import itertools
import json
import socket
import struct
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from types import ModuleType
from typing import Any, Final

from freezeframe.context.current import current_place
from freezeframe.seams.databases import statements
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.responder import Feed
from freezeframe.seams.unmarked.accesses import note
from freezeframe_schemas import values
from freezeframe_schemas.gaps import GapKind

SYSTEM: Final = "postgresql"
_FEED: Final = "psycopg parameters"
_PARAMETERS: Final = (
    "server_version", "server_encoding", "client_encoding", "DateStyle", "IntervalStyle", "TimeZone", "integer_datetimes",
    "standard_conforming_strings",
)  # fmt: skip
"""Parameters of the server that decide how values are read."""
_USUAL: Final[Mapping[str, str]] = {
    "server_version": "16.0", "server_encoding": "UTF8", "client_encoding": "UTF8", "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres", "TimeZone": "UTC", "integer_datetimes": "on", "standard_conforming_strings": "on",
}  # fmt: skip
_OWN: Final = ("autocommit", "prepare_threshold", "context", "row_factory", "cursor_factory")
"""Arguments of `connect` that are psycopg's, not the server's."""


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``psycopg``."""
    for connection, form in zip((module.Connection, module.AsyncConnection), statements.both(_connect), strict=True):
        patches.replace(connection, "connect", partial(_connects, form))
    patches.replace(module, "connect", lambda _: module.Connection.connect)
    for name, hook in (("execute", _execute), ("executemany", _executemany)):
        for cursor, form in zip((module.Cursor, module.AsyncCursor), statements.both(hook), strict=True):
            patches.around(cursor, name, form)
    values.keep_state(module.Error, _diagnostics, _diagnose)


def _connects(form: Callable[..., Any], original: Any) -> Any:
    def connect(cls: Any, conninfo: str = "", **kwargs: Any) -> Any:
        if statements.is_served():
            own = {name: kwargs[name] for name in _OWN if name in kwargs}
            to = f"host=127.0.0.1 port={_stub().port()} user=replay dbname=replay sslmode=disable gssencmode=disable"
            return original.__func__(cls, to, **own)
        if not statements.is_recorded():
            # libpq is C: no audit hook sees it
            statements.note_unrecorded(statements.describe_statement(SYSTEM, "connect"), "connects to the database")
        return form(partial(statements.outside_recording, original.__func__), cls, conninfo, **kwargs)

    return classmethod(connect)


async def _connect(_: Any, original: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return await original(*args, **kwargs)
    except Exception:
        if statements.is_recorded():  # no step says so, and the stub of a replay answers
            note(GapKind.CONNECTION, "cannot connect to the database", SYSTEM)
        raise


@cache
def _stub() -> PostgresStub:
    return PostgresStub(_parameters)


@cache
def _parameters() -> Mapping[str, str]:
    responder = switch.serving()
    recorded = None if responder is None else responder.recall(Feed.READING, _FEED)
    return _USUAL if recorded is None else json.loads(recorded)


def _note_parameters(cursor: Any) -> None:
    recorder, run = switch.recorder(), current_place().run
    if recorder is not None and (run is None or _FEED not in run.readings):
        found = {name: cursor.connection.info.parameter_status(name) for name in _PARAMETERS}
        (run or recorder.root).note_reading(_FEED, json.dumps({name: value for name, value in found.items() if value}))


# -- what is asked --------------------------------------------------------------------------------------------------------


def _describe(cursor: Any, query: Any, sets: Iterable[Any]) -> Callable[[], Any]:
    """Return the description of a statement: as passed if that is plain data, else as sent to the server."""

    def describe() -> Any:
        statement = [query, *sets]
        if not isinstance(query, str) or values.is_opaque(values.encode(statement)):
            statement = _as_sent(cursor, query, sets)
        return statements.describe_statement(SYSTEM, statements.operation_of(statement[0]), *statement)()

    return describe


def _as_sent(cursor: Any, query: Any, sets: Iterable[Any]) -> list[Any]:
    from psycopg.adapt import Transformer

    converted = cursor._query_cls(Transformer(cursor))
    texts: list[Any] = []
    for number, parameters in enumerate(sets):
        converted.dump(parameters) if number else converted.convert(query, parameters)
        texts.append([_readable(value) for value in converted.params or ()])
    return [_readable(converted.query), *texts]


def _readable(value: Any) -> Any:
    try:
        return bytes(value).decode()
    except (UnicodeDecodeError, TypeError):
        return value if value is None else bytes(value)


def _results(cursor: Any) -> list[dict[str, Any]]:
    return [_result(result) for result in cursor._results]


def _result(result: Any) -> dict[str, Any]:
    columns = [
        [result.fname(number).decode(), result.ftype(number), result.fmod(number), int(result.fformat(number))]
        for number in range(result.nfields)
    ]
    rows = [[_value(result, row, number) for number in range(result.nfields)] for row in range(result.ntuples)]
    has_rows = result.status == 2
    return {"tag": (result.command_status or b"").decode(), "columns": columns if has_rows else None, "rows": rows}


def _value(result: Any, row: int, column: int) -> Any:
    value = result.get_value(row, column)
    return _readable(value) if value is not None and not result.fformat(column) else value


def _diagnostics(error: Any) -> dict[str, str]:
    from psycopg.pq import DiagnosticField

    if getattr(error, "_info", None) is None:
        return {}
    fields = {field.name.lower(): getattr(error.diag, field.name.lower()) for field in DiagnosticField}
    return {name: text for name, text in fields.items() if text is not None}


def _diagnose(error: Any, fields: Mapping[str, str]) -> None:
    """Set a replayed exception's fields from the server's message; psycopg reads a pickled one from such a dict, too."""
    from psycopg.pq import DiagnosticField

    error._info = {DiagnosticField[name.upper()]: text.encode() for name, text in fields.items()}
    error._encoding, error._pgconn = "utf-8", None


def _nothing(query: Any) -> list[dict[str, Any]]:
    word = statements.operation_of(query if isinstance(query, str) else "")
    return [{"tag": word or "OK", "columns": [] if word in ("SELECT", "WITH", "SHOW") else None, "rows": []}]


def _error() -> type[Exception]:
    import psycopg

    return psycopg.Error


def _refusal(error: Any) -> list[dict[str, Any]]:
    """Return an exception as the server reports it; nothing for one that psycopg raises before it contacts the server."""
    from psycopg.pq import DiagnosticField

    fields = {chr(DiagnosticField[name.upper()]): text for name, text in _diagnostics(error).items()}
    return [{"error": fields, "columns": None, "rows": [], "tag": ""}] if fields else []


def _hand_over(cursor: Any, results: list[dict[str, Any]]) -> None:
    _stub().answers[cursor.connection.info.backend_pid].extend(results)


# -- execute --------------------------------------------------------------------------------------------------------------


async def _execute(run: Any, original: Callable[..., Any], cursor: Any, query: Any, params: Any = None, **options: Any) -> Any:
    describe = _describe(cursor, query, [params])
    real = partial(original, cursor, query, params, **options)

    async def done() -> list[dict[str, Any]]:
        await real()
        _note_parameters(cursor)
        return _results(cursor)

    if statements.is_served():
        error: Any = None
        try:
            _hand_over(cursor, await run(describe, done, nothing=_nothing(query)))
        except _error() as raised:
            error = raised
        if error is not None:
            _hand_over(cursor, _refusal(error))
        found = await real()  # raises it
        if error is not None:
            raise error
        return found
    if not statements.is_recorded():
        statements.note_unrecorded(statements.describe_statement(SYSTEM, ""))
        return await real()
    await run(describe, done)
    return cursor


async def _executemany(
    run: Any, original: Callable[..., Any], cursor: Any, query: Any, params_seq: Iterable[Any], **options: Any
) -> Any:
    if options.get("returning"):
        statements.note_unrecorded(statements.describe_statement(SYSTEM, ""))
        return await original(cursor, query, params_seq, **options)
    sets = list(params_seq)

    async def done() -> list[Any]:
        await original(cursor, query, sets, **options)
        return [cursor.rowcount, cursor.statusmessage]

    count, tag = await run(_describe(cursor, query, sets), done, nothing=[0, None])
    if statements.is_served():
        await original(cursor, query, _last_set(cursor, sets, tag), **options)
    cursor._rowcount = count
    return None


def _last_set(cursor: Any, sets: list[Any], tag: str | None) -> list[Any]:
    """Return the statement that a replay executes so that a transaction begins and the cursor has the last result."""
    if not sets or tag is None:
        return []
    _hand_over(cursor, [{"tag": tag, "columns": None, "rows": []}])
    return sets[-1:]


# -- A server of PostgreSQL's protocol on loopback that returns given answers ------------------------------------------
# For a replay of psycopg, whose libpq is C. libpq opens its own sockets, and only it can make the results that
# psycopg reads. So psycopg does everything itself, and only the other end is ours. Borders of transactions are
# acknowledged; anything else without an answer is an error.
#
# Source: PostgreSQL's documentation, "Message Formats" (protocol 3.0).


Result = Mapping[str, Any]
"""``{"tag": "SELECT 1", "columns": [[name, oid, modifier, format]] or None, "rows": [[text, bytes or None]]}``"""

_BORDERS: Final = frozenset(
    "BEGIN START COMMIT ROLLBACK SAVEPOINT RELEASE SET RESET DEALLOCATE DISCARD ABORT LISTEN UNLISTEN".split()
)
_AHEAD: Final = frozenset({"BEGIN", "DEALLOCATE"})
_BY_ITSELF: Final = _AHEAD | {"COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"}
"""Statements that psycopg sends on its own, the first two before the one that `execute` asks for."""
_ENCRYPTED: Final = (80877103, 80877104)
"""Requests for TLS and for GSSAPI."""


class PostgresStub:
    """Listens from the first `address` on; `answers` gives the next answer for a connection, by its process id."""

    def __init__(self, parameters: Callable[[], Mapping[str, str]]) -> None:
        self._parameters = parameters
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._listening: socket.socket | None = None
        self.answers: defaultdict[int, deque[Result]] = defaultdict(deque)

    def port(self) -> int:
        with self._lock:
            if self._listening is None:
                self._listening = socket.create_server(("127.0.0.1", 0))
                _thread(self._accept, self._listening)
            return self._listening.getsockname()[1]

    def _accept(self, listening: socket.socket) -> None:
        while True:
            connection, _ = listening.accept()
            _thread(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        number = next(self._numbers)
        with connection, connection.makefile("rb") as stream:
            while int.from_bytes(_sized(stream)[:4], "big") in _ENCRYPTED:
                connection.sendall(b"N")
            greeting = _message(b"R", struct.pack("!i", 0))
            for name, value in self._parameters().items():
                greeting += _message(b"S", _text(name) + _text(value))
            connection.sendall(greeting + _message(b"K", struct.pack("!ii", number, 0)) + _message(b"Z", b"I"))
            session = _Session(self.answers[number])
            while kind := stream.read(1):
                answer = session.hear(kind, _sized(stream))
                if answer:
                    connection.sendall(answer)


class _Session:
    """One connection: its prepared statements, and whether it is in a transaction."""

    def __init__(self, answers: deque[Result]) -> None:
        self._answers = answers
        self._statements: dict[bytes, bytes] = {}
        self._portal = b""
        self._status = b"I"
        self._failed = False

    def hear(self, kind: bytes, body: bytes) -> bytes:
        """Return the answer to a message; after an error, nothing before the next Sync."""
        if kind == b"S":
            self._failed = False
            return _message(b"Z", self._status)
        if kind == b"Q":
            answered = self._whole(body.rstrip(b"\0"))
            self._failed = False
            return answered + _message(b"Z", self._status)
        if self._failed:
            return b""
        match kind:
            case b"P":
                name, _, rest = body.partition(b"\0")
                self._statements[name] = rest.partition(b"\0")[0]
                return _message(b"1")
            case b"B":
                _, _, rest = body.partition(b"\0")
                self._portal = self._statements.get(rest.partition(b"\0")[0], b"")
                return _message(b"2")
            case b"D":
                parameters = _message(b"t", struct.pack("!h", 0)) if body[:1] == b"S" else b""
                return parameters + (_described(self._answers[0]) if self._has_answer(self._portal) else _message(b"n"))
            case b"E":
                return self._done(self._answers.popleft() if self._has_answer(self._portal) else None, self._portal)
            case b"C":
                return _message(b"3")
            case _:
                return b""

    def _has_answer(self, statement: bytes) -> bool:
        """Return whether the next answer is one to the statement: psycopg sends some by itself, before the program's."""
        if not self._answers or (word := _word(statement)) not in _BY_ITSELF:
            return bool(self._answers)
        if "error" in self._answers[0]:
            # psycopg sends its own BEGIN only outside of a transaction
            return word not in _AHEAD or (word == "BEGIN" and self._status != b"I")
        # a transaction that failed is rolled back by COMMIT
        return self._answers[0]["tag"].split(" ")[0] in ((word, "ROLLBACK") if word == "COMMIT" else (word,))

    def _whole(self, statement: bytes) -> bytes:
        if not self._has_answer(statement):
            return self._done(None, statement)
        answered = b""
        while self._answers:
            result = self._answers.popleft()
            answered += (_described(result) if result["columns"] is not None else b"") + self._done(result, statement)
        return answered

    def _done(self, result: Result | None, statement: bytes) -> bytes:
        word = _word(statement)
        if result is not None and "error" in result:
            self._answers.clear()
            return self._refuse(result["error"])
        if word in ("BEGIN", "START") or (word == "ROLLBACK" and b" TO " in statement.upper()):
            self._status = b"T"
        elif word in ("COMMIT", "ABORT") or (word == "ROLLBACK" and b" TO " not in statement.upper()):
            self._status = b"I"
        if result is not None:
            return b"".join(_row(row) for row in result["rows"]) + _message(b"C", _text(result["tag"]))
        if word in _BORDERS:
            return _message(b"C", _text(word))
        reason = "a replay has no answer to this: only statements of Cursor.execute and executemany are recorded"
        return self._refuse({"S": "ERROR", "V": "ERROR", "C": "0A000", "M": reason})

    def _refuse(self, fields: Mapping[str, str]) -> bytes:
        self._failed = True
        self._status = b"E" if self._status == b"T" else self._status
        return _message(b"E", b"".join(name.encode() + _text(text) for name, text in fields.items()) + b"\0")


def _thread(target: Callable[..., None], *args: Any) -> None:
    from freezeframe.seams.recorder.recording import outside_lane

    with outside_lane():
        threading.Thread(target=target, args=args, daemon=True).start()


def _word(statement: bytes) -> str:
    words = statement.split(None, 1)
    return words[0].decode("ascii", "replace").upper().strip(";") if words else ""


def _sized(stream: Any) -> bytes:
    size = stream.read(4)
    return stream.read(int.from_bytes(size, "big") - 4) if size else b""


def _text(text: str) -> bytes:
    return text.encode() + b"\0"


def _message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _described(result: Result) -> bytes:
    if result["columns"] is None:
        return _message(b"n")
    columns = [
        _text(name) + struct.pack("!ihIhih", 0, 0, oid, -1, modifier, form) for name, oid, modifier, form in result["columns"]
    ]
    return _message(b"T", struct.pack("!h", len(columns)) + b"".join(columns))


def _row(row: list[Any]) -> bytes:
    cells = [struct.pack("!i", -1) if value is None else _cell(value) for value in row]
    return _message(b"D", struct.pack("!h", len(cells)) + b"".join(cells))


def _cell(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("!i", len(data)) + data
