"""A reader: opens the store, checks one statement, runs it, answers, and ends. Runs in a process that the host forked.

A stranger's text is parsed and run only here, inside the sandbox, never in the collector.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from freezeframe_collector.readers import sandbox
from freezeframe_collector.readers.catalog import Catalog, make_catalog
from freezeframe_collector.readers.errors import ClickHouseError, from_engine
from freezeframe_collector.readers.frames import PIECE_BYTES, FrameKind, Head, Question, pack, pack_json, read_question
from freezeframe_collector.readers.guard import Checked, Guard, check_setting, settings_in, tokens
from freezeframe_collector.store.engine import quote_identifier, quote_text

STREAMED_FORMATS: Final = frozenset({"Native", "TabSeparated", "TSV", "CSV", "RowBinary", "JSONEachRow", "JSONLines", "NDJSON"})
"""Formats whose blocks can follow one another as they come; others have a frame around the whole."""
_GREETING: Final = "SELECT displayName(), version(), revision(), timezone()"
"""First query of clickhouse-go (Grafana's plugin). chDB writes for the oldest client, so the answer names that revision."""
_GREETING_ANSWER: Final = """SELECT 'freezeframe' AS "displayName()", version(), toUInt32(0) AS "revision()", timezone()"""
_BOUNDS: Final[Mapping[str, str]] = {
    "max_execution_time": "60",
    "max_memory_usage": "1000000000",
    # before the limit: what groups or joins more goes to disk, as a read of every attribute of `otel_traces` does
    "max_bytes_before_external_group_by": "300000000",
    "max_bytes_before_external_join": "300000000",
    "max_threads": "2",
    "max_result_bytes": "2000000000",
    "result_overflow_mode": "'throw'",
    "http_max_tries": "1",
}
_OWN_NAMES: Final = frozenset({None, "", "default"})
"""Names of the database in clients that do not know its real one."""
_FILE_BYTES: Final = 4 << 30
"""Limit of a statement's temporary data on the disk."""
_NICE: Final = 10
"""The writer goes first when the CPU is busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """The walls around a reader. All are up; a test removes them one by one."""

    sandbox: bool = True
    grants: bool = True
    guard: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePaths:
    """Paths of the store that a reader opens."""

    writer: Path
    """The writer's engine directory."""
    database: str
    cold: Path | None = None
    memory_bytes: int = 1_000_000_000
    walls: Walls = Walls()


def serve_one(engine: Any, paths: StorePaths, own: Path, channel: int, *, ahead: bool) -> None:
    """Open the store, wait for a question on the channel (a socket's descriptor), answer it.

    One that is made `ahead` of its question opens all of the store; else the question comes first.
    """

    try:
        catalog = _shut_in(paths, own)
        question = None if ahead else _read(channel)
        catalog.put(None if question is None else _tables(catalog, question))
        handle = engine.connect(f"{catalog.target}&max_server_memory_usage={paths.memory_bytes}")
    except EOFError:
        return
    except (ClickHouseError, RuntimeError, OSError) as error:
        _send(channel, _failed(error))
    else:
        answer_question(handle, paths, channel, question)


def answer_question(handle: Any, paths: StorePaths, channel: int, question: Question | None = None) -> None:
    """Answer a question, read from the channel if it is not given."""
    try:
        for frame in _answer(handle, paths, question or _read(channel)):
            _send(channel, frame)
        _send(channel, pack(FrameKind.END))
    except EOFError:
        return
    except (ClickHouseError, RuntimeError, OSError) as error:
        _send(channel, _failed(error))


def _send(channel: int, frame: bytes) -> None:
    left = memoryview(frame)
    while left:
        left = left[os.write(channel, left) :]


def _read(channel: int) -> Question:
    def read(size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = os.read(channel, size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    return read_question(read)


def _failed(error: ClickHouseError | RuntimeError | OSError) -> bytes:
    known = from_engine(error)
    return pack_json(FrameKind.FAILURE, {"code": known.code, "text": known.text})


def _shut_in(paths: StorePaths, own: Path) -> Catalog:
    """Put up the walls, before reading any stranger's text; return the paths to open."""
    catalog = make_catalog(paths.writer, own, database=paths.database, cold=paths.cold, grants=paths.walls.grants)
    os.environ.clear()
    os.environ["TMPDIR"] = str(own)
    os.nice(_NICE)
    if paths.walls.sandbox:
        read = [paths.writer / "store", *([] if paths.cold is None else [paths.cold])]
        sandbox.enter(read=read, write=[own], file_bytes=_FILE_BYTES)
    else:
        sandbox.forgo_privileges(_FILE_BYTES)
    return catalog


def _tables(catalog: Catalog, question: Question) -> list[str] | None:
    """Return the tables that a question names; None for all, if it may list tables.

    Names are written out in it: the guard refuses escapes in them, and an `Identifier` is a parameter.
    """
    texts = [question.sql, *(text.encode() for text in (*question.controls, *question.parameters.values()))]
    lowered = b" ".join(texts).lower()
    if not question.sql.lstrip(b"( \t\r\n").lower().startswith((b"select", b"with")):
        return None
    if any(word in lowered for word in (b"system", b"information_schema")):
        return None
    if question.database not in {*_OWN_NAMES, catalog.database}:
        return None
    return catalog.named_in(*texts) or None


def _answer(handle: Any, paths: StorePaths, question: Question) -> Generator[bytes]:
    guard = Guard(handle, paths.database)
    handle.query("SET " + ", ".join(f"{name} = {value}" for name, value in _BOUNDS.items()))
    _use(handle, paths.database, None)
    handle.query("SET readonly = 2")
    for control in question.controls:
        handle.query(guard.check(control.encode(), {}).sql)
    for name, value in question.settings.items():
        check_setting(name, value)
        if name != "readonly":
            handle.query(f"SET {quote_identifier(name)} = {quote_text(value)}")
    if question.database is not None:
        _use(handle, paths.database, question.database)
    # before the check: while the engine explains a statement it may compute what is constant in it
    yield pack_json(FrameKind.BOUND, {"seconds": _seconds(handle, question.sql)})
    if paths.walls.guard:
        checked = guard.check(question.sql, question.parameters)
    else:
        checked = Checked(sql=question.sql.decode(), format=None, select=False, control=False)
    if checked.control:
        handle.query(checked.sql)
        yield pack(FrameKind.CONTROL, checked.sql.encode())
        return
    yield from _run(handle, question, checked)


def _use(handle: Any, database: str, asked: str | None) -> None:
    # clients that know no other name ask for `default`, which would be chDB's: it serves files of the host
    name = database if asked is None or asked in _OWN_NAMES else asked
    # nor `system`: a name without a database is taken for one of the store's (`guard`)
    if name not in {database, "information_schema", "INFORMATION_SCHEMA"}:
        raise ClickHouseError(81, "UNKNOWN_DATABASE", f"Database {name} does not exist. Maybe you meant {database}?")
    handle.query(f"USE {quote_identifier(name)}")


def _seconds(handle: Any, sql: bytes) -> float:
    """Return the time limit of the statement: its own setting, else the session's, or that of a part of it."""
    words = list(tokens(sql))
    parts = [value for name, value in settings_in(words) if name == "max_execution_time"]
    for value in parts:
        check_setting("max_execution_time", value)
    own = dict(settings_in(_last_clause(words))).get("max_execution_time")
    if own is None:
        own = handle.query("SELECT getSetting('max_execution_time')", "TSV").bytes()
    return max(float(value or 0) for value in (own, *parts))


def _last_clause(words: list[bytes]) -> list[bytes]:
    """Return the words that may hold the whole statement's SETTINGS clause: after the last parenthesis, if no UNION."""
    if any(word.upper() in {b"UNION", b"INTERSECT", b"EXCEPT"} for word in words):
        return []
    last = len(words) - 1 - words[::-1].index(b")") if b")" in words else -1
    return words[last + 1 :]


def _run(handle: Any, question: Question, checked: Checked) -> Generator[bytes]:
    name = checked.format or question.default_format
    sql = _GREETING_ANSWER if checked.sql == _GREETING else checked.sql
    started = time.monotonic_ns()
    parameters = dict(question.parameters)
    if checked.select and name in STREAMED_FORMATS and not question.wait:
        stream = handle.send_query(sql, name, params=parameters)
        empty = True
        while (chunk := handle.streaming_fetch_result(stream)) is not None and chunk.rows_read():
            if empty:
                yield _head(Head(format=name, elapsed_ns=time.monotonic_ns() - started))
                empty = False
            yield from _pieces(chunk.bytes())
        if not empty:
            return
        # no block at all: the whole answer still has a header in some formats
    result = handle.query(sql, name, params=parameters)
    yield _head(
        Head(
            format=name,
            read_rows=result.storage_rows_read(),
            read_bytes=result.storage_bytes_read(),
            result_rows=result.rows_read(),
            elapsed_ns=time.monotonic_ns() - started,
        )
    )
    yield from _pieces(result.bytes() or b"")


def _head(head: Head) -> bytes:
    return pack_json(FrameKind.HEAD, asdict(head))


def _pieces(body: bytes) -> Generator[bytes]:
    for at in range(0, len(body), PIECE_BYTES):
        yield pack(FrameKind.PIECE, body[at : at + PIECE_BYTES])
