"""The schema on a cluster: what each statement becomes, parsed by the engine, and run by one node without its network.

There is no cluster to run it on.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from freezeframe_collector.store import Store
from freezeframe_collector.store.migrate import distributed_sql, distributed_views_sql, render, statements
from freezeframe_schemas.tables.ddl import TABLES, migrations
from freezeframe_schemas.tables.views import run_rows_sql, views

NODE = Path(__file__).parents[1] / "support" / "cluster_node.py"

ALL = [
    (name, statement)
    for name, sql in (
        *migrations(),
        ("cluster/distributed", distributed_sql()),
        ("feed/run_rows", run_rows_sql()),
        *views(),
        ("cluster/views", distributed_views_sql()),
    )
    for statement in statements(sql)
]
CREATED = re.compile(r"CREATE TABLE IF NOT EXISTS `agents`\.(\w+)")


def on_cluster(statement: str) -> str:
    return render(statement, "agents", "main")


@pytest.mark.long
def test_every_statement_parses(store: Store) -> None:
    for name, statement in ALL:
        # as hex text, since the statement has quotes of both kinds
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


def test_each_shard_answers_for_its_own_runs_where_a_view_has_subqueries_on_each_row() -> None:
    """The engine allows none over Distributed tables: such a view is over a shard's parts, and a Distributed table over it."""
    (made,) = map(on_cluster, statements(distributed_views_sql()))
    assert made.endswith("AS `agents`.otel_traces_local ENGINE = Distributed('main', 'agents', 'otel_traces_local')")
    (view,) = [on_cluster(text) for name, text in ALL if name == "070_otel_traces" and text.startswith("CREATE")]
    assert set(re.findall(r"`agents`\.(\w+)", view)) == {"otel_traces_local", "span_rows_local", "piece_rows_local"}


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


def test_what_is_carried_over_is_carried_on_every_shard() -> None:
    """An INSERT is run by one node: on a cluster it reads and writes the parts of all shards, each run on its own shard."""
    (carried,) = [on_cluster(statement) for _, statement in ALL if statement.startswith("INSERT") and "{sfx}" in statement]
    assert carried.startswith("INSERT INTO FUNCTION cluster('main', 'agents', 'run_rows_local', cityHash64(trace_id))")
    assert "FROM cluster('main', 'agents', 'span_rows_local')" in carried


@pytest.mark.long
def test_an_upgraded_cluster_has_new_columns_in_its_distributed_tables_too(tmp_path: Path) -> None:
    """A column of a shard's part that the Distributed table in front of it lacks cannot be queried."""
    ended = subprocess.run([sys.executable, str(NODE), str(tmp_path)], capture_output=True, text=True, timeout=400, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    told = json.loads(ended.stdout)
    assert told["applied"] == ["0002_next.sql", "cluster/distributed", "feed/run_rows"]
    assert told["again"] == []
    for table, columns in TABLES:
        distributed, local = told["columns"][table]
        added = ["weight"] if table == "span_rows" else []
        assert [name for name, *_ in local] == [column.name for column in columns] + added
        assert distributed == local, table
    assert told["spans"] == [["run", 4]]
    assert told["runs"] == [["run", 1]]


def test_one_node_has_neither() -> None:
    for _, statement in ALL:
        if "{cluster}" not in statement:
            text = render(statement, "agents")
            assert "Replicated" not in text
            assert "_local" not in text
            assert "ON CLUSTER" not in text
