"""The statements by which a replay loads a run and pages list runs: the collector's own engine answers them.

A reader's process costs far more than such a statement (decision 0078). No client's SQL is run: a request that
matches one of them to the letter only names a run, or the choices that determine the list's text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Final

from freezeframe_collector.facade.protocol import QueryRequest
from freezeframe_collector.readers.errors import from_engine
from freezeframe_collector.readers.frames import Head
from freezeframe_collector.store.engine import Engine, quote_text
from freezeframe_schemas.errors import StoreError, WireError
from freezeframe_schemas.records import from_json
from freezeframe_schemas.tables import run_parts, run_statement
from freezeframe_schemas.tables.native import decode_blocks
from freezeframe_schemas.tables.run_list import CHOICES, ONCE, RunList, list_statement

_FORMAT: Final = "Native"
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_OF_INPUT: Final = frozenset({"date_time_input_format", "cast_string_to_dynamic_use_inference"})
"""Settings that clickhouse-connect always sends, and that change no answer."""
_PARAMETER: Final = re.compile(r"\{(\w+):String\}")
_QUOTED_OR_TABLE: Final = re.compile(r"('(?:[^'\\]|\\.)*')|(?<=FROM )(runs|run_rows|labels)\b")
_GATHERED_BYTES: Final = 1 << 20
_ONE_THREAD: Final = "SETTINGS max_threads = 1"
"""A run is a few granules, and more threads cost more than they give."""
_BOUNDS: Final = (
    f"SETTINGS {ONCE}, max_threads = 2, max_execution_time = 10, max_memory_usage = 500000000, max_rows_to_read = 200000"
)
"""Limits of a list. A reader answers one that reads more, since it runs only when the writer leaves the processors idle."""
_TOO_MANY_ROWS: Final = 158


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedRun:
    """The run that a request names."""

    trace_id: str
    tenant: str | None
    """None: of any tenant."""


def run_requested(request: QueryRequest, database: str) -> RequestedRun | None:
    """Return the run that the request asks for; None if it is any other request."""
    parameters = dict(request.parameters)
    run = RequestedRun(trace_id=parameters.pop("trace_id", ""), tenant=parameters.pop("tenant", None))
    is_it = (
        not parameters and _TRACE_ID.fullmatch(run.trace_id) and _says(request, database, _known(tenant=run.tenant is not None))
    )
    return run if is_it else None


def run_list_requested(request: QueryRequest, database: str) -> str | None:
    """Return our own text of the statement by which the request lists runs, with the request's values.

    None for any other request. A search in payloads is not answered here, because it may take long.
    """
    parameters = dict(request.parameters)
    try:
        run_list = from_json(RunList, json.loads(parameters.get(CHOICES, "")), CHOICES)
        sql = list_statement(run_list)
    except (ValueError, KeyError, RecursionError, WireError):
        return None
    named = {*_PARAMETER.findall(sql)}
    is_it = (
        not run_list.in_payloads
        and all(name.isidentifier() for name in run_list.columns)
        and parameters.keys() == named
        and _says(request, database, sql.split())
    )
    if not is_it:
        return None
    sql = _PARAMETER.sub(lambda found: quote_text(parameters[found[1]]), list_statement(run_list, once=True))
    return f"{sql} {_BOUNDS}"


def _says(request: QueryRequest, database: str, expected: list[str]) -> bool:
    """Return whether a request is this statement, without anything that would change its answer."""
    words = request.sql.decode(errors="replace").split()
    if words[-2:] == ["FORMAT", _FORMAT]:
        words = words[:-2]
    elif request.default_format != _FORMAT:
        return False
    return (
        words == expected
        and not any("\\" in value for value in request.parameters.values())  # escaped, as ClickHouse reads parameters
        and request.session_id is None
        and request.database in (None, "", "default", database)
        and not {*request.settings} - _OF_INPUT
    )


@cache
def _known(*, tenant: bool) -> list[str]:
    return run_statement(tenant=tenant).split()


def answer(engine: Engine, database: str, run: RequestedRun, beside: Executor) -> Generator[Head | bytes]:
    """Yield a `Head`, then pieces of the answer: blocks of spans, and blocks of pieces with their one column.

    `beside` runs the half of the statement for pieces.

    Raises:
        ClickHouseError: the statement failed.
    """
    try:
        gathered = _gathered(_blocks(engine, database, run, beside))
        first = next(gathered, b"")
        yield Head(format=_FORMAT)
        yield first
        yield from gathered
    except StoreError as error:
        raise from_engine(error) from error


def answer_list(
    engine: Engine, database: str, sql: str, otherwise: Callable[[], Generator[Head | bytes]]
) -> Generator[Head | bytes]:
    """Yield a `Head`, then pieces of the answer to `run_list_requested`; the items of `otherwise` if it reads too much.

    Raises:
        ClickHouseError: the statement failed.
    """
    try:
        gathered = _gathered(engine.blocks(_QUOTED_OR_TABLE.sub(lambda found: found[1] or f"{database}.{found[2]}", sql)))
        first = next(gathered, b"")
    except StoreError as error:
        refused = from_engine(error)
        if refused.code != _TOO_MANY_ROWS:
            raise refused from error
        yield from otherwise()
        return
    yield Head(format=_FORMAT)
    yield first
    yield from gathered


def _blocks(engine: Engine, database: str, run: RequestedRun, beside: Executor) -> Generator[bytes]:
    """Yield the blocks of both halves.

    The run's place is looked up once, because that costs the engine a third of either half.
    """
    of_run = f"trace_id = {quote_text(run.trace_id)}"
    if run.tenant is not None:
        of_run = f"tenant = {quote_text(run.tenant)} AND {of_run}"
    found = f"SELECT tenant, toUnixTimestamp(run_hour) AS hour FROM {database}.run_rows PREWHERE {of_run} {_ONE_THREAD}"
    tenants: set[str] = set()
    hours: set[str] = set()
    for block in decode_blocks(b"".join(engine.blocks(found))):
        tenants.update(map(quote_text, block["tenant"]))
        hours.update(f"toDateTime({hour}, 'UTC')" for hour in block["hour"])
    if not hours:
        return
    spans, pieces = (
        re.sub(r"\b(\w+_rows)\b", rf"{database}.\1", f"{part} {_ONE_THREAD}")
        for part in run_parts(f"tenant IN ({', '.join(tenants)}) AND run_hour IN ({', '.join(hours)}) AND {of_run}")
    )
    with closing(engine.blocks(pieces)) as of_pieces:
        first = beside.submit(next, of_pieces, b"")
        try:
            yield from engine.blocks(spans)
        finally:
            first.exception()  # has to have ended before it is closed
        yield first.result()
        yield from of_pieces


def _gathered(blocks: Iterable[bytes]) -> Generator[bytes]:
    """Yield the blocks, several at a time: each step is a change of threads."""
    waiting: list[bytes] = []
    size = 0
    for block in blocks:
        waiting.append(block)
        size += len(block)
        if size >= _GATHERED_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)
