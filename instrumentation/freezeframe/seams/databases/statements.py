"""Databases: the statements of a run as exchanges. One mechanism for all libraries; a seam describes a call and its result.

With `record_databases`, a call inside a run is recorded: statement, parameters, and the rows or whatever else is returned. A
replay answers it from the recording, and no database is needed: a write is compared like any other call, and
held back. A tool's statements are recorded inside the tool, and answered if a replay runs the tool. Without the
option, a query is a gap of its run, and a tool that a replay runs gets no server.

Statements of a replayed program outside its entry point, during setup, are not part of the run and return nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from freezeframe._guard import guard
from freezeframe.context.current import PLACE, Place, RunContext, current_place
from freezeframe.seams.functions import calls
from freezeframe.seams.functions.calls import FunctionCall
from freezeframe.seams.recorder import switch
from freezeframe.seams.unmarked import accesses
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Completion, Kind
from freezeframe_schemas.gaps import GapKind

if TYPE_CHECKING:
    from freezeframe.seams.recorder.recording import Recording

_T = TypeVar("_T")

MAX_ROWS: Final = 100_000
"""Rows that are kept of one result. If there are more, the run records it."""
_ROWS_AT_ONCE: Final = 500
"""Rows that become one piece of the recorded answer."""


def is_recorded() -> bool:
    """Return whether a call made here is an exchange."""
    recorder, place = switch.recorder(), current_place()
    if recorder is None or not recorder.settings.record_databases or not place.is_followed:
        return False
    return place.run is not None or recorder.root.accesses() is not None


def is_served() -> bool:
    """Return whether a call made here is answered in place of the database: always, if the run recorded its calls."""
    return switch.serving() is not None and switch.databases() != "as they are" and not current_place().is_real


def is_in_run() -> bool:
    """Return whether the running code is part of the run that is replayed."""
    return switch.databases() == "everywhere" or current_place().run is not None


def outside_recording(original: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
    """Call something that a replay does not do, such as opening a connection: outside the program's lane, and not recorded."""
    token = PLACE.set(_place_outside())
    try:
        return original(*args, **kwargs)
    finally:
        PLACE.reset(token)


async def outside_recording_async(original: Callable[..., Awaitable[_T]], *args: Any, **kwargs: Any) -> _T:
    """Like `outside_recording`, for an awaited call."""
    token = PLACE.set(_place_outside())
    try:
        return await original(*args, **kwargs)
    finally:
        PLACE.reset(token)


def _place_outside() -> Place:
    place = current_place()
    # In a replay, fences and copies of files hold here, too.
    return place.aside() if switch.serving() is None else replace(place, lane=place.lane.aside())


def operation_of(statement: object) -> str:
    """Return the first word of a statement, in capitals."""
    words = str(statement).split(None, 1)
    return words[0].upper().strip("();") if words else ""


def describe_statement(system: str, operation: str, *arguments: object) -> calls.Describe:
    """Return the description of a call: the database's name in the conventions, the operation, and its arguments."""
    return lambda: FunctionCall.of(Kind.DATABASE, system, f"{system} {operation}".strip(), *arguments, kwargs={})


def run(
    describe: calls.Describe,
    invoke: Callable[[], _T],
    *,
    nothing: object = None,
) -> _T:
    """Return the database's answer: the recorded one in a replay, else that of `invoke`.

    Args:
        describe: describes the call.
        invoke: makes it.
        nothing: the result of a replay outside the run.
    """
    if is_served():
        return calls.run(describe, invoke) if is_in_run() else nothing  # type: ignore[return-value]  # as the adapter says
    if is_recorded():
        return calls.run(describe, invoke)
    note_unrecorded(describe)
    return invoke()


async def run_async(
    describe: calls.Describe,
    invoke: Callable[[], Awaitable[_T]],
    *,
    nothing: object = None,
) -> _T:
    """Like `run`, for an awaited call."""
    if is_served():
        if not is_in_run():
            return nothing  # type: ignore[return-value]  # as the adapter says
        return await calls.run_async(describe, invoke)
    if is_recorded():
        return await calls.run_async(describe, invoke)
    note_unrecorded(describe)
    return await invoke()


