"""The two statements by which a replay loads a run: the collector's own text, so its own engine answers them.

A reader's process costs far more than such a statement (decision 0078). Nothing that a client wrote is run: a request that is
one of these statements to the letter, with a trace id of 32 hex digits, stands for the text that is kept here.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from typing import Final

from freezeframe_collector.facade.protocol import Request
from freezeframe_collector.readers.errors import from_engine
from freezeframe_collector.readers.frames import Head
from freezeframe_collector.store.engine import Engine, quote_text
from freezeframe_schemas.errors import StoreError
from freezeframe_schemas.tables import run_statements

_FORMAT: Final = "Native"
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_PARAMETERS: Final = ({"trace_id"}, {"trace_id", "tenant"})
_OF_INPUT: Final = frozenset({"date_time_input_format", "cast_string_to_dynamic_use_inference"})
"""Settings that clickhouse-connect always sends, and that change no answer."""


def own_statement(request: Request, database: str) -> str | None:
    """Return the statement that the request asks for, in the collector's own words; None if it is any other one."""
    words = request.sql.decode(errors="replace").split()
    if words[-2:] == ["FORMAT", _FORMAT]:
        words = words[:-2]
    elif request.default_format != _FORMAT:
        return None
    ours = _known().get(" ".join(words))
    given = request.parameters
    if ours is None or set(given) not in _PARAMETERS or not _TRACE_ID.fullmatch(given["trace_id"]):
        return None
    if (
        request.session_id is not None
        or request.database not in (None, "", "default", database)
        or {*request.settings} - _OF_INPUT
    ):
        return None
    if ("{tenant:" in ours) != ("tenant" in given):
        return None
    values = {name: quote_text(value) for name, value in given.items()}
    return re.sub(r"\{(\w+):String\}", lambda match: values[match[1]], re.sub(r"\b(\w+_rows)\b", rf"{database}.\1", ours))


def answer(engine: Engine, sql: str) -> Generator[Head | bytes]:
    """Yield a `Head`, then the pieces of the answer.

    Raises:
        ClickHouseError: the statement failed.
    """
    try:
        blocks = engine.blocks(sql)
        first = next(blocks, b"")
        yield Head(format=_FORMAT)
        yield first
        yield from blocks
    except StoreError as error:
        raise from_engine(error) from error


def _known() -> Mapping[str, str]:
    return {" ".join(statement.split()): statement for tenant in (False, True) for statement in run_statements(tenant=tenant)}
