"""`call_rows`: the calls that other instrumentations report, joined again for the runs that a batch adds to.

A run has a row for each span or log record that reports a call. One row for each call is shown and has its
values; the rest are blank, which hides a row that was shown before a late span came. `calls` decides which of
them report the same call.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from freezeframe_collector.store.calls import CallOfRun, CallReport, calls_of_run, hidden
from freezeframe_collector.store.engine import Engine, quote_text
from freezeframe_collector.store.own_rows import as_new
from freezeframe_schemas import genai
from freezeframe_schemas.coding_agents import CODING_AGENT_EVENTS
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.tables import Block
from freezeframe_schemas.tables.columns import CALL_COLUMNS, REPORTED_COLUMNS
from freezeframe_schemas.tables.ddl import with_names

_NS: Final = 1_000_000_000
_A_DAY_S: Final = 24 * 3600
"""A call of another run is looked for in runs that started up to this long before, or after."""
_RUNS_AT_ONCE: Final = 1000
_OF_CALL: Final = frozenset({genai.REQUEST_MODEL, genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES})
_REPORTED: Final = tuple("start_ns" if column.name == "start_time" else column.name for column in REPORTED_COLUMNS)
_FIELDS: Final = tuple(CallOfRun.__dataclass_fields__)
_BLANK: Final[Mapping[str, Any]] = {
    column.name: [] if column.type.startswith("Array") else None if column.type.startswith("Nullable") else
    "" if "String" in column.type else 0
    for column in CALL_COLUMNS
}  # fmt: skip


def reports_call(span: SpanRecord) -> bool:
    """Return whether another instrumentation's span or log record reports a model call, or may carry a message of one."""
    if genai.EXCHANGE_KIND in span.attributes:
        return False
    if span.name.startswith(CODING_AGENT_EVENTS) and not _OF_CALL.isdisjoint(span.attributes):
        return True
    return span.text(genai.OPERATION_NAME) in genai.MODEL_OPERATIONS or span.name.startswith(genai.EVENT_PREFIX)


def join_calls(engine: Engine, database: str, run_hours: Mapping[str, int]) -> None:
    """Join the calls of these runs (trace id -> hour) again, from all their stored spans.

    Raises:
        StoreError: as the engine answers.
    """
    runs = list(run_hours.items())
    for at in range(0, len(runs), _RUNS_AT_ONCE):
        _join(engine, database, dict(runs[at : at + _RUNS_AT_ONCE]))


def join_all_calls(engine: Engine, database: str) -> None:
    """Join the calls of all stored runs again."""
    _, rows = engine.rows(
        f"SELECT trace_id, toUnixTimestamp(min(run_hour)) AS hour FROM {database}.span_rows AS s"
        f" WHERE {with_names('{REPORTS_MODEL_CALL}')} GROUP BY trace_id ORDER BY hour, trace_id"
    )
    join_calls(engine, database, {str(trace_id): int(hour) for trace_id, hour in rows})


def _join(engine: Engine, database: str, run_hours: Mapping[str, int]) -> None:
    version, by_run = _reports(engine, database, run_hours)
    found = {run: calls_of_run(reports) for run, reports in by_run.items()}
    ours = [call for calls in found.values() for call, _ in calls]
    if not ours:
        return
    others = _others(engine, database, ours, run_hours)
    not_shown = hidden([*ours, *others])
    rows: list[Mapping[str, Any]] = []
    for run, calls in found.items():
        leads = {call.span_id: (call, values) for call, values in calls}
        for one in by_run[run]:
            if one.reports_call:
                call, values = leads.get(one.span_id, (None, one.values))
                rows.append(_row(call, values, call is not None and call.place not in not_shown, version, run_hours[run[1]]))
    columns = {column.name: (column.type, [row[column.name] for row in rows]) for column in CALL_COLUMNS}
    engine.insert(f"{database}.call_rows", list(columns), Block(columns=columns).encode(), uuid.uuid4().hex)
    changed = [call.place for call in others if bool(call.shown) is (call.place in not_shown)]
    for at in range(0, len(changed), _RUNS_AT_ONCE):
        places = ", ".join(f"({_quoted(place)})" for place in changed[at : at + _RUNS_AT_ONCE])
        engine.command(
            f"INSERT INTO {database}.call_rows SELECT * REPLACE (1 - shown AS shown, {version} AS version)"
            f" FROM {database}.call_rows FINAL WHERE (tenant, trace_id, span_id) IN ({places}) SETTINGS {as_new()}"
        )


