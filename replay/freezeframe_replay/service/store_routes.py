"""The pages over the whole store: its failures, questions in SQL, and the health of the services."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any, Final

from aiohttp import web

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.local.collector import flush, status
from freezeframe_replay.local.home import Home
from freezeframe_replay.report.answered_rows import csv_text
from freezeframe_replay.service.replay_routes import folder_of, own_form
from freezeframe_replay.service.state import HOME, JOBS, STORE, TOKEN, download, html
from freezeframe_replay.sources.ages import age_s
from freezeframe_replay.sources.failures import FailureGroup, list_failures
from freezeframe_replay.sources.store import RunStore
from freezeframe_replay.web.pages import BARS, Health, Size, failures_page, health_page
from freezeframe_replay.web.redirects import see
from freezeframe_replay.web.sql import MAX_ROWS, MAX_SECONDS, SqlAnswer, sql_page
from freezeframe_schemas.errors import ConfigError, FreezeframeError, StoreError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import build_run

ROUTES: Final = web.RouteTableDef()

LATELY: Final = "7d"
_MAX_GROUPS: Final = 50
_BOUNDS: Final = {
    "readonly": "2",
    "max_execution_time": str(MAX_SECONDS),
    "max_result_rows": str(MAX_ROWS + 1),
    "result_overflow_mode": "break",
}
_MAX_QUERY_LENGTH: Final = 100_000
_SCHEMA: Final = (
    "SELECT table, groupArray((name, type)) FROM (SELECT table, name, type FROM system.columns"
    " WHERE database = currentDatabase() ORDER BY table, position) GROUP BY table ORDER BY table"
)
_BY_TIME: Final = (
    "SELECT signature, least(intDiv(toUnixTimestamp(start_time) - {_from:Int64}, {_width:Int64}), {_last:Int64}) AS bar,"
    " count() FROM errors WHERE start_time >= fromUnixTimestamp({_from:Int64}) GROUP BY ALL"
)
_BY_CLASS: Final = (
    "SELECT class, count(), uniq(surrogate), uniq(trace_id) FROM redactions GROUP BY class ORDER BY 2 DESC LIMIT 100"
)
_BY_REASON: Final = "SELECT reason, count() FROM rejected GROUP BY reason ORDER BY 2 DESC LIMIT 100"
_BY_TABLE: Final = (
    "SELECT name, total_rows, total_bytes FROM system.tables WHERE database = currentDatabase() AND total_bytes > 0"
    " ORDER BY total_bytes DESC LIMIT 50"
)


# -- failures -----------------------------------------------------------------------------------------------------------


@ROUTES.get("/failures")
async def show_failures(request: web.Request) -> web.Response:
    """Show similar failures in groups, each with its newest run and the findings of its last replay."""
    since = request.query.get("since") or LATELY
    try:
        length_s = age_s(since)
    except ConfigError as error:
        page = failures_page([], {}, {}, since=since, wrong=f"since: {error.message}", token="")
        return html(page, status=400)
    flush(request.app[HOME])
    groups, bars = await asyncio.to_thread(request.app[STORE].use, lambda store: _failures(store, length_s))
    jobs = request.app[JOBS]
    replays = {group.newest: found[0] for group in groups if (found := jobs.of_run(group.newest))}
    return html(failures_page(groups, bars, replays, since=since, token=request.app[TOKEN]))


def _failures(store: RunStore, length_s: float) -> tuple[list[FailureGroup], Mapping[str, Sequence[int]]]:
    begin = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=length_s)
    groups = list_failures(store, limit=_MAX_GROUPS, since=begin)
    width = max(int(length_s / BARS), 1)
    _, rows = store.sql(_BY_TIME, {"_from": int(begin.timestamp()), "_width": width, "_last": BARS - 1})
    bars: dict[str, list[int]] = {group.signature: [0] * BARS for group in groups}
    for signature, bar, count in rows:
        if signature in bars:
            bars[signature][bar] += count
    return groups, bars


@ROUTES.post("/failures/replay")
async def replay_failures(request: web.Request) -> web.Response:
    """Replay one run of each group, for a form of our own page."""
    form = await own_form(request)
    runs = [run for run in str(form.get("runs", "")).split(",") if run][:_MAX_GROUPS]
    folder = folder_of(request.app[HOME])
    for fixture in await asyncio.to_thread(request.app[STORE].use, lambda store: _fixtures(store, runs)):
        request.app[JOBS].start(fixture, folder)
    return see(f"/failures?since={form.get('since', LATELY)}" if str(form.get("since", "")).isalnum() else "/failures")


def _fixtures(store: RunStore, runs: Sequence[str]) -> list[Fixture]:
    """Return the fixtures of runs; those that cannot be re-enacted are left out, and their pages give the reason."""
    made: list[Fixture] = []
    for run in runs:
        try:
            made.append(freeze(build_run(store.load_spans(run))))
        except StoreError:
            raise
        except FreezeframeError:
            continue
    return made


# -- SQL ----------------------------------------------------------------------------------------------------------------


@ROUTES.get("/sql")
async def show_sql(request: web.Request) -> web.Response:
    """Show a question's answer below the form that holds it; with as=csv, the answer alone."""
    query = request.query.get("q", "").strip()[:_MAX_QUERY_LENGTH]
    statement = f"EXPLAIN {query}" if request.query.get("explain") and query else query
    flush(request.app[HOME])
    schema, answer = await asyncio.to_thread(request.app[STORE].use, lambda store: (_schema(store), _answer(store, statement)))
    if request.query.get("as") == "csv" and answer is not None and not answer.wrong:
        return download(csv_text(answer.columns, answer.rows), "answer.csv", "text/csv")
    status = 400 if answer is not None and answer.wrong else 200
    return html(sql_page(query, answer, schema), status=status)


