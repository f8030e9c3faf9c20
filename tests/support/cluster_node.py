"""A node of a cluster, as far as the embedded engine can be one: ``python cluster_node.py DIRECTORY OUTDATED_COUNT``.

It has the cluster's configuration, shards' parts and Distributed tables, and no network: what is for all nodes or shards is
done on this one, Replicated tables are plain ones, and a read of a Distributed table is one of this node's part. It brings a
database from the first ``OUTDATED_COUNT`` migrations to today's and prints what it has then, as JSON. A process of
its own, since chDB takes one configuration per process.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import chdb
import orjson

from freezeframe_collector.store import Store  # first: it imports the other

# isort: split
import freezeframe_collector.store.migrate as migrating
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
_DISTRIBUTED_OF_THEN: Final = """
CREATE TABLE IF NOT EXISTS {{db}}.{0} {{on_cluster}} AS {{db}}.{0}{{sfx}}
ENGINE = Distributed({{cluster}}, {{db_text}}, '{0}{{sfx}}', cityHash64(trace_id));
"""
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

    def blocks(self, sql: str) -> Iterator[bytes]:
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
    outdated = int(sys.argv[2])
    store = Store(node, database=DATABASE, cluster="main")
    distributed = "".join(map(_DISTRIBUTED_OF_THEN.format, ("span_rows", "run_rows", "rejected_rows")))
    with (
        patch.object(migrating, "migrations", lambda: migrations()[:outdated]),
        patch.object(migrating, "views", list[tuple[str, str]]),
        patch.object(migrating, "run_rows_sql", str),
        patch.object(migrating, "distributed_sql", lambda: distributed),
    ):
        store.migrate()
    node.command(
        f"INSERT INTO {DATABASE}.span_rows_local (tenant, run_hour, trace_id, span_id, exchange_kind, redaction_policy)"
        " VALUES ('acme', '2026-01-01 10:00:00', 'run', 'span', 'model', 'strict@abc')"
    )
    node.command(
        f"INSERT INTO {DATABASE}.payload_rows_local (tenant, run_hour, trace_id, hash, body)"
        " VALUES ('acme', '2026-01-01 10:00:00', 'run', '123456789012', 'what was said')"
    )
    applied = [migration.name for migration in store.migrate()]
    told = {
        "applied": applied,
        "again": [migration.name for migration in store.migrate()],
        "columns": {table: [columns_of(node, table), columns_of(node, f"{table}_local")] for table, _ in TABLES},
        "pieces": node.rows(f"SELECT trace_id, body FROM {DATABASE}.piece_rows_local")[1],
        "runs": node.rows(f"SELECT trace_id, has_exchanges FROM {DATABASE}.run_rows_local")[1],
        "policies": node.rows(f"SELECT tenant, label FROM {DATABASE}.policies")[1],
    }
    node.close()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
