"""SQLAlchemy, core and ORM, sync and async: each statement that it gives to a driver, whatever the driver.

The cursor of an execution is wrapped: rows are recorded as SQLAlchemy fetches them. In a replay no driver is
called: connections lead nowhere, and SQLAlchemy's first questions about the server are part of the recording.

Not seen: the driver's own cursors (``Engine.raw_connection``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.context.current import PLACE, current_place, leave
from freezeframe.seams.databases import statements
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.responder import Feed
from freezeframe_schemas import values

_SYSTEMS: Final = {"mssql": "microsoft.sql_server", "oracle": "oracle.db"}
"""SQLAlchemy's name of a database -> that of the conventions, if they differ."""
_PLAIN: Final = (str, int, bool, float, type(None))
_READS: Final = frozenset({"SELECT", "WITH", "SHOW", "PRAGMA", "VALUES", "EXPLAIN"})


def install(module: ModuleType, patches: Patches) -> None:
    """Patch the execution contexts of ``sqlalchemy.engine.default``, and the pool's way to connect."""
    from sqlalchemy.pool import base

    def patch(owner: Any) -> None:
        if "create_cursor" in vars(owner):
            patches.around(owner, "create_cursor", _cursor)

    patch(module.DefaultExecutionContext)
    patches.in_subclasses(module.DefaultExecutionContext, patch)
    record: Any = base._ConnectionRecord
    patches.around(record, "_ConnectionRecord__connect", _connect)


def _connect(original: Any, record: Any, *args: Any, **kwargs: Any) -> Any:
    if not statements.is_served():
        return statements.outside_recording(original, record, *args, **kwargs)
    record.dbapi_connection, record.fresh, record.starttime = _Nowhere(), True, 0
    dialect = record._ConnectionRecord__pool._dialect
    responder = switch.serving()
    recorded = None if responder is None else responder.recall(Feed.READING, _feed(dialect))
    if recorded is not None:
        vars(dialect).update(values.decode(recorded))
    return None


def _feed(dialect: Any) -> str:
    return f"sqlalchemy {dialect.name}"


def _note(dialect: Any) -> None:
    """Keep the dialect's knowledge of its server, once in a run."""
    recorder, run = switch.recorder(), current_place().run
    if recorder is None or (run is not None and _feed(dialect) in run.readings):
        return
    plain = {name: value for name, value in vars(dialect).items() if _is_plain(value)}
    (run or recorder.root).note_reading(_feed(dialect), values.encode(plain))


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (type(value) is tuple and all(isinstance(item, _PLAIN) for item in value))


def _cursor(original: Any, context: Any, *args: Any, **kwargs: Any) -> Any:
    cursor = original(context, *args, **kwargs)
    if switch.serving() is None and switch.recorder() is None:
        return cursor
    with guard("sqlalchemy.cursor"):
        name = str(context.dialect.name)
        system = _SYSTEMS.get(name, name)
        if statements.is_recorded():
            _note(context.dialect)
        elif not statements.is_served():
            statements.note_unrecorded(statements.describe_statement(system, ""))
            return cursor
        return _Cursor(cursor, system)
    return cursor


class _Cursor:
    """A driver's cursor that notes which rows SQLAlchemy takes; in a replay, one that returns those."""

    def __init__(self, cursor: Any, system: str) -> None:
        self._cursor = cursor
        self._system = system
        self._result: statements.RecordedResult | statements.ReplayedResult | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_cursor", "_system", "_result"):
            object.__setattr__(self, name, value)
        else:
            setattr(self._cursor, name, value)

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        return self._ask(self._cursor.execute, args, kwargs)

    def executemany(self, *args: Any, **kwargs: Any) -> Any:
        """Execute a statement several times."""
        return self._ask(self._cursor.executemany, args, kwargs)

    def _ask(self, real: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._leave()
        operation = statements.operation_of(args[0] if args else "")
        describe = statements.describe_statement(self._system, operation, *args)
        if statements.is_served():
            self._result = statements.replay(describe, reads=operation in _READS)
        elif statements.is_recorded():
            self._result = statements.take(describe, partial(real, *args, **kwargs), self._cursor)
        else:
            return real(*args, **kwargs)
        return None

    def _leave(self) -> None:
        if isinstance(self._result, statements.RecordedResult):
            self._result.end()
        self._result = None

    def close(self) -> None:
        self._cursor.close()
        self._leave()

    def _fetch(self, real: Callable[[], Any], wanted: int | None, *, is_row: bool = False) -> Any:
        """Return what `real` does: a row or None, or rows, fewer than `wanted` at the end."""
        result = self._result
        if not isinstance(result, statements.RecordedResult):
            return real()
        token = PLACE.set(result.inside)
        try:
            found = real()
        except Exception as error:
            result.end(error=error)
            raise
        finally:
            leave(token)
        rows = () if found is None else (found,) if is_row else found
        for row in rows:
            result.add(row)
        result.rowcount = getattr(self._cursor, "rowcount", None)
        if wanted is None or len(rows) < wanted:
            result.end(is_whole=True)
        return found

    def fetchone(self) -> Any:
        """Return the next row."""
        return (
            self._result.next()
            if isinstance(self._result, statements.ReplayedResult)
            else self._fetch(self._cursor.fetchone, 1, is_row=True)
        )

    def fetchmany(self, size: int | None = None) -> Any:
        """Return the next rows."""
        if isinstance(self._result, statements.ReplayedResult):
            return list(itertools.islice(self, self._cursor.arraysize if size is None else size))
        size_argument = () if size is None else (size,)
        return self._fetch(partial(self._cursor.fetchmany, *size_argument), self._cursor.arraysize if size is None else size)

    def fetchall(self) -> Any:
        """Return the rows that are left."""
        return list(self) if isinstance(self._result, statements.ReplayedResult) else self._fetch(self._cursor.fetchall, None)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchone, None)

    @property
    def description(self) -> Any:
        """Return the columns: the driver's own, whose types SQLAlchemy may look at, unless a replay answers."""
        return self._result.description if isinstance(self._result, statements.ReplayedResult) else self._cursor.description

    @property
    def rowcount(self) -> Any:
        """Return the number of rows that the statement affected."""
        return self._result.rowcount if isinstance(self._result, statements.ReplayedResult) else self._cursor.rowcount

    @property
    def lastrowid(self) -> Any:
        """Return the id of the row that was inserted."""
        return self._result.lastrowid if isinstance(self._result, statements.ReplayedResult) else self._cursor.lastrowid


class _Nowhere:
    """A driver's connection, and its cursors, in a replay: does nothing, successfully."""

    closed = broken = autocommit = False
    description = lastrowid = None
    rowcount = -1
    arraysize = 1

    def cursor(self, *_: Any, **__: Any) -> _Nowhere:
        return _Nowhere()

    def fetchone(self) -> None:
        """Return no row."""

    def fetchall(self, *_: Any) -> list[Any]:
        """Return no rows."""
        return []

    fetchmany = fetchall

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _do_nothing


def _do_nothing(*_: Any, **__: Any) -> None:
    pass
