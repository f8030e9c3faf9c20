"""sqlite3: statements of every connection that is made while databases are recorded, or answered in a replay.

The classes of sqlite3 are written in C and cannot be patched, so `connect` makes connections of a subclass. In a replay they
are real ones, to an empty database in memory: row factories, descriptions and types are sqlite3's own. What is asked outside
the run (tables that are created at the start) is done there.

Not seen: `backup`, `serialize`, blobs, and connections that were made before `instrument()`.
"""

from __future__ import annotations

import contextvars
import functools
import itertools
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any, Final

from freezeframe._context import PLACE, current_place
from freezeframe.seams import _port, databases
from freezeframe.seams.patching import Patches, importers

SYSTEM: Final = "sqlite"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``sqlite3.connect``, wherever it was imported, or aiosqlite, whose threads ask for the task that waits."""
    if module.__name__ == "aiosqlite.core":
        patches.around(module.Connection, "_execute", _in_place)
        return
    original: Any = module.connect
    ours: Any = functools.wraps(original)(functools.partial(_connect, original))
    for holder, alias, _ in list(importers({"connect": original})):
        patches.replace(holder, alias, lambda _: ours)


async def _in_place(original: Any, connection: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    return await original(connection, functools.partial(contextvars.copy_context().run, function), *args, **kwargs)


def _connect(original: Any, *args: Any, **kwargs: Any) -> Any:
    recorder = _port.recorder()
    records = recorder is not None and recorder.settings.record_databases
    if current_place().inside_call or not (records or databases.is_served()):
        return original(*args, **kwargs)
    given = args[5] if len(args) > 5 else kwargs.pop("factory", None)
    factory = _Connection if given in (None, sqlite3.Connection) else _watched_kind_of(given)
    if len(args) > 5:
        return _opened(original, (*args[:5], factory, *args[6:]), kwargs)
    return _opened(original, args, {**kwargs, "factory": factory})


def _opened(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if databases.is_served():
        kwargs.pop("uri", None)
        return original(":memory:", *args[1:], **{name: value for name, value in kwargs.items() if name != "database"})
    token = PLACE.set(databases.aside())
    try:
        return original(*args, **kwargs)
    finally:
        PLACE.reset(token)


@functools.lru_cache(maxsize=100)
def _watched_kind_of(factory: Any) -> Any:
    return type(factory.__name__, (_Watched, factory), {}) if isinstance(factory, type) else factory


class _Watched:
    """A connection whose cursors are ours."""

    def cursor(self, factory: Any = None) -> Any:
        kind = _Cursor if factory in (None, sqlite3.Cursor) else factory
        if isinstance(kind, type) and issubclass(kind, sqlite3.Cursor) and not issubclass(kind, _Cursor):
            kind = type(kind.__name__, (_Cursor, kind), {})
        return super().cursor(kind)  # type: ignore[misc]  # of sqlite3.Connection

    def execute(self, *args: Any) -> Any:
        return self.cursor().execute(*args)

    def executemany(self, *args: Any) -> Any:
        return self.cursor().executemany(*args)

    def executescript(self, *args: Any) -> Any:
        return self.cursor().executescript(*args)


class _Connection(_Watched, sqlite3.Connection):
    pass


class _Cursor(sqlite3.Cursor):
    """A cursor that has read its rows when `execute` returns, so that they are recorded whole."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._rows: deque[Any] = deque()
        self._known: dict[str, Any] | None = None
        """What the database told of the statement; None if it was not recorded, nor answered."""

    def execute(self, *args: Any) -> Any:  # type: ignore[override]  # as given
        return self._ask("execute", args)

    def executemany(self, sql: str, given: Iterable[Any], /) -> Any:  # type: ignore[override]
        return self._ask("executemany", (sql, list(given)))

    def executescript(self, *args: Any) -> Any:  # type: ignore[override]
        return self._ask("executescript", args)

    def _ask(self, how: str, args: tuple[Any, ...]) -> Any:
        self._rows, self._known = deque(), None
        real = functools.partial(getattr(super(), how), *args)
        served = databases.is_served()
        if (served and not databases.is_in_run()) or not (served or databases.is_recorded()):
            databases.tell(databases.asked(SYSTEM, ""))
            real()
            return self
        operation = databases.operation_of(args[0] if args else "")
        told = databases.run(
            databases.asked(SYSTEM, operation, *args),
            functools.partial(self._done, real),
            dump=databases.dump,
            load=databases.load,
        )
        if served and told["columns"] is not None:  # for sqlite3.Row, which asks the cursor for its names
            names = ", ".join('NULL AS "{}"'.format(name.replace('"', '""')) for name in told["columns"])
            super().execute(f"SELECT {names} WHERE FALSE")
        self._known, self._rows = told, deque(told["rows"])
        return self

    def _done(self, real: Any) -> dict[str, Any]:
        real()
        factory, self.row_factory = self.row_factory, None
        try:
            rows = super().fetchmany(databases.MAX_ROWS) if super().description else []
        finally:
            self.row_factory = factory
        return databases.told_of(self, rows)

    # -- what comes back ------------------------------------------------------------------------------------------------

    def _take(self) -> Iterator[Any]:
        while self._rows:
            row = self._rows.popleft()
            yield row if self.row_factory is None else self.row_factory(self, row)
        if self._known is not None and "more" not in self._known:
            return
        if self._known is not None:
            databases.refuse_more(self._known)
        while (row := super().fetchone()) is not None:
            yield row

    def fetchone(self) -> Any:
        return next(self._take(), None)

    def fetchmany(self, size: int | None = None) -> list[Any]:
        return list(itertools.islice(self._take(), self.arraysize if size is None else size))

    def fetchall(self) -> list[Any]:
        return list(self._take())

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        for row in self._take():
            return row
        raise StopIteration

    @property
    def description(self) -> Any:
        return super().description if self._known is None else databases.columns_of(self._known)

    @property
    def rowcount(self) -> int:
        return super().rowcount if self._known is None else self._known["rowcount"]

    @property
    def lastrowid(self) -> int | None:
        return super().lastrowid if self._known is None else self._known["lastrowid"]
