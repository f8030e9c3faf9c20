"""Store: the only way for spans into the tables, over either engine."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote

from freezeframe_collector.store.call_rows import join_calls, reports_call
from freezeframe_collector.store.engine import Engine, quote_text
from freezeframe_collector.store.migrate import Migration, migrate
from freezeframe_collector.store.own_rows import insert_row
from freezeframe_collector.store.tiers import COLD_TABLES, ColdTier, set_cold_tier
from freezeframe_schemas import genai, tables
from freezeframe_schemas.address import shown_address, split_address, store_options
from freezeframe_schemas.coding_agents import CODING_AGENT_EVENTS
from freezeframe_schemas.errors import ConfigError, PermanentStoreError
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.tables import Block, CutMemory
from freezeframe_schemas.tables.ddl import DATABASE, TABLES

_LOG = logging.getLogger(__name__)
_SHARDED: Final = frozenset(name for name, _ in TABLES)
_RUNS_REMEMBERED: Final = 100_000
_PIECES_REMEMBERED: Final = 200_000
_LOOK_BACK_S: Final = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A span that was set aside, so that its batch could be stored."""

    trace_id: str
    span_id: str
    name: str
    reason: str
    """Short cause, one of a few words."""
    detail: str
    """The fault: found, expected. No payload."""
    time_unix_nano: int
    tenant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStats:
    """Size of one table on disk."""

    table: str
    rows: int
    disk_bytes: int
    raw_bytes: int
    parts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Size of the store."""

    tables: tuple[TableStats, ...]
    referenced_bytes: int
    """Bytes of all payload values as the spans name them; the difference to `payload_bytes` is the saving of storing once."""
    payload_bytes: int

    @property
    def disk_bytes(self) -> int:
        """Return the bytes on disk of all tables."""
        return sum(table.disk_bytes for table in self.tables)


class _Stored(OrderedDict[str, set[bytes]]):
    """Pieces of recently written runs that the store holds: trace id -> hashes."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._size = 0

    def add(self, pieces: Iterable[tuple[str, bytes]]) -> None:
        for trace_id, digest in pieces:
            hashes = self.setdefault(trace_id, set())
            self._size += digest not in hashes
            hashes.add(digest)
            self.move_to_end(trace_id)
        while self._size > self._limit:
            _, oldest = self.popitem(last=False)
            self._size -= len(oldest)

    def clear(self) -> None:
        super().clear()
        self._size = 0


def open_store(
    dsn: str,
    *,
    database: str = DATABASE,
    policies: Mapping[str, str] = MappingProxyType({}),
    cold: ColdTier | None = None,
) -> Store:
    """Open ``chdb:///absolute/directory`` or ``clickhouse://user:password@host:8123/database``.

    The embedded engine takes 2 GB of memory at most, or ``?memory_bytes=N``.

    A server's DSN may end in ``?cluster=NAME`` (Replicated tables behind Distributed ones, sharded by run), and that of TLS,
    ``clickhouses://``, in ``?ca=FILE`` if the certificate is not from a public authority.

    `policies` are the texts of the policies that this collector redacts by, by label; it may grow while the store is open.
    `cold` selects the days for a slower disk; None changes nothing.

    Raises:
        ConfigError: the DSN does not have one of these forms, or the embedded engine is not installed.
        PermanentStoreError: the directory is held by another process.
        RetryableStoreError: the server does not answer.
    """
    parts = split_address(dsn)
    options = store_options(parts)
    match parts.scheme:
        case "chdb":
            path = Path(unquote(parts.path))
            if parts.netloc or not path.is_absolute() or path == Path("/"):
                raise ConfigError(f"store: found {shown_address(dsn)}, expected chdb:///absolute/directory (three slashes)")
            from freezeframe_collector.store.embedded import DEFAULT_MEMORY_BYTES, MIN_MEMORY_BYTES, EmbeddedEngine

            memory_text = options.get("memory_bytes", str(DEFAULT_MEMORY_BYTES))
            if not memory_text.isdecimal() or int(memory_text) < MIN_MEMORY_BYTES:
                raise ConfigError(
                    f"store: memory_bytes={memory_text}: expected a number of bytes, {MIN_MEMORY_BYTES:,} or more"
                )
            engine = EmbeddedEngine(path, memory_bytes=int(memory_text), cold_volume=cold.volume if cold else "")
            return Store(engine, database=database, policies=policies, cold=cold)
        case "clickhouse" | "clickhouses" | "http" | "https":
            from freezeframe_collector.store.server import ServerEngine

            named = parts.path.strip("/") or database
            return Store(ServerEngine(dsn), database=named, cluster=options.get("cluster"), policies=policies, cold=cold)
        case _:
            raise ConfigError(
                f"store: found {shown_address(dsn)}, expected chdb:///DIR or clickhouse://USER:PASSWORD@HOST:8123/DATABASE"
            )


