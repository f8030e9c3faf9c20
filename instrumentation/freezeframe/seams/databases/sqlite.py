"""sqlite3: statements of every connection that is made while databases are recorded, or answered in a replay.

The classes of sqlite3 are written in C and cannot be patched, so `connect` makes connections of a subclass. In a replay they
are real ones, to an empty database in memory: row factories, descriptions and types are sqlite3's own.
Statements outside the run (tables created at the start) are executed there.

Not seen: `backup`, ``serialize``, blobs, and connections that were made before `instrument()`.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from freezeframe._guard import guard
from freezeframe.context.current import PLACE, current_place, leave
from freezeframe.seams.databases import statements
from freezeframe.seams.functions import calls
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.unmarked import accesses
from freezeframe_schemas import values

if TYPE_CHECKING:
    from freezeframe.seams.recorder.recording import Recording

SYSTEM: Final = "sqlite"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``sqlite3.connect``, wherever it was imported, or aiosqlite, whose threads work for the waiting task."""
    if module.__name__ == "aiosqlite.core":
        patches.around(module.Connection, "_execute", _in_place)
        return
    original: Any = module.connect
    patches.everywhere(module, {"connect": functools.wraps(original)(functools.partial(_connect, original))})


async def _in_place(original: Any, connection: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    return await original(connection, functools.partial(contextvars.copy_context().run, function), *args, **kwargs)


def _connect(original: Any, *args: Any, **kwargs: Any) -> Any:
    recorder = switch.recorder()
    records = recorder is not None and recorder.settings.record_databases
    if not current_place().is_followed or not (records or switch.serving() is not None):
        if recorder is not None and switch.serving() is None:  # a replay has fences
            accesses.hear("sqlite3.connect", (args[0] if args else kwargs.get("database"),), sys._getframe(1))
        return original(*args, **kwargs)
    own_factory = args[5] if len(args) > 5 else kwargs.pop("factory", None)
    factory = _watched_kind_of(sqlite3.Connection if own_factory is None else own_factory, _Connection)
    if len(args) > 5:
        return _opened(original, (*args[:5], factory, *args[6:]), kwargs)
    return _opened(original, args, {**kwargs, "factory": factory})


def _opened(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if statements.is_served():
        kwargs.pop("uri", None)
        return original(":memory:", *args[1:], **{name: value for name, value in kwargs.items() if name != "database"})
    return statements.outside_recording(original, *args, **kwargs)


@functools.lru_cache(maxsize=100)
def _watched_kind_of(kind: Any, ours: type) -> Any:
    """Return a class like the program's, with ours added to sqlite3's; the program's own if that is impossible."""
    if isinstance(kind, type) and not issubclass(kind, ours) and issubclass(kind, ours.__mro__[1]):
        with contextlib.suppress(TypeError):
            bases = (ours,) if kind is ours.__mro__[1] else (kind, ours)
            return type(kind)(kind.__name__, bases, {"__module__": kind.__module__, "__slots__": ()})
    return kind


class _Connection(sqlite3.Connection):
    """A connection whose cursors are ours."""

    __slots__ = ()

    def cursor(self, factory: Any = sqlite3.Cursor) -> Any:
        return super().cursor(_watched_kind_of(factory, _Cursor))

    def execute(self, *args: Any) -> Any:
        return _Connection.cursor(self).execute(*args)

    def executemany(self, *args: Any) -> Any:
        return _Connection.cursor(self).executemany(*args)

    def executescript(self, *args: Any) -> Any:
        return _Connection.cursor(self).executescript(*args)


_FACTORY: Final[Any] = sqlite3.Cursor.row_factory
"""Attribute in which sqlite3 keeps the function that it calls with each row."""


class _Cursor(sqlite3.Cursor):
    """A cursor that notes which rows the program takes; in a replay, one that returns those.

    All of its work is sqlite3's own: only the function that converts each row is ours.
    """

    __slots__ = ("_result",)
    _result: statements.RecordedResult | statements.ReplayedResult | None

    def __new__(cls, *_: Any, **__: Any) -> Any:
        self = super().__new__(cls)
        self._result = None
        return self

    def execute(self, *args: Any) -> Any:  # type: ignore[override]  # as given
        return self._ask("execute", args, statements.describe_statement(SYSTEM, _operation(args), *args))

    def executescript(self, *args: Any) -> Any:  # type: ignore[override]
        return self._ask("executescript", args, statements.describe_statement(SYSTEM, _operation(args), *args))

    def executemany(self, *args: Any) -> Any:  # type: ignore[override]
        sql, sets = args if len(args) == 2 else ("", ())
        rows: Iterator[Any] | None = None
        if not isinstance(sets, list | tuple):
            with contextlib.suppress(TypeError):  # sqlite3 says it better
                rows = iter(sets)
        if rows is None:
            return self._ask("executemany", args, statements.describe_statement(SYSTEM, _operation(args), *args))
        if statements.is_served() and statements.is_in_run():
            return self._all_at_once(sql, rows)
        passed = _Sets(rows)
        described = statements.describe_statement(SYSTEM, _operation(args), sql, [])
        return self._ask("executemany", (sql, passed.each()), lambda: passed.opened(described()), passed)

    def _all_at_once(self, sql: str, given: Iterator[Any]) -> Any:
        rows: list[Any] = []
        failed: Exception | None = None
        try:
            rows.extend(given)
        except Exception as error:
            failed = error
        self.executemany(sql, rows)
        if failed is not None:
            raise failed
        return self

    def _ask(self, how: str, args: tuple[Any, ...], describe: calls.Describe, sets: _Sets | None = None) -> Any:
        self._leave()
        real = functools.partial(getattr(super(), how), *args)
        if statements.is_served():
            if not statements.is_in_run():
                real()
                return self
            replayed = statements.replay(describe)
            names = ", ".join('NULL AS "{}"'.format(name.replace('"', '""')) for name in replayed.columns or ("nothing",))
            steps = replayed.steps if replayed.columns is not None else 0
            rows = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {steps})"
            super().execute(f"{rows} SELECT {names} FROM n LIMIT {steps}")
            self._follow(replayed, _give)
        elif statements.is_recorded():
            recorded = statements.take(describe, real, self) if sets is None else sets.record(describe, real, self)
            if recorded is not None:
                self._follow(recorded, _note)
        else:
            if (file := self._file()) is not None:
                statements.note_unrecorded(statements.describe_statement(SYSTEM, ""), file=file)
            real()
        return self

    def _file(self) -> str | None:
        """Return the name of the database's file, asked for in a replay only; None if it is in memory."""
        if switch.serving() is None:
            return ""
        asks = sqlite3.Connection.cursor(self.connection)
        asks.row_factory = None
        return (
            next((os.path.basename(path) for _, name, path in asks.execute("PRAGMA database_list") if name == "main"), "")
            or None
        )

    def _follow(self, result: statements.RecordedResult | statements.ReplayedResult, each: Any) -> None:
        result.factory = _FACTORY.__get__(self)
        _FACTORY.__set__(self, each)
        self._result = result

    def _leave(self) -> None:
        result, self._result = self._result, None
        if result is not None:
            _FACTORY.__set__(self, result.factory)
            if isinstance(result, statements.RecordedResult):
                result.end()

    def close(self) -> None:
        super().close()
        self._leave()

    # -- what comes back ------------------------------------------------------------------------------------------------

    def _fetch(self, real: Callable[[], Any], *, wanted: int | None = 1) -> Any:
        result = self._result
        if not isinstance(result, statements.RecordedResult):
            return real()
        before, result.outside, result.is_outside = result.count, current_place(), False
        token = PLACE.set(result.inside)
        try:
            found = real()
        except sqlite3.ProgrammingError:  # a closed cursor, another thread: nothing was asked of the database
            raise
        except BaseException as error:
            is_end = isinstance(error, StopIteration)
            if not result.is_outside:
                result.end(rowcount=super().rowcount, is_whole=is_end, error=None if is_end else error)
            raise
        finally:
            leave(token)
        result.rowcount = super().rowcount
        came = result.count - before
        if wanted is None or came < wanted or wanted <= 0 < came:  # with no rows, `fetchmany` returns all that are left
            result.end(is_whole=True)
        return found

    def fetchone(self) -> Any:
        return self._fetch(super().fetchone)

    def fetchmany(self, *args: Any, **kwargs: Any) -> list[Any]:  # type: ignore[override]
        wanted = args[0] if args else kwargs.get("size", self.arraysize)
        return self._fetch(functools.partial(super().fetchmany, *args, **kwargs), wanted=wanted)

    def fetchall(self) -> list[Any]:
        return self._fetch(super().fetchall, wanted=None)

    def __next__(self) -> Any:
        return self._fetch(super().__next__)

    @property
    def row_factory(self) -> Any:
        return _FACTORY.__get__(self) if self._result is None else self._result.factory

    @row_factory.setter
    def row_factory(self, factory: Any) -> None:  # type: ignore[override]  # a slot in sqlite3
        if self._result is None:
            _FACTORY.__set__(self, factory)
        else:
            self._result.factory = factory

    @property
    def description(self) -> Any:
        return self._result.description if isinstance(self._result, statements.ReplayedResult) else super().description

    @property
    def rowcount(self) -> int:
        return self._result.rowcount if isinstance(self._result, statements.ReplayedResult) else super().rowcount

    @property
    def lastrowid(self) -> int | None:
        return self._result.lastrowid if isinstance(self._result, statements.ReplayedResult) else super().lastrowid


class _Sets:
    """The parameters of `executemany` as sqlite3 takes them, one by one: the program may make them as it goes."""

    __slots__ = ("_end", "_given", "_outside", "_recording", "_spans")

    def __init__(self, given: Iterator[Any]) -> None:
        from opentelemetry import context

        self._given = given
        self._outside, self._spans = current_place(), context.get_current()
        self._recording: Recording | None = None
        self._end = ""

    def opened(self, call: calls.FunctionCall) -> calls.FunctionCall:
        """Return the call without the end of its arguments, which come later."""
        start, bracket, end = call.body.rpartition("]]")
        self._end = bracket + end
        return replace(call, body=start)

    def record(self, describe: calls.Describe, real: Callable[[], object], cursor: Any) -> statements.RecordedResult | None:
        def done() -> None:
            try:
                real()
            finally:
                if self._recording is not None:
                    self._recording.request_body.add(self._end.encode())

        return statements.take(describe, done, cursor, functools.partial(setattr, self, "_recording"))

    def each(self) -> Iterator[Any]:
        """Yield the parameters; the program makes each one where it is, not inside the call."""
        from opentelemetry import context

        lead = ""
        while True:
            token, inside = PLACE.set(self._outside), context.attach(self._spans)
            try:
                row = next(self._given)
            except StopIteration:
                return
            finally:
                context.detach(inside)
                leave(token)
            if self._recording is not None:
                with guard("sqlite.parameters"):
                    self._recording.request_body.add((lead + values.encode(row)).encode())
            lead = ", "
            yield row


def _note(cursor: Any, row: Any) -> Any:
    """Convert a row as the program does, at the program's place."""
    result = cursor._result
    result.add(row)
    if result.factory is None:
        return row
    token, result.is_outside = PLACE.set(result.outside), True
    try:
        made = result.factory(cursor, row)
    finally:
        leave(token)
    result.is_outside = False
    return made


def _give(cursor: Any, _: Any) -> Any:
    result = cursor._result
    row = result.next()
    return row if result.factory is None else result.factory(cursor, row)


def _operation(args: tuple[Any, ...]) -> str:
    return statements.operation_of(args[0] if args else "")
