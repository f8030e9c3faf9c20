"""psycopg 3, sync and async: each `execute` of a cursor, and `executemany`, with the server's input and output as text.

In a replay a connection leads to a stub on loopback, which gives psycopg the recorded results (`postgres_stub`).

Not seen: `copy`, `stream`, pipelines, server-side cursors, notifications.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from types import ModuleType
from typing import Any, Final

from freezeframe.context.current import current_place
from freezeframe.seams.databases import statements
from freezeframe.seams.databases.postgres_stub import PostgresStub
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
