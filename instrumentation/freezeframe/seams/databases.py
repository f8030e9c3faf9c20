"""Databases: what a run asks of them, as exchanges. One mechanism for all libraries; a seam says what a call asks and returns.

With `record_databases`, a call inside a run is recorded: statement, parameters, and rows or what else comes back. A replay
answers it from the recording, and no database is needed: a write is compared like any other call, and held back. What a tool
asks is part of the tool. Without the option, a run that asks a database has that among its gaps.

What a replayed program asks outside its entry point, while it is set up, was no part of the run: it gets nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from freezeframe._context import Place, current_place
from freezeframe._guard import guard
from freezeframe.seams import _port, calls, unmarked
from freezeframe.seams.calls import FunctionCall
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.gaps import GapKind

_T = TypeVar("_T")

MAX_ROWS: Final = 100_000
"""Rows that are kept of one result. If there are more, the run says so."""


def is_recorded() -> bool:
    """Return whether a call made here is an exchange."""
    recorder, place = _port.recorder(), current_place()
    if recorder is None or place.inside_call or not recorder.settings.record_databases:
        return False
    return place.run is not None or recorder.root.sights() is not None


def is_served() -> bool:
    """Return whether a call made here is answered in place of the database: always, if the run recorded its calls."""
    return _port.serving() is not None and _port.databases() != "as they are" and not current_place().inside_call


def is_in_run() -> bool:
    """Return whether the running code is part of the run that is replayed."""
    return _port.databases() == "everywhere" or current_place().run is not None


def aside() -> Place:
    """Return the place of what a replay does not do: opening the connection to a database."""
    place = current_place()
    return replace(place, lane=place.lane.aside(), inside_call=True)


def operation_of(statement: object) -> str:
    """Return the first word of a statement, in capitals."""
    words = str(statement).split(None, 1)
    return words[0].upper().strip("();") if words else ""


def asked(system: str, operation: str, *arguments: object) -> calls.Describe:
    """Return what describes a call: the database's name in the conventions, the operation, and what it is given."""
    return lambda: FunctionCall.of(Kind.DATABASE, system, f"{system} {operation}".strip(), *arguments, kwargs={})


def run(
    describe: calls.Describe,
    invoke: Callable[[], _T],
    *,
    dump: calls.Dump = values.encode,
    load: calls.Load = values.decode,
    nothing: object = None,
) -> _T:
    """Return what the database answers: as recorded in a replay, else from `invoke`.

    Args:
        describe: describes the call.
        invoke: makes it.
        dump: writes its result.
        load: reads it.
        nothing: what a replay returns outside the run.
    """
    if is_served():
        return calls.run(describe, invoke, dump=dump, load=load) if is_in_run() else nothing  # type: ignore[return-value]  # as the adapter says
    if is_recorded():
        return calls.run(describe, invoke, dump=dump, load=load)
    tell(describe)
    return invoke()


async def run_async(
    describe: calls.Describe,
    invoke: Callable[[], Awaitable[_T]],
    *,
    dump: calls.Dump = values.encode,
    load: calls.Load = values.decode,
    nothing: object = None,
) -> _T:
    """Like `run`, for an awaited call."""
    if is_served():
        if not is_in_run():
            return nothing  # type: ignore[return-value]  # as the adapter says
        return await calls.run_async(describe, invoke, dump=dump, load=load)
    if is_recorded():
        return await calls.run_async(describe, invoke, dump=dump, load=load)
    tell(describe)
    return await invoke()


def tell(describe: calls.Describe) -> None:
    """Note that the run asks a database that is not recorded."""
    if _port.recorder() is not None and not current_place().inside_call:
        with guard("databases.tell"):
            unmarked.note(GapKind.DATABASE, "asks the database", describe().name.partition(" ")[0])


# -- results of statements --------------------------------------------------------------------------------------------------


def told_of(cursor: Any, rows: list[Any]) -> dict[str, Any]:
    """Return what a cursor (DB-API 2.0) tells of a statement, with the rows that were read of it."""
    description = cursor.description
    return {
        "columns": None if description is None else [column[0] for column in description],
        "rows": rows,
        "rowcount": _attribute(cursor, "rowcount"),
        "lastrowid": _attribute(cursor, "lastrowid"),
        **({"more": object()} if len(rows) == MAX_ROWS else {}),
    }


def _attribute(cursor: Any, name: str) -> Any:
    try:
        return getattr(cursor, name, None)
    except Exception:  # drivers may refuse it, as DB-API 2.0 lets them
        return None


def dump(told: dict[str, Any]) -> str:
    """Write it: rows as lists, which are half as long as tuples."""
    return values.encode({**told, "rows": [list(row) for row in told["rows"]]})


def load(text: str) -> dict[str, Any]:
    """Read it."""
    told = values.decode(text)
    return {**told, "rows": [tuple(row) for row in told["rows"]]}


def columns_of(told: dict[str, Any]) -> tuple[tuple[Any, ...], ...] | None:
    """Return the description that DB-API 2.0 asks for."""
    return None if told["columns"] is None else tuple((name, *(None,) * 6) for name in told["columns"])


def refuse_more(told: dict[str, Any]) -> None:
    """Raise if a replay asks for more rows than are kept."""
    if "more" in told and is_served():
        raise RuntimeError(f"the recording holds only the first {MAX_ROWS} rows")