class Store:
    """Tables of spans over an engine. Safe to use from many threads; inserts are best kept to one at a time."""

    def __init__(
        self,
        engine: Engine,
        *,
        database: str = DATABASE,
        cluster: str | None = None,
        policies: Mapping[str, str] = MappingProxyType({}),
        cold: ColdTier | None = None,
    ) -> None:
        self.engine = engine
        self._cold = cold
        self.database = database
        self.cluster = cluster
        self._policies = policies
        self._policies_noted: set[tuple[str, str]] = set()
        self._opened_s = int(time.time())
        self._lock = threading.Lock()
        self._hours: OrderedDict[str, int] = OrderedDict()
        self._pieces = _Stored(_PIECES_REMEMBERED)
        self._memory = CutMemory()
        self.on_deleted: Callable[[], object] = lambda: None
        """Called after runs were deleted for good."""

    def migrate(self, *, dry_run: bool = False) -> list[Migration]:
        """Bring the database to this version's schema, and its days to the disk where they belong.

        Return the migrations that were (or would be) applied.

        Raises:
            PermanentStoreError: the database is newer than this version, or an applied migration was edited.
            ConfigError: the policy or volume that days are to move to does not exist.
        """
        done = migrate(self.engine, self.database, cluster=self.cluster, dry_run=dry_run)
        if self._cold is not None and not dry_run:
            suffix = "_local" if self.cluster else ""
            stored = {f"{table}{suffix}": self.stored(table) for table in COLD_TABLES}
            set_cold_tier(self.engine, self.database, stored, self._cold)
        return done

    def stored(self, table: str) -> str:
        """Return the name of the table's own rows in a statement (ALTER, OPTIMIZE).

        On a cluster that is every shard's part of a sharded table; a table that is whole on each node keeps its name.
        """
        if self.cluster is None or table not in _SHARDED:
            return f"{self.database}.{table}"
        return f"{self.database}.{table}_local ON CLUSTER {quote_text(self.cluster)}"

    def insert(self, spans: Sequence[SpanRecord], token: str) -> None:
        """Store `spans`: on disk when this returns. The same token again changes nothing, even after a crash midway.

        Raises:
            RetryableStoreError: not stored, or not known to be; repeat with the same token and the same spans.
            PermanentStoreError: these spans cannot be stored.
        """
        if not spans:
            return
        hours = self._run_hours(spans)
        with self._lock:
            rows = tables.rows_from_spans(spans, run_hours=hours, stored=self._pieces, memory=self._memory)
        # payloads first: a span whose pieces are missing would be damaged, a piece without a span is only unused
        self._insert("piece_rows", rows.payloads, f"{token}/payloads")
        now_ms = time.time_ns() // 1_000_000
        stored_at = {"stored_at": (tables.STORED_AT.type, [now_ms] * len(rows.spans))}
        self._insert("span_rows", Block(columns={**rows.spans.columns, **stored_at}), f"{token}/spans")
        self._note_policies(spans)
        reporting = {span.trace_id: hours[span.trace_id] for span in spans if reports_call(span)}
        try:
            join_calls(self.engine, self.database, reporting)
        except PermanentStoreError as error:  # the spans are stored: setting them aside as refused would be wrong
            code = error.message.partition(". DB::")[0]
            _LOG.error("model calls of %d runs were not joined, though their spans are stored: %s", len(reporting), code)
        with self._lock:
            self._pieces.add(rows.pieces)

    def holds(self, spans: Sequence[SpanRecord]) -> bool:
        """Return whether all of these few spans are in the tables, by reading them, not by an insert's answer.

        Raises:
            RetryableStoreError: the store does not answer.
        """
        sought = {(span.trace_id, span.span_id) for span in spans}
        hours = ",".join(f"toDateTime({hour}, 'UTC')" for hour in sorted(set(self._run_hours(spans).values())))
        quoted = ",".join(f"('{trace_id}','{span_id}')" for trace_id, span_id in sought if (trace_id + span_id).isalnum())
        _, rows = self.query(
            f"SELECT uniqExact(trace_id, span_id) FROM {self.database}.span_rows"
            f" WHERE run_hour IN ({hours}) AND (trace_id, span_id) IN ({quoted})"
        )
        shown = int(rows[0][0]) == len(sought)
        if not shown:
            self.forget()  # an engine that lost rows may have lost pieces with them: assume that none are stored
        return shown

    def insert_rejected(self, rejected: Sequence[Rejected], token: str) -> None:
        """Store the rejected spans; durable and once per token, as `insert`."""
        if not rejected:
            return
        by_name: dict[str, Sequence[Any]] = {
            "time": [item.time_unix_nano for item in rejected],
            "tenant": [item.tenant for item in rejected],
            "trace_id": [item.trace_id for item in rejected],
            "span_id": [item.span_id for item in rejected],
            "name": [item.name for item in rejected],
            "reason": [item.reason for item in rejected],
            "detail": [item.detail for item in rejected],
        }
        batch = Block(columns={c.name: (c.type, by_name[c.name]) for c in tables.REJECTED_COLUMNS})
        self._insert("rejected_rows", batch, f"{token}/rejected")

    def query(self, sql: str, parameters: Mapping[str, str | int] | None = None) -> tuple[list[str], list[Sequence[Any]]]:
        """Return column names and rows of one of the project's own SELECTs (readers come through the facade, fenced)."""
        return self.engine.rows(sql, parameters)

    def stats(self) -> Stats:
        """Return sizes on disk by table."""
        _, rows = self.query(
            "SELECT table, sum(rows), sum(bytes_on_disk), sum(data_uncompressed_bytes), count() FROM system.parts"
            " WHERE database = {db:String} AND active GROUP BY table ORDER BY table",
            {"db": self.database},
        )
        _, payloads = self.query(
            f"SELECT (SELECT sum(payload_bytes) FROM {self.database}.span_rows FINAL),"
            f" (SELECT sum(length(body)) FROM {self.database}.piece_rows)"
            f" + (SELECT sum(length(templates)) FROM {self.database}.span_rows)"
        )
        return Stats(
            tables=tuple(TableStats(table=t, rows=r, disk_bytes=d, raw_bytes=u, parts=p) for t, r, d, u, p in rows),
            referenced_bytes=payloads[0][0] or 0,
            payload_bytes=payloads[0][1] or 0,
        )

    def forget(self) -> None:
        """Forget which pieces are stored; needed after rows were deleted."""
        with self._lock:
            self._pieces.clear()

    def close(self) -> None:
        """Close the engine. Inserted data is on disk already."""
        self.engine.close()

    def _insert(self, table: str, batch: Block, token: str) -> None:
        if len(batch):
            self.engine.insert(f"{self.database}.{table}", list(batch.columns), batch.encode(), token)

    def _note_policies(self, spans: Sequence[SpanRecord]) -> None:
        """Store the policies that these spans name, unless this process already has, with the text if it is known.

        Storing one again changes nothing: the first use counts, and the text.
        """
        first: dict[tuple[str, str], int] = {}
        for span in spans:
            named = (tables.tenant_of(span), span.text(genai.REDACTION_POLICY) or "")
            start_ns = span.start_time_unix_nano if span.start_time_unix_nano < 1 << 63 else 0
            first[named] = min(start_ns, first.get(named, start_ns))
        for (tenant, label), first_ns in first.items():
            if (tenant, label) in self._policies_noted:
                continue
            if label:
                name, _, digest = label.partition("@")
                texts = {"tenant": tenant, "name": name, "hash": digest, "text": self._policies.get(label, "")}
                row = {column: quote_text(text) for column, text in texts.items()}
                row["first_used_at"] = f"fromUnixTimestamp64Nano({first_ns}, 'UTC')"
                insert_row(self.engine, f"{self.database}.policy_rows", row)
            self._policies_noted.add((tenant, label))

    def _run_hours(self, spans: Sequence[SpanRecord]) -> dict[str, int]:
        """Return the hour in which each run of the batch was first seen, so that a run's rows stay together."""
        first: dict[str, int] = {}
        for span in spans:
            hour = tables.run_hour_of(span.start_time_unix_nano)
            first[span.trace_id] = min(hour, first.get(span.trace_id, hour))
        with self._lock:
            known = {trace_id: self._hours[trace_id] for trace_id in first if trace_id in self._hours}
        # a run that began before this process did may have rows already; a coding agent's session, from any day
        sessions = {span.trace_id for span in spans if span.name.startswith(CODING_AGENT_EVENTS)}
        since = self._opened_s - _LOOK_BACK_S
        older = {t: h for t, h in first.items() if t not in known and (t in sessions or since <= h <= self._opened_s)}
        if older:
            begun = 0 if sessions & older.keys() else min(older.values()) - _LOOK_BACK_S
            _, rows = self.query(
                f"SELECT trace_id, min(toUnixTimestamp(run_hour)) FROM {self.database}.run_rows"
                f" WHERE run_hour >= toDateTime({begun}, 'UTC')"
                " AND trace_id IN {ids:Array(String)} GROUP BY trace_id",
                {"ids": "[" + ",".join(f"'{trace_id}'" for trace_id in older if trace_id.isalnum()) + "]"},
            )
            known |= {str(row[0]): int(row[1]) for row in rows}
        hours = first | known
        with self._lock:
            for trace_id, hour in hours.items():
                self._hours[trace_id] = hour
                self._hours.move_to_end(trace_id)
            while len(self._hours) > _RUNS_REMEMBERED:
                self._hours.popitem(last=False)
        return hours