def _schema(store: RunStore) -> list[tuple[str, list[tuple[str, str]]]]:
    _, rows = store.sql(_SCHEMA)
    return [(str(table), [(str(name), str(kind)) for name, kind in columns]) for table, columns in rows]


def _answer(store: RunStore, query: str) -> SqlAnswer | None:
    if not query:
        return None
    begun = time.monotonic()
    try:
        columns, rows = store.sql(query.rstrip("; \n"), settings=_BOUNDS)
    except StoreError as error:
        return SqlAnswer(wrong=error.message.removeprefix("store: "))
    return SqlAnswer(columns=columns, rows=rows[:MAX_ROWS], cut=len(rows) > MAX_ROWS, seconds=time.monotonic() - begun)


# -- health -------------------------------------------------------------------------------------------------------------


@ROUTES.get("/health")
async def show_health(request: web.Request) -> web.Response:
    """Show the health of the services: rates, lag, log, rejections, redactions, disk, versions."""
    home = request.app[HOME]
    reported = await asyncio.to_thread(status, home)
    wrong = ""
    try:
        tables = await asyncio.to_thread(request.app[STORE].use, _tables)
    except FreezeframeError as error:
        tables, wrong = ([], [], []), error.message
    by_class, by_reason, by_table = tables
    health = Health(
        status=reported,
        wrong=wrong,
        redactions=by_class,
        rejects=by_reason,
        tables=by_table,
        sizes=await asyncio.to_thread(_sizes, home),
        versions={
            name: _version(name) for name in ("freezeframe", "chdb", "clickhouse-connect", "aiohttp", "opentelemetry-sdk")
        },
    )
    return html(health_page(health))


def _tables(store: RunStore) -> tuple[list[Any], list[Any], list[Any]]:
    by_class, by_reason, by_table = (list(store.sql(query)[1]) for query in (_BY_CLASS, _BY_REASON, _BY_TABLE))
    return by_class, by_reason, by_table


def _sizes(home: Home) -> list[Size]:
    """Return the disk usage of each part of the data directory."""
    found: list[Size] = []
    parts = sorted(home.directory.iterdir()) if home.directory.is_dir() else []
    for part in parts:
        if part.is_dir() and not part.is_symlink():
            sizes = [file.stat().st_size for file in part.rglob("*") if file.is_file() and not file.is_symlink()]
            found.append(Size(name=part.name, size=sum(sizes), files=len(sizes)))
    return found


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
