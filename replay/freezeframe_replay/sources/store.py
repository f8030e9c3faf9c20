"""RunStore: runs from the store, by SQL over HTTP. The same for the collector's embedded store and a ClickHouse server.

Read-only. It returns exactly what was stored, byte for byte: each piece of a payload is checked against its hash.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from freezeframe_replay.sources.scores import COLUMNS, MAX_SCORES, RunScore, score_of_row
from freezeframe_replay.sources.store_door import StoreDoor
from freezeframe_schemas import genai
from freezeframe_schemas.errors import PermanentStoreError, RetryableStoreError, RunError, StoreError, WireError
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.run import Run, build_run
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.tables import run_statement, spans_from_blocks
from freezeframe_schemas.tables.ddl import DATABASE
from freezeframe_schemas.tables.native import decode_blocks
from freezeframe_schemas.tables.run_list import CHOICES, MEANT, NEWEST, RunList, list_statement
from freezeframe_schemas.tables.views import REPLAYED

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client


LAST: Final = "last"
LAST_FAILED: Final = "last-failed"
_MIN_PREFIX_LENGTH: Final = 4
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_HEX_PREFIX: Final = re.compile(r"[0-9a-f]{4,31}")
_ITS_OWN: Final = re.compile(r".*?DB::Exception: (.*?)(?: \(for url \S+\))?$")
"""The store's own message within the driver's."""
_EPOCH: Final = dt.datetime(1970, 1, 1)
_KNOWN: Final = {frozenset[RunStatus](): "", frozenset({RunStatus.FAILED}): "failed"}
"""Statuses -> the choice of `STATUSES` that lists them."""
_PLAIN: Final = {"String": "bytes", "FixedString": "bytes", "DateTime64": "int"}
"""Text as bytes, because clickhouse-connect turns non-UTF-8 text into hex; times as nanoseconds, because it truncates them."""

_BROKE_OFF: Final = b"\r\n__exception__\r\n"
"""Marks ClickHouse's error at the end of an answer that it cannot continue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    trace_id: str
    run_id: str
    tenant: str
    name: str
    status: str
    """One of `RunStatus`."""
    service: str
    agent: str
    user_id: str
    session_id: str
    start_time: dt.datetime
    ms: float
    spans: int
    exchanges: int
    steps: int
    model_calls: int
    tool_calls: int
    errors: int
    input_tokens: int
    output_tokens: int
    first_error: str
    input: str
    output: str
    commit: str
    models: Sequence[str]
    tools: Sequence[str]
    level: int
    """Its level of re-enactment, see `freezeframe_schemas.run.LEVELS`."""


RUN_COLUMNS: Final = tuple(RunRow.__dataclass_fields__)
"""Columns of the view ``runs`` that make a `RunRow`, in its order."""


def open_runs(url: str, *, tenant: str | None = None) -> RunStore:
    """Open the store at ``http://127.0.0.1:8123`` or ``clickhouse://user:password@host:8123/database``.

    Args:
        url: ``https`` and ``clickhouses`` use TLS. The database is ``freezeframe`` unless the path or ``?database=``
            names another.
        tenant: see only this tenant's runs; None sees all.

    Nothing is sent yet.

    Raises:
        ConfigError: the URL has neither form.
    """
    return RunStore(StoreDoor.at(url, database=DATABASE), tenant=tenant)


def connect(url: str, *, database: str) -> Client:
    """Return a client of the ClickHouse at the URL; `database` is used if the URL names none.

    Raises:
        ConfigError: the URL does not have a known form.
        RetryableStoreError: nothing answers there.
    """
    return StoreDoor.at(url, database=database).client()


def query_rows(
    client: Client, query: str, parameters: Mapping[str, Any], formats: Mapping[str, str] = {}
) -> list[dict[str, Any]]:
    """Return the rows of a SELECT by column name; parameters are ``{name:Type}``.

    Raises:
        PermanentStoreError: the store refuses the query; the message is its own.
        RetryableStoreError: the store does not answer.
    """
    result = _ask(client, query, parameters, formats)
    return [dict(zip(result.column_names, row, strict=True)) for row in result.result_rows]


def _ask(
    client: Client,
    query: str,
    parameters: Mapping[str, Any] | None,
    formats: Mapping[str, str],
    settings: Mapping[str, str] | None = None,
) -> Any:
    with _store_errors():
        return client.query(
            query, parameters=dict(parameters or {}), query_formats=dict(formats), settings=dict(settings or {})
        )


