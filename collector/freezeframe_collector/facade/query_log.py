"""The query log: one row for each statement of a reader, in the table `queries`.

The collector writes it, in batches, since a reader's process cannot write. The statement is kept without its
values: literals may be private. Of the ids in it, those of this store's runs are kept, so that the readers of a
run can be found.
"""

from __future__ import annotations

import logging
import re
import threading
import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from freezeframe_collector.readers.guard import TOKEN
from freezeframe_collector.store import Store
from freezeframe_schemas.errors import FreezeframeError
from freezeframe_schemas.tables import Block

FLUSH_S: Final = 30.0
"""Each insert adds a part that the next reader must open, and makes the reader that was opened ahead useless."""
_MAX_WAITING: Final = 10_000
"""Statements that wait for the next insert; beyond that, the oldest are not written, and the log reports how many."""
_STATEMENT_BYTES: Final = 8_000
_TEXT: Final = 200
_TRACE_ID: Final = re.compile(rb"(?<![0-9a-zA-Z])[0-9a-f]{32}(?![0-9a-zA-Z])")
_MAX_RUNS: Final = 100
_PLAIN_NAME: Final = re.compile(rb"[`\"][A-Za-z_][\w.]*[`\"]")
_NUMBER: Final = re.compile(rb"\.?\d[\d.]*(?:[eE][+-]?\d+)?")
_ENDLESS: Final = frozenset({b"'", b'"', b"`", b"$"})
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedStatement:
    time_ms: int
    user: str
    address: str
    client: str
    statement: str
    named: Sequence[str]
    """Ids in the form of a trace id in the statement or its parameters."""
    duration_ms: int
    outcome: str
    error_code: int = 0


class QueryLog:
    """Gathers statements, and writes them to the store from time to time and at the end."""

    def __init__(self, store: Store, *, flush_s: float = FLUSH_S) -> None:
        self._store = store
        self._waiting: deque[LoggedStatement] = deque()
        self._left_out = 0
        self._lock = threading.Lock()
        self._flush_s = flush_s
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="freezeframe-queries", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def add(self, asked: LoggedStatement) -> None:
        """Take one statement; never wait for the store."""
        with self._lock:
            if len(self._waiting) >= _MAX_WAITING:
                self._waiting.popleft()
                self._left_out += 1
            self._waiting.append(asked)

    def close(self) -> None:
        """Write the waiting statements, and end."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._flush_s):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        with self._lock:
            rows, left_out = [*self._waiting], self._left_out
            self._waiting.clear()
            self._left_out = 0
        if left_out:
            _LOG.warning(
                "%d statements of readers were not written to the query log: over %d came at once", left_out, _MAX_WAITING
            )
        if not rows:
            return
        try:
            self._insert(rows)
        except FreezeframeError as error:
            _LOG.error("%d statements of readers were not written to the query log: %s", len(rows), error.message)

    def _insert(self, rows: Sequence[LoggedStatement]) -> None:
        runs = self._runs_among({trace_id for row in rows for trace_id in row.named})
        batch = Block(
            columns={
                "time": ("DateTime64(3, 'UTC')", [row.time_ms for row in rows]),
                "user": ("String", [row.user for row in rows]),
                "address": ("String", [row.address for row in rows]),
                "client": ("String", [row.client for row in rows]),
                "statement": ("String", [row.statement for row in rows]),
                "runs": ("Array(String)", [[one for one in row.named if one in runs] for row in rows]),
                "duration_ms": ("UInt32", [min(row.duration_ms, 0xFFFFFFFF) for row in rows]),
                "outcome": ("String", [row.outcome for row in rows]),
                "error_code": ("UInt32", [row.error_code for row in rows]),
            }
        )
        # its own token: two batches with the same rows are still two
        token = f"queries/{uuid.uuid4().hex}"
        self._store.engine.insert(f"{self._store.database}.queries", list(batch.columns), batch.encode(), token)

    def _runs_among(self, ids: Iterable[str]) -> set[str]:
        """Return those of these ids that are runs: any other text of that form may be a secret."""
        quoted = ",".join(f"'{trace_id}'" for trace_id in ids)
        if not quoted:
            return set()
        _, rows = self._store.query(
            f"SELECT DISTINCT trace_id FROM {self._store.database}.run_rows WHERE trace_id IN ({quoted})"
        )
        return {str(row[0]) for row in rows}


def without_values(sql: bytes) -> str:
    """Return the statement with ? in place of each literal, without comments and in one line; a long one is cut.

    After an open quote or comment, or a character that no reader's statement may contain, the rest is one ?.
    """
    out: list[bytes] = []
    size = 0
    for match in TOKEN.finditer(sql.strip()):
        token = _without_value(match[0])
        if token is None or (token == b"*" and out[-1:] == [b"/"]):
            return (b"".join(out).removesuffix(b"/") + b"?").decode()
        if token == b" " and out[-1:] == [b" "]:
            continue
        size += len(token)
        if size > _STATEMENT_BYTES:
            return b"".join(out).decode() + " ..."
        out.append(token)
    return b"".join(out).decode().strip()


def _without_value(token: bytes) -> bytes | None:
    """Return the logged form of a word or sign of a statement; None if the rest cannot be tokenised safely."""
    if token.isspace() or token.startswith((b"--", b"/*", b"# ", b"#!")):
        return b" "
    if token in _ENDLESS or (len(token) == 1 and token[0] > 127):
        return None
    is_literal = token[:1] == b"'" or _NUMBER.fullmatch(token) is not None
    if is_literal or (token[:1] in b'`"' and not _PLAIN_NAME.fullmatch(token)):
        return b"?"
    return token


def ids_in(sql: bytes, parameters: Iterable[str]) -> list[str]:
    """Return the trace ids in a statement and in the values of its parameters, each once."""
    texts = (sql, *(value.encode(errors="replace") for value in parameters))
    found = dict.fromkeys(match[0].decode() for text in texts for match in _TRACE_ID.finditer(text))
    return list(found)[:_MAX_RUNS]


def short(text: str) -> str:
    """Return the part of a header that is kept."""
    return text.encode(errors="replace").decode()[:_TEXT]