def _row(call: CallOfRun | None, values: Mapping[str, Any], shown: bool, version: int, run_hour: int) -> Mapping[str, Any]:
    stored = {"kept": 0, "run_hour": run_hour, "version": version, "shown": int(shown)}
    if call is None:
        place = {name: values[name] for name in ("tenant", "trace_id", "span_id", "start_time")}
        return {**_BLANK, **place, **stored}
    return {**values, **{name: getattr(call, name) for name in _FIELDS}, **stored}


def _reports(
    engine: Engine, database: str, run_hours: Mapping[str, int]
) -> tuple[int, dict[tuple[str, str], list[CallReport]]]:
    """Return the reports of these runs, by tenant and run, and the time at which the engine read them."""
    names = ", ".join("toUnixTimestamp64Nano(start_time) AS start_ns" if n == "start_ns" else n for n in _REPORTED)
    _, rows = engine.rows(
        with_names(
            f"SELECT toUnixTimestamp64Nano(now64(9)), {{IS_EVENT}} AS is_event, {{REPORTS_MODEL_CALL}} AS reports_call,"
            f" scope_name, duration_ns, {names} FROM {database}.spans AS s"
            f" WHERE {_place(run_hours)} AND exchange_kind = '' AND (reports_call OR is_event)"
            " ORDER BY start_time, span_id"
        )
    )
    by_run: dict[tuple[str, str], list[CallReport]] = defaultdict(list)
    for _, is_event, reports_call, scope, duration_ns, *row in rows:
        values = {column.name: value for column, value in zip(REPORTED_COLUMNS, row, strict=True)}
        by_run[values["tenant"], values["trace_id"]].append(
            CallReport(
                values=values,
                scope=scope,
                is_event=bool(is_event),
                reports_call=bool(reports_call),
                started_ns=values["start_time"],
                ended_ns=values["start_time"] + duration_ns,
            )
        )
    return (int(rows[0][0]) if rows else 0), by_run


def _others(engine: Engine, database: str, ours: Sequence[CallOfRun], run_hours: Mapping[str, int]) -> list[CallOfRun]:
    """Return the stored calls of other runs that may equal one of `ours`, its former state, or another such call."""
    not_ours = f"trace_id NOT IN ({_quoted(run_hours)})"
    keys = {key for call in ours for key in call.keys}
    since, until = min(call.started_ns for call in ours), max(call.ended_ns for call in ours)
    before = _calls(engine, database, _place(run_hours))
    keys |= {key for call in before for key in call.keys}
    found: list[CallOfRun] = []
    while True:
        near = _calls(
            engine,
            database,
            f"run_hour BETWEEN toDateTime({max(0, since // _NS - _A_DAY_S)}, 'UTC')"
            f" AND toDateTime({until // _NS + _A_DAY_S}, 'UTC') AND hasAny(keys,"
            f" [{', '.join(map(str, sorted(keys)))}]) AND started_ns <= {until} AND ended_ns >= {since} AND {not_ours}",
        )
        if len(near) == len(found):
            return found
        found = near
        keys |= {key for call in near for key in call.keys}
        since, until = min(since, *(call.started_ns for call in near)), max(until, *(call.ended_ns for call in near))


def _calls(engine: Engine, database: str, condition: str) -> list[CallOfRun]:
    _, rows = engine.rows(f"SELECT {', '.join(_FIELDS)} FROM {database}.call_rows FINAL WHERE {condition} AND notEmpty(keys)")
    found: list[dict[str, Any]] = [dict(zip(_FIELDS, row, strict=True)) for row in rows]
    return [CallOfRun(**fields) for fields in found]


def _place(run_hours: Mapping[str, int]) -> str:
    """Return the condition on rows of these runs, by which the engine finds them."""
    hours = ", ".join(f"toDateTime({hour}, 'UTC')" for hour in sorted(set(run_hours.values())))
    return f"run_hour IN ({hours}) AND trace_id IN ({_quoted(run_hours)})"


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(map(quote_text, texts))