@contextmanager
def _store_errors() -> Generator[None]:
    from clickhouse_connect.driver.exceptions import Error, OperationalError

    try:
        yield
    except OperationalError as error:
        raise RetryableStoreError(f"store: {str(error)[:500]}") from error
    except Error as error:
        message = _ITS_OWN.sub(r"\1", str(error).replace("\n", " ").replace(" FORMAT Native", ""))
        raise PermanentStoreError(f"store: {message[:2000]}") from error


def load_stored(store: RunStore, name: str) -> Run:
    """Return the run of a trace id or of any other name that `RunStore.load_spans` takes; raises as it does.

    Traces that are one conversation are one run.
    """
    spans = store.load_spans(name)
    if not any(genai.EXCHANGE_KIND in span.attributes or genai.ENTRY_KIND in span.attributes for span in spans):
        from freezeframe_replay.sources.foreign import continued  # which loads every vendor's conventions

        spans = continued(store, spans)
    return build_run(spans)


def with_standing(run: Run, store: RunStore) -> Run:
    """Return the run with a fact from the store: whether a replay of it was identical."""
    return replace(run, verified=store.is_verified(run.trace_id))


class RunStore:
    """Runs of one store, as one tenant or as all."""

    def __init__(self, door: StoreDoor, *, tenant: str | None = None) -> None:
        self._door = door
        self._tenant = tenant

    def load_spans(self, run: str) -> list[SpanRecord]:
        """Return all spans of a run, exactly as stored, by start.

        Args:
            run: trace id, a unique prefix of one (4 hex digits or more), the caller's own run id, ``last`` or ``last-failed``.

        Raises:
            RunError: no such run, or several; the message names similar ones.
            WireError: the stored run is damaged.
        """
        spans = self._load(run.lower()) if _TRACE_ID.fullmatch(run.lower()) else []
        return spans or self._load(self.find(run))

    def is_settled(self, trace_id: str) -> bool:
        """Return whether the run's stored spans have been searched for all values found in it."""
        request = RunList(columns=("settled",), is_named=True, is_counted=False)
        return all(settled for (settled,) in self._listed(request, {"_run": trace_id}))

    def is_verified(self, trace_id: str) -> bool:
        """Return whether a replay of the run was identical; False of a store of a version before that was noted."""
        where, parameters = self._where("trace_id = {trace_id:String}", {"trace_id": trace_id})
        try:
            return bool(self._texts(f"SELECT trace_id FROM labels WHERE {where} AND span_id = '{REPLAYED}'", parameters))
        except PermanentStoreError:
            return False

    def scores(self, trace_id: str) -> list[RunScore]:
        """Return the scores of a run and its steps, `MAX_SCORES` at most: those of the run first, then step by step.

        Raises:
            PermanentStoreError: the store refuses the query.
            RetryableStoreError: the store does not answer.
        """
        where, parameters = self._where("trace_id = {trace_id:String}", {"trace_id": trace_id})
        rows = self._texts(
            f"SELECT toJSONString(tuple({COLUMNS})) FROM scores WHERE {where}"
            f" ORDER BY step NULLS FIRST, at, name, by LIMIT {MAX_SCORES}",
            parameters,
        )
        return [score_of_row(row) for row in rows]

    def services(self) -> list[str]:
        """Return the names of the services whose runs the store has."""
        where, parameters = self._where("1", {})
        return [str(row[0]) for row in self.sql(f"SELECT DISTINCT service FROM run_rows WHERE {where}", parameters)[1]]

    def find(self, run: str) -> str:
        """Return the trace id that `run` names; see `load_spans`.

        Raises:
            RunError: no such run, or several; the message names similar ones.
        """
        if run in {LAST, LAST_FAILED}:
            statuses = (RunStatus.FAILED,) if run == LAST_FAILED else ()
            found = self.list_runs(1, statuses=statuses, where=MEANT) or self.list_runs(1, statuses=statuses)
            if not found:
                raise RunError(
                    f"run {run!r}: the store has no {'failed ' if run == LAST_FAILED else ''}runs yet",
                    do="run your agent with freezeframe.instrument(), then `freezeframe runs`",
                )
            return found[0].trace_id
        lowered = run.lower()
        if _TRACE_ID.fullmatch(lowered):
            tests = ["trace_id = {run:String}"]
            parameters = {"run": lowered}
        else:
            tests = ["run_id = {run:String}"]
            parameters = {"run": run}
            if _HEX_PREFIX.fullmatch(lowered):
                tests.append("startsWith(trace_id, {prefix:String})")
                parameters["prefix"] = lowered
        for test in tests:
            where, values = self._where(test, parameters)
            ids = self._texts(f"SELECT DISTINCT trace_id FROM run_rows WHERE {where} LIMIT 6", values)
            if len(ids) == 1:
                return ids[0]
            if ids:
                raise RunError(
                    f"run {run!r}: names {'more than 5' if len(ids) > 5 else len(ids)} runs: {', '.join(ids[:5])}",
                    do="give more digits of the run's id" if "prefix" in test else "give the run's trace id",
                )
        near = self._near(run)
        raise RunError(
            f"run {run!r}: not in the store, expected a trace id, its first {_MIN_PREFIX_LENGTH} or more digits, a run id, "
            f"'{LAST}' or '{LAST_FAILED}'"
            + (f"; the last ones are {', '.join(near)}" if near else "; the store has no runs yet"),
            do="list the runs with `freezeframe runs`",
        )

    def list_runs(
        self,
        limit: int = 20,
        *,
        statuses: Collection[RunStatus] = (),
        session: str | None = None,
        since: dt.datetime | None = None,
        where: str = "",
        parameters: Mapping[str, Any] | None = None,
        order: str = "",
    ) -> list[RunRow]:
        """Return runs, the newest first unless `order` says otherwise.

        Args:
            limit: maximum number.
            statuses: only with one of these; any if empty.
            session: only of this conversation.
            since: started at or after this time.
            where: a further condition in SQL over the view ``runs``.
            parameters: values for ``{name:Type}`` in `where`.
            order: sort order in SQL, our own text; the newest first if empty.

        Raises:
            PermanentStoreError: the condition is not valid SQL, or names an unknown column.
        """
        status = _KNOWN.get(frozenset(statuses))
        if status is not None and session is None and where in ("", MEANT) and not order:
            listed = RunList(columns=RUN_COLUMNS, status=status, size=limit, is_since=since is not None, is_meant=bool(where))
            return self.rows(listed, {} if since is None else {"_from": utc_text(since)})
        tests = ["1", *([f"({where})"] if where else [])]
        values: dict[str, Any] = dict(parameters or {})
        if statuses:
            tests.append("status IN {_statuses:Array(String)}")
            values["_statuses"] = [status.value for status in statuses]
        if session is not None:
            tests.append("{_session:String} IN (session_id, conversation_id)")
            values["_session"] = session
        if since is not None:
            tests.append("start_time >= {_since:DateTime64(6)}")
            values["_since"] = since
        condition, values = self._where(" AND ".join(tests), values)
        # the newest are nearly always from the last day: all days are read only if that day has too few
        newest = f"run_hour >= (SELECT max(run_hour) FROM run_rows) - INTERVAL 1 DAY AND {condition}"
        columns: list[str] = []
        rows: list[Sequence[Any]] = []
        for window in (condition,) if order else (newest, condition):
            columns, rows = self.sql(
                f"SELECT {', '.join(RUN_COLUMNS)} FROM runs WHERE {window} "
                f"ORDER BY {order or 'start_time DESC, trace_id'} LIMIT {int(limit)}",
                values,
            )
            if len(rows) == limit:
                break
        return [RunRow(**dict(zip(columns, row, strict=True))) for row in rows]

    def rows(self, request: RunList, parameters: Mapping[str, str]) -> list[RunRow]:
        """Return the runs of a list, without counts: the collector may answer it without a reader's process.

        Raises:
            StoreError: the store refuses it, or does not answer.
        """
        request = replace(
            request, columns=RUN_COLUMNS, is_counted=False, is_newest=request.sort == NEWEST and not request.begins
        )
        found = self._listed(request, parameters)
        if request.is_newest and len(found) < request.size:  # the last day has too few
            found = self._listed(replace(request, is_newest=False), parameters)
        made: list[dict[str, Any]] = [dict(zip(RUN_COLUMNS, row, strict=True)) for row in found]
        for row in made:
            row["start_time"] = _EPOCH + dt.timedelta(microseconds=row["start_time"] // 1000)
        return [RunRow(**row) for row in made]

    def _listed(self, request: RunList, parameters: Mapping[str, str]) -> list[tuple[Any, ...]]:
        if self._tenant is not None:
            request = replace(request, chosen=(*request.chosen, "tenant"))
            parameters = {**parameters, "_tenant": self._tenant}
        raw = self._door.native(list_statement(request), {**parameters, CHOICES: json.dumps(asdict(request))})
        try:
            return [row for block in decode_blocks(raw) for made in block["made"] for row in made]
        except ValueError as error:
            raise RetryableStoreError(f"store: the answer broke off: {error}") from None

    def sql(
        self, query: str, parameters: Mapping[str, Any] | None = None, *, settings: Mapping[str, str] | None = None
    ) -> tuple[list[str], list[Sequence[Any]]]:
        """Return column names and rows of a SELECT; parameters are ``{name:Type}``, settings those of ClickHouse.

        Raises:
            PermanentStoreError: the store refuses the query; the message is its own.
            RetryableStoreError: the store does not answer.
        """
        result = _ask(self._door.client(), query, parameters, {}, settings)
        return list(result.column_names), list(result.result_rows)

    def close(self) -> None:
        self._door.close()

    def _load(self, trace_id: str) -> list[SpanRecord]:
        """Return a run's spans; none if there is no such run."""
        parameters = {"trace_id": trace_id} | ({} if self._tenant is None else {"tenant": self._tenant})
        raw = self._door.native(run_statement(tenant=self._tenant is not None), parameters)
        try:
            return spans_from_blocks(raw)
        except WireError:
            if not raw.endswith(_BROKE_OFF):
                raise
            message = raw.split(_BROKE_OFF)[-2].decode(errors="replace")
            raise RetryableStoreError(f"store: run {trace_id}: the answer broke off: {message[:500]}") from None

    def _rows(self, query: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        return query_rows(self._door.client(), query, parameters, _PLAIN)

    def _texts(self, query: str, parameters: Mapping[str, str]) -> list[str]:
        """Return the one column of a statement of freezeframe."""
        return [
            text
            for block in decode_blocks(self._door.native(query, parameters))
            for column in block.values()
            for text in column
        ]

    def _where(self, test: str, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        if self._tenant is None:
            return test, dict(parameters)
        return f"tenant = {{_tenant:String}} AND {test}", {**parameters, "_tenant": self._tenant}

    def _near(self, run: str) -> list[str]:
        """Return ids of runs that the user may have meant: the newest, with those that share digits first."""
        where, values = self._where("1", {})
        _, rows = self.sql(f"SELECT trace_id, run_id FROM runs WHERE {where} ORDER BY start_time DESC LIMIT 200", values)
        names = [f"{trace_id} ({run_id})" if run_id else str(trace_id) for trace_id, run_id in rows]
        alike = [name for name in names if run[:_MIN_PREFIX_LENGTH].lower() in name.lower()]
        return [*alike, *(name for name in names if name not in alike)][:5]


def utc_text(time: dt.datetime) -> str:
    """Return a time as the parameters of a `RunList` hold it."""
    return time.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def json_form(value: object) -> str:
    """Return the form of a store's value that JSON cannot hold: times in ISO 8601, those without a zone as UTC."""
    if isinstance(value, dt.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).isoformat()
    return str(value)


# -- A store that stays open between requests, and the last viewed run -------------------------------------------------
# Opening a connection costs several statements, and reading a large run takes seconds. A user who goes from a run
# to one of its steps should not wait for either.


_T = TypeVar("_T")
_FRESH_S: Final = 30.0
"""Time after which a finished run is read again: a late span shows up after that."""


class KeptStore:
    """The store at an address that may change: a collector that was restarted is found again."""

    def __init__(self, find_url: Callable[[], str]) -> None:
        self._find_url = find_url
        self._lock = threading.Lock()
        self._url = ""
        self._store: RunStore | None = None
        self._last: tuple[float, Run] | None = None

    def use(self, work: Callable[[RunStore], _T]) -> _T:
        """Return the result of `work`; over a new connection if the kept one no longer works."""
        url = self._find_url()
        with self._lock:
            kept = self._store if url == self._url else None
        if kept is not None:
            try:
                return work(kept)
            except StoreError:  # closed, or the token is another one since a restart
                pass
        return work(self._open(url))

    def load(self, name: str) -> Run:
        """Return the run of a trace id or of any other name that `RunStore.find` takes.

        Raises:
            RunError: no such run, or several.
            WireError: the stored run is damaged.
        """
        last = self._last
        if last is not None and last[1].trace_id == name and time.monotonic() - last[0] < _FRESH_S:
            return last[1]
        run = self.use(lambda store: with_standing(load_stored(store, name), store))
        self._last = None if run.status is RunStatus.UNFINISHED else (time.monotonic(), run)
        return run

    def close(self) -> None:
        with self._lock:
            store, self._store, self._url = self._store, None, ""
        if store is not None:
            store.close()

    def _open(self, url: str) -> RunStore:
        opened = open_runs(url)
        with self._lock:
            # the one before is not closed here: another thread may be reading from it
            self._store, self._url = opened, url
        return opened
