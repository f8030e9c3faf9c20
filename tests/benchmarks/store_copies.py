"""A filled store made larger inside the engine: every run again under new ids, some hours later, with the same payload bytes.

For latencies at sizes that the writer would take hours to reach. The copies differ from real runs in two things, so
sizes and insertion are measured only on what came through the writer: a payload has the same bytes as in the run that it was
copied from (its neighbours in a compressed block are others, since the hours differ), and a run's copies ask a model the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from freezeframe_collector.store import Store

_TABLES: Final = ("piece_rows", "span_rows")
_SHIFTED: Final = ("run_hour", "start_time")
_SETTINGS: Final = (
    "SETTINGS max_partitions_per_insert_block = 0, max_insert_threads = 1, max_threads = 1,"
    " min_insert_block_size_bytes = 67108864"
)


class Originals:
    """The rows of a store as they are now, to be copied from. Takes no disk: parts are linked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._made = 0
        for table in _TABLES:
            self._command(f"CREATE TABLE {self._name(table)} AS {store.database}.{table}")
            for partition in self._partitions(table):
                source = f"{store.database}.{table}"
                self._command(f"ALTER TABLE {self._name(table)} ATTACH PARTITION ID '{partition}' FROM {source}")
        _, rows = store.query(f"SELECT count() FROM {self._name('span_rows')}")
        self.spans: int = rows[0][0]

    def copy(self) -> None:
        """Add every run once more."""
        self._made += 1
        for table in _TABLES:
            names = self._columns(table)
            values = ", ".join(f"{self._value(name)} AS `{name}`" for name in names)
            columns = ", ".join(f"`{name}`" for name in names)
            for partition in self._partitions(self._name(table).partition(".")[2]):
                self._command(
                    f"INSERT INTO {self._store.database}.{table} ({columns})"
                    f" SELECT {values} FROM {self._name(table)} AS o WHERE _partition_id = '{partition}' {_SETTINGS}"
                )

    def drop(self) -> None:
        """Delete the links."""
        for table in _TABLES:
            self._command(f"DROP TABLE {self._name(table)} SYNC")

    def _value(self, name: str) -> str:
        match name:
            case "trace_id":
                return f"lower(hex(MD5(concat(o.trace_id, '{self._made}'))))"
            case "span_id" | "parent_span_id":
                return f"if(o.{name} = '', '', substring(lower(hex(MD5(concat(o.{name}, '{self._made}')))), 1, 16))"
            case _ if name in _SHIFTED:
                return f"o.{name} + toIntervalHour({self._made})"
            case _:
                return f"o.`{name}`"

    def _name(self, table: str) -> str:
        return f"{self._store.database}.original_{table}"

    def _columns(self, table: str) -> Sequence[str]:
        _, rows = self._store.query(
            "SELECT name FROM system.columns WHERE database = {db:String} AND table = {t:String} AND default_kind != 'ALIAS'",
            {"db": self._store.database, "t": table},
        )
        return [str(row[0]) for row in rows]

    def _partitions(self, table: str) -> Sequence[str]:
        _, rows = self._store.query(
            "SELECT DISTINCT partition_id FROM system.parts WHERE active AND database = {db:String} AND table = {t:String}",
            {"db": self._store.database, "t": table},
        )
        return [str(row[0]) for row in rows]

    def _command(self, sql: str) -> None:
        self._store.engine.command(sql)
