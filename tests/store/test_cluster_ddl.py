"""The schema on a cluster: what each statement becomes, parsed by the engine. No cluster is at hand to run it on."""

from __future__ import annotations

import re

import pytest

from freezeframe_collector.migrate import distributed_sql, render, statements
from freezeframe_collector.store import Store
from freezeframe_schemas.tables.ddl import TABLES, migrations
from freezeframe_schemas.tables.views import views

ALL = [
    (name, statement)
    for name, sql in (*migrations(), ("cluster/distributed", distributed_sql()), *views())
    for statement in statements(sql)
]
CREATED = re.compile(r"CREATE TABLE IF NOT EXISTS `agents`\.(\w+)")


def on_cluster(statement: str) -> str:
    return render(statement, "agents", "main")


@pytest.mark.long
def test_every_statement_parses(store: Store) -> None:
    for name, statement in ALL:
        # as text in hex, since the statement has quotes of both kinds
        rendered = on_cluster(statement).encode().hex()
        try:
            store.query(f"SELECT formatQuerySingleLine(unhex('{rendered}'))")
        except Exception as error:
            raise AssertionError(f"{name}: {on_cluster(statement)[:200]}") from error


def test_every_statement_that_makes_or_alters_is_for_all_nodes() -> None:
    for name, statement in ALL:
        text = on_cluster(statement)
        if text.split()[0] in {"CREATE", "ALTER", "DROP", "TRUNCATE"}:
            assert "ON CLUSTER 'main'" in text, name


def test_a_run_lives_on_one_shard() -> None:
    for table, _ in TABLES:
        made = next(line for line in map(on_cluster, statements(distributed_sql())) if f".{table} " in line)
        assert made.endswith(f"ENGINE = Distributed('main', 'agents', '{table}_local', cityHash64(trace_id))")


def test_parts_of_shards_have_a_path_each_and_whole_tables_one_for_all() -> None:
    for _, statement in ALL:
        text = on_cluster(statement)
        created = CREATED.match(text)
        if created is None or "Distributed(" in text:
            continue
        shard = created[1].endswith("_local")
        assert "MergeTree(" in text
        assert "Replicated" in text
        assert ("'/clickhouse/tables/{uuid}/all'" in text) is not shard, created[1]


def test_one_node_has_neither() -> None:
    for _, statement in ALL:
        if "{cluster}" not in statement:
            text = render(statement, "agents")
            assert "Replicated" not in text
            assert "_local" not in text
            assert "ON CLUSTER" not in text
