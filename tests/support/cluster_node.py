"""A node of a cluster, as far as the embedded engine can be one: ``python cluster_node.py DIRECTORY``.

It has the cluster's configuration, shards' parts and Distributed tables, and no network: what is for all nodes or shards is
done on this one, Replicated tables are plain ones, and a read of a Distributed table is one of this node's part. It upgrades a
database from today's version to an invented next one and prints the result, as JSON. A separate process, since chDB takes one
configuration per process.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import chdb
import orjson

from freezeframe_collector.store import Store  # first: it imports the other

# isort: split
import freezeframe_collector.store.migrate as migrating
from freezeframe_schemas.tables.columns import STORED_SPAN_COLUMNS, Column, Source
from freezeframe_schemas.tables.ddl import TABLES, migrations

_CONFIG: Final = """\
<clickhouse>
  <user_directories><users_xml><path>{path}</path></users_xml></user_directories>
  <profiles><default><async_insert>0</async_insert></default></profiles>
  <users><default><password></password><networks><ip>::/0</ip></networks><profile>default</profile></default></users>
  <remote_servers><main><shard><replica><host>127.0.0.1</host><port>9000</port></replica></shard></main></remote_servers>
</clickhouse>
"""
_ON_THIS_NODE: Final = (
    (re.compile(r" ON CLUSTER 'main'"), ""),
    (re.compile(r"Replicated(\w*MergeTree)\((?:'[^']*', '[^']*'(?:, )?)?(\w*)\)"), r"\1(\2)"),
    (re.compile(r"(?:FUNCTION )?cluster\('main', '(\w+)', '(\w+)'(?:, cityHash64\(trace_id\))?\)"), r"\1.\2"),
)
_WEIGHT: Final = Column(name="weight", type="UInt8", comment="Made up", source=Source.DERIVED)
_NEXT: Final = "ALTER TABLE {db}.span_rows{sfx} {on_cluster} ADD COLUMN IF NOT EXISTS weight UInt8 DEFAULT length(span_id);"
DATABASE: Final = "agents"


class Node:
    """The engine of the node."""

    embedded = False

    def __init__(self, directory: Path) -> None:
        config = directory / "node.xml"
        config.write_text(_CONFIG.format(path=config), encoding="utf-8")
        self._handle: Any = chdb.connect(f"{directory / 'clickhouse'}?config-file={config}")

    def command(self, sql: str) -> None:
        for pattern, here in _ON_THIS_NODE:
            sql = pattern.sub(here, sql)
        self._handle.query(sql, "Null")

    def rows(self, sql: str, parameters: Mapping[str, str | int] | None = None) -> tuple[list[str], list[Sequence[Any]]]:
        sql = re.sub(rf"\b{DATABASE}\.(span|call|run)_rows\b", rf"{DATABASE}.\1_rows_local", sql)
        answer = orjson.loads(self._handle.query(sql, "JSONCompact", params=parameters).bytes())
        return [column["name"] for column in answer["meta"]], answer["data"]

    def blocks(self, sql: str) -> Generator[bytes]:
        raise NotImplementedError(sql)

    def insert(self, table: str, columns: Sequence[str], block: bytes, token: str) -> None:
        raise NotImplementedError(table)

    def close(self) -> None:
        self._handle.close()


def columns_of(node: Node, table: str) -> list[Sequence[Any]]:
    return node.rows(
        "SELECT name, type, default_kind, comment FROM system.columns WHERE database = {db:String} AND table = {t:String}"
        " ORDER BY position",
        {"db": DATABASE, "t": table},
    )[1]


def main() -> None:
    node = Node(Path(sys.argv[1]))
    store = Store(node, database=DATABASE, cluster="main")
    with patch.object(migrating, "run_rows_sql", str):  # a version with another feed
        store.migrate()
    node.command(
        f"INSERT INTO {DATABASE}.span_rows_local (tenant, run_hour, trace_id, span_id, exchange_kind)"
        " VALUES ('acme', '2026-01-01 10:00:00', 'run', 'span', 'model')"
    )
    with (
        patch.object(migrating, "migrations", lambda: [*migrations(), ("0002_next.sql", _NEXT)]),
        patch.object(migrating, "TABLES", (("span_rows", (*STORED_SPAN_COLUMNS, _WEIGHT)), *TABLES[1:])),
    ):
        applied, again = ([migration.name for migration in store.migrate()] for _ in range(2))
    report = {
        "applied": applied,
        "again": again,
        "columns": {table: [columns_of(node, table), columns_of(node, f"{table}_local")] for table, _ in TABLES},
        "spans": node.rows(f"SELECT trace_id, weight FROM {DATABASE}.span_rows_local")[1],
        "runs": node.rows(f"SELECT trace_id, has_exchanges FROM {DATABASE}.run_rows_local")[1],
    }
    node.close()
    print(json.dumps(report))


if __name__ == "__main__":
    main()