def both(hook: Callable[..., Coroutine[Any, Any, Any]]) -> tuple[Callable[..., Any], Callable[..., Coroutine[Any, Any, Any]]]:
    """Return the plain and the awaited form of ``async def hook(run, original, ...)`` with `run` of this module."""

    async def run_now(describe: calls.Describe, invoke: Callable[[], Coroutine[Any, Any, _T]], **nothing: Any) -> Any:
        return run(describe, lambda: _to_the_end(invoke()), **nothing)

    def plain(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        async def called(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs)

        return _to_the_end(hook(run_now, called, *args, **kwargs))

    async def awaited(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await hook(run_async, original, *args, **kwargs)

    return plain, awaited


def _to_the_end(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    except RuntimeError as error:  # Python raises it in place of a StopIteration of the library
        if isinstance(error.__cause__, StopIteration) and str(error) == "coroutine raised StopIteration":
            raise error.__cause__ from None
        raise
    raise RuntimeError("a plain call was awaited")


def note_unrecorded(describe: calls.Describe, verb: str = "queries the database", *, file: str = "") -> None:
    """Note that the run uses a database that is not recorded.

    Raises:
        ReplayMiss: a tool that a replay runs asks a server.
    """
    responder = switch.serving()
    if responder is not None and current_place().run_anew:
        if not describe().name.startswith("sqlite"):
            calls.miss(describe)
        responder.unserved(f"queries {file or 'an sqlite database'} as it is now")
    if switch.recorder() is not None and not current_place().inside_call:
        with guard("databases.note_unrecorded"):
            accesses.note(GapKind.DATABASE, verb, describe().name.partition(" ")[0])


# -- results of statements --------------------------------------------------------------------------------------------------


class RecordedResult:
    """Records the rows that the program takes from the result of one statement, one by one.

    The exchange ends when the rows do, when the cursor is closed, executes again or is dropped, and with the run.
    It must not hold the cursor: that would keep a lock in the database until the garbage collector comes.
    """

    __slots__ = (
        "__weakref__",
        "_lead",
        "_recording",
        "_rows",
        "_run",
        "count",
        "factory",
        "inside",
        "is_outside",
        "outside",
        "rowcount",
    )

    def __init__(self, recording: Recording, cursor: Any) -> None:
        place = current_place()
        self.outside = place
        span_id = f"{recording.span.get_span_context().span_id:016x}"
        self.inside = replace(place.aside(), call_span_id=span_id)
        """The place where rows are fetched: functions of the program that the database calls are part of the call."""
        self.factory: Any = None
        """The program's row factory."""
        self.is_outside = False
        """True if the program's factory runs, or has raised."""
        self.count = 0
        self.rowcount: Any = None
        self._recording: Recording | None = recording
        self._run = place.run
        self._lead = ""
        self._rows: list[str] = []
        with guard("databases.result"):
            self.rowcount = _attribute(cursor, "rowcount")
            head = {"columns": [column[0] for column in cursor.description or ()] if cursor.description else None}
            head |= {"rowcount": self.rowcount, "lastrowid": _attribute(cursor, "lastrowid")}
            recording.chunk(f'{values.encode(head)[:-1]}, "rows": ['.encode())
            recorder = switch.recorder()
            if recorder is not None:
                recorder.results.add(self)

    def add(self, row: Any) -> None:
        """Note a row that the program takes, before it can change what is in it."""
        self.count += 1
        if self.count <= MAX_ROWS and self._recording is not None:
            with guard("databases.row"):
                self._rows.append(values.encode(list(row)))
                if len(self._rows) == _ROWS_AT_ONCE:
                    self._flush(self._recording)

    def _flush(self, recording: Recording) -> None:
        if self._rows:
            recording.chunk((self._lead + ", ".join(self._rows)).encode())
            self._lead = ", "
            self._rows.clear()

    def is_of(self, run: RunContext) -> bool:
        return self._run is not None and self._run.readings is run.readings

    def end(self, *, is_whole: bool = False, error: BaseException | None = None, rowcount: Any = None) -> None:
        """End the exchange, once. `is_whole`: the program has met the end of the rows."""
        self.rowcount = self.rowcount if rowcount is None else rowcount
        recording, self._recording = self._recording, None
        if recording is None:
            return
        with guard("databases.end"):
            self._flush(recording)
            tail: dict[str, Any] = {"whole": is_whole, "rowcount_then": self.rowcount}
            tail |= {"more": object()} if self.count > MAX_ROWS else {}
            tail |= {} if error is None else {"error": error}
            recording.chunk(f"], {values.encode(tail)[1:]}".encode())
        recording.finish(Completion.COMPLETE if error is None else Completion.BROKEN, error)

    def __del__(self) -> None:
        self.end()


class ReplayedResult:
    """The result of one statement in a replay: only the rows that the run took."""

    __slots__ = ("_at", "_describe", "_recorded", "factory")

    def __init__(self, recorded: dict[str, Any], describe: calls.Describe) -> None:
        self._recorded = recorded
        self._describe = describe
        self._at = 0
        self.factory: Any = None

    def next(self) -> Any:
        """Return the next row, None after the last.

        Raises:
            ReplayMiss: the run took no more rows, so it did not see whether there were any.
            Exception: the one that the run got here.
        """
        if self._at < len(self._recorded["rows"]):
            self._at += 1
            return self._recorded["rows"][self._at - 1]
        if (error := self._recorded.get("error")) is not None:
            raise error
        if not self.is_whole and is_in_run():
            call = self._describe()
            name = f"{call.name}: rows after the {self._at} that the run took"
            calls.miss(lambda: replace(call, name=name, body=values.encode({"args": [name], "kwargs": {}})))
        return None

    @property
    def is_whole(self) -> bool:
        """True if the run met the end of the rows."""
        return self._recorded.get("whole", "more" not in self._recorded)

    @property
    def steps(self) -> int:
        """Number of rows, or one more if the result does not end there."""
        return len(self._recorded["rows"]) + (not self.is_whole or "error" in self._recorded)

    @property
    def columns(self) -> list[str] | None:
        """The names of the columns, None for a statement without rows."""
        return self._recorded["columns"]

    @property
    def description(self) -> tuple[tuple[Any, ...], ...] | None:
        """Description of the columns, as in DB-API 2.0."""
        return None if self.columns is None else tuple((name, *(None,) * 6) for name in self.columns)

    @property
    def rowcount(self) -> Any:
        """Number of rows read so far."""
        came = self._at >= len(self._recorded["rows"])
        return self._recorded.get("rowcount_then", self._recorded["rowcount"]) if came else self._recorded["rowcount"]

    @property
    def lastrowid(self) -> Any:
        """The id of the row that was inserted."""
        return self._recorded["lastrowid"]


def replay(describe: calls.Describe, *, reads: bool = False) -> ReplayedResult:
    """Return a replay's answer to a statement: the recorded one; outside the run nothing, or no rows if it `reads`."""
    nothing: dict[str, Any] = {"columns": [] if reads else None, "rows": [], "rowcount": -1, "lastrowid": None}
    return ReplayedResult(calls.run(describe, lambda: nothing, load=_load) if is_in_run() else nothing, describe)


def take(
    describe: calls.Describe, real: Callable[[], object], cursor: Any, started: Callable[[Recording], None] = lambda _: None
) -> RecordedResult | None:
    """Execute a statement and record it; return the recorder of its rows, None without rows or if it is not recorded."""
    recording = calls.begin(describe, real, started)
    if recording is None:
        return None
    result = RecordedResult(recording, cursor)
    if cursor.description is not None:
        return result
    result.end(is_whole=True)
    return None


def _load(text: str) -> dict[str, Any]:
    recorded = values.decode(text)
    return {**recorded, "rows": [tuple(row) for row in recorded["rows"]]}


def _attribute(cursor: Any, name: str) -> Any:
    try:
        return getattr(cursor, name, None)
    except Exception:  # drivers may refuse it, as DB-API 2.0 lets them
        return None
