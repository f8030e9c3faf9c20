"""The next version's migration, made up here: what is stored is carried over, wherever the upgrade is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import agent_loops
import pytest
from administered_store import stopping_after
from serving import serving

import freezeframe_collector.store.migrate as migrating
from freezeframe_collector.store import Store
from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas.tables.ddl import migrations

DATABASE = "of_this_version"
NEXT = """
-- A column, filled from another; a table, filled from a table.
ALTER TABLE {db}.span_rows{sfx} {on_cluster} ADD COLUMN IF NOT EXISTS weight UInt64 COMMENT 'Made up';
ALTER TABLE {db}.span_rows{sfx} {on_cluster} UPDATE weight = payload_bytes + 1 WHERE 1 SETTINGS mutations_sync = 2;
CREATE TABLE IF NOT EXISTS {db}.weights{sfx} {on_cluster} (trace_id String, weight UInt64)
ENGINE = {replacing} ORDER BY trace_id SETTINGS index_granularity = 1024{durable};
INSERT INTO {db}.weights{sfx} SELECT trace_id, sum(weight) FROM {db}.span_rows{sfx} GROUP BY trace_id;
"""

pytestmark = pytest.mark.long


@pytest.fixture
def upgraded(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A database of this version with a run in it, opened by a version with one more migration, and another feed and view."""
    made = Store(store.engine, database=DATABASE)
    with monkeypatch.context() as this_version:
        feed, views = migrating.run_rows_sql(), migrating.views()
        this_version.setattr(migrating, "run_rows_sql", lambda: feed + "-- before")
        this_version.setattr(migrating, "views", lambda: [(name, sql + "-- before") for name, sql in views])
        made.migrate()
    made.insert(agent_loops.agent_run(31, turns=4), token="before")
    monkeypatch.setattr(migrating, "migrations", lambda: [*migrations(), ("0002_next.sql", NEXT)])
    yield made
    store.engine.command(f"DROP DATABASE {DATABASE}")


def check_all_is_there(store: Store) -> None:
    spans = agent_loops.agent_run(31, turns=4)
    trace_id = spans[0].trace_id
    with serving(store, here=True) as url, closing(open_runs(f"{url}?database={DATABASE}")) as runs:
        assert runs.load_spans(trace_id) == spans
    _, rows = store.query(f"SELECT spans FROM {DATABASE}.runs")
    assert rows == [[len(spans)]]
    _, [[weights]] = store.query(f"SELECT sum(payload_bytes + 1) FROM {DATABASE}.span_rows FINAL")
    _, rows = store.query(f"SELECT trace_id, weight FROM {DATABASE}.weights FINAL")
    assert rows == [[trace_id, weights]]
    assert store.migrate() == []


@pytest.mark.proof("law an upgrade keeps what is stored")
def test_what_is_stored_is_carried_over_to_the_next_version(upgraded: Store) -> None:
    pending = upgraded.migrate(dry_run=True)
    assert [(step.name, step.statements) for step in pending[:2]] == [("0002_next.sql", 4), ("feed/run_rows", 4)]
    assert upgraded.migrate() == pending
    check_all_is_there(upgraded)


def test_the_upgrade_may_stop_after_any_statement_and_run_again(upgraded: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = upgraded.engine.command
    total = 0
    while True:
        total += 1
        monkeypatch.setattr(upgraded.engine, "command", stopping_after(total, run))
        try:
            upgraded.migrate()
            break
        except InterruptedError:
            continue
        finally:
            monkeypatch.setattr(upgraded.engine, "command", run)
    check_all_is_there(upgraded)
