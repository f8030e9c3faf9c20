"""The statement by which a replay loads a run: the collector's own engine answers it.

A reader's process costs far more than such a statement (decision 0078). Nothing that a client wrote is run: a request that is
this statement to the letter, with a trace id of 32 hex digits, only names a run.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Final

from freezeframe_collector.facade.protocol import Request
from freezeframe_collector.readers.errors import from_engine
from freezeframe_collector.readers.frames import Head
from freezeframe_collector.store.engine import Engine, quote_text
from freezeframe_schemas.errors import StoreError
from freezeframe_schemas.tables import run_parts, run_statement
from freezeframe_schemas.tables.native import decode_blocks

_FORMAT: Final = "Native"
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_OF_INPUT: Final = frozenset({"date_time_input_format", "cast_string_to_dynamic_use_inference"})
"""Settings that clickhouse-connect always sends, and that change no answer."""
_GATHERED_BYTES: Final = 1 << 20
_ONE_THREAD: Final = "SETTINGS max_threads = 1"
"""A run is a few granules, and more threads cost more than they give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRun:
    """A run that a request asks for."""

    trace_id: str
    tenant: str | None
    """None: of whichever tenant it is."""


def asked_run(request: Request, database: str) -> AskedRun | None:
    """Return the run that the request asks for; None if it is any other request."""
    words = request.sql.decode(errors="replace").split()
    if words[-2:] == ["FORMAT", _FORMAT]:
        words = words[:-2]
    elif request.default_format != _FORMAT:
        return None
    given = dict(request.parameters)
    run = AskedRun(trace_id=given.pop("trace_id", ""), tenant=given.pop("tenant", None))
    is_any_other = (
        given
        or words != _known(tenant=run.tenant is not None)
        or not _TRACE_ID.fullmatch(run.trace_id)
        or "\\" in (run.tenant or "")  # escaped, as ClickHouse reads parameters
        or request.session_id is not None
        or request.database not in (None, "", "default", database)
        or {*request.settings} - _OF_INPUT
    )
    return None if is_any_other else run


@cache
def _known(*, tenant: bool) -> list[str]:
    return run_statement(tenant=tenant).split()


def answer(engine: Engine, database: str, run: AskedRun, beside: Executor) -> Generator[Head | bytes]:
    """Yield a `Head`, then pieces of the answer: blocks of spans, and blocks of pieces with their one column.

    `beside` runs the half of the statement that is about pieces.

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


def _blocks(engine: Engine, database: str, run: AskedRun, beside: Executor) -> Generator[bytes]:
    """Yield the blocks of both halves. The run's place is looked up once: that costs the engine a third of either half."""
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
