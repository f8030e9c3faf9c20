"""Tokens, migrations, retention, backup: what the store keeps, and how it deletes. Deletion: `test_deleting`."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import agent_loops
import pytest

from freezeframe_collector.store import Store
from freezeframe_collector.store.backup import backup, restore
from freezeframe_collector.store.deleting import delete
from freezeframe_collector.store.migrate import migrate
from freezeframe_collector.store.retention import (
    Retention,
    enable_search,
    expire,
    pin,
    unpin,
)
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError, PermanentStoreError, RunError
from freezeframe_schemas.span import SpanRecord, StatusCode

pytestmark = pytest.mark.long  # each test fills a store of its own

DAY_NS = agent_loops.DAY_NS
TODAY = dt.date(2026, 12, 31)
_names = iter(f"kept{number}" for number in range(1000))


@pytest.fixture
def changed(store: Store) -> Iterator[Store]:
    """A database that the test may change more than the rows of."""
    made = Store(store.engine, database=next(_names))
    made.migrate()
    yield made
    store.engine.command(f"DROP DATABASE {made.database}")


def run_of(number: int, *, days_ago: int, failed: bool = False, tenant: str = "a") -> list[SpanRecord]:
    """Return a run of two turns that started some days before TODAY."""
    start = int(dt.datetime.combine(TODAY, dt.time(12), dt.UTC).timestamp()) * 10**9 - days_ago * DAY_NS
    spans = agent_loops.agent_run(number, turns=2)
    shift = start - spans[0].start_time_unix_nano
    code = StatusCode.ERROR if failed else StatusCode.OK
    return [
        replace(
            span,
            start_time_unix_nano=span.start_time_unix_nano + shift,
            end_time_unix_nano=span.end_time_unix_nano + shift,
            status_code=code if genai.ENTRY_KIND in span.attributes else StatusCode.UNSET,
        ).with_attributes({genai.TENANT: tenant, genai.USER_ID: f"user-{number}"})
        for span in spans
    ]


def traces(store: Store) -> set[str]:
    _, rows = store.query(f"SELECT DISTINCT trace_id FROM {store.database}.spans")
    return {str(row[0]) for row in rows}


def number_of(store: Store, table: str, where: str = "1") -> int:
    _, rows = store.query(f"SELECT count() FROM {store.database}.{table} WHERE {where}")
    return int(rows[0][0])


@pytest.mark.proof
def test_the_same_token_again_changes_nothing(own: Store) -> None:
    spans = run_of(1, days_ago=1)
    for _ in range(3):
        own.insert(spans, token="once")
    assert number_of(own, "span_rows") == len(spans)


def test_spans_that_come_in_another_batch_too_count_once(own: Store) -> None:
    spans = run_of(1, days_ago=1)
    own.insert(spans, token="first")
    own.insert(spans[1:], token="second")
    assert number_of(own, "spans") == len(spans)
    _, rows = own.query(f"SELECT spans FROM {own.database}.runs")
    assert rows == [[len(spans)]]


def test_a_store_that_was_opened_anew_puts_a_runs_spans_beside_its_first(own: Store) -> None:
    now = int(dt.datetime.now(dt.UTC).timestamp()) * 10**9
    spans = [
        replace(s, start_time_unix_nano=now - 2 * 3600 * 10**9 + i * 3600 * 10**9)
        for i, s in enumerate(run_of(2, days_ago=0)[:2])
    ]
    own.insert(spans[:1], token="before")
    Store(own.engine, database=own.database).insert(spans[1:], token="after")
    _, rows = own.query(f"SELECT uniqExact(run_hour) FROM {own.database}.span_rows")
    assert rows == [[1]]


def test_a_piece_that_is_stored_is_not_sent_again(own: Store) -> None:
    spans = run_of(1, days_ago=1)
    own.insert(spans[:-1], token="most")
    before = number_of(own, "piece_rows")
    own.insert([replace(spans[-2], span_id="1" * 16)], token="the same bodies")
    assert number_of(own, "piece_rows") == before


@pytest.mark.proof
def test_migrating_twice_does_nothing_and_a_dry_run_says_what_it_would_do(store: Store) -> None:
    name = next(_names)
    pending = migrate(store.engine, name, dry_run=True)
    assert [item.name for item in pending][:2] == ["0001_tables.sql", "feed/run_rows"]
    assert store.query("SELECT count() FROM system.databases WHERE name = {n:String}", {"n": name})[1] == [[0]]
    assert migrate(store.engine, name) == pending
    assert migrate(store.engine, name) == []
    store.engine.command(f"DROP DATABASE {name}")


@pytest.mark.proof
def test_a_newer_database_is_refused_by_name(changed: Store) -> None:
    changed.engine.command(f"INSERT INTO {changed.database}.schema_migrations (name, checksum) VALUES ('0999_future.sql', 'x')")
    with pytest.raises(PermanentStoreError, match=r"0999_future\.sql.*\n.*upgrade"):
        changed.migrate()


def test_an_edited_migration_is_refused(changed: Store) -> None:
    changed.engine.command(
        f"INSERT INTO {changed.database}.schema_migrations (name, checksum, applied_at)"
        " VALUES ('0001_tables.sql', 'other', now64(3) + 1)"
    )
    with pytest.raises(PermanentStoreError, match=r"0001_tables\.sql.*checksum other"):
        changed.migrate()


def test_a_view_whose_text_changed_is_replaced(changed: Store) -> None:
    changed.engine.command(
        f"INSERT INTO {changed.database}.schema_migrations (name, checksum, applied_at)"
        " VALUES ('view/020_runs', 'old', now64(3) + 1)"
    )
    assert [item.name for item in changed.migrate()] == ["view/020_runs"]


@pytest.mark.proof
def test_a_day_goes_and_its_failed_and_pinned_runs_stay(own: Store) -> None:
    runs = {
        "old": run_of(1, days_ago=20),
        "failed": run_of(2, days_ago=20, failed=True),
        "pinned": run_of(3, days_ago=20),
        "long ago": run_of(4, days_ago=200, failed=True),
        "young": run_of(5, days_ago=2),
    }
    ids = {name: spans[0].trace_id for name, spans in runs.items()}
    for name, spans in runs.items():
        own.insert(spans, token=name)
    pin(own, ids["pinned"], note="a ticket")
    expire(own, Retention(), today=TODAY)
    assert traces(own) == {ids["failed"], ids["pinned"], ids["young"]}
    assert expire(own, Retention(), today=TODAY) == []
    for name in ("failed", "pinned"):
        _, rows = own.query(f"SELECT spans, kept FROM {own.database}.runs WHERE trace_id = '{ids[name]}'")
        assert rows == [[len(runs[name]), 1]]
        assert number_of(own, "payloads", f"trace_id = '{ids[name]}'") > 0
    expire(own, Retention(), today=TODAY + dt.timedelta(days=100))
    assert traces(own) == {ids["pinned"]}
    unpin(own, ids["pinned"])
    expire(own, Retention(), today=TODAY + dt.timedelta(days=100))
    assert traces(own) == set()
    assert number_of(own, "piece_rows") == 0


def test_a_sweep_that_stopped_after_the_copy_is_repeated_without_doubles(own: Store) -> None:
    spans = run_of(2, days_ago=20, failed=True)
    own.insert(spans, token="x")
    own.engine.command(f"INSERT INTO {own.database}.span_rows SELECT * REPLACE (1 AS kept) FROM {own.database}.span_rows")
    assert number_of(own, "spans") == len(spans)
    expire(own, Retention(), today=TODAY)
    assert number_of(own, "spans") == len(spans)


def test_tenants_have_their_own_days(own: Store) -> None:
    long, short = run_of(1, days_ago=20, tenant="long"), run_of(2, days_ago=5, tenant="short")
    for spans in (long, short, run_of(3, days_ago=20)):
        own.insert(spans, token=spans[0].trace_id)
    expire(own, Retention(tenant_days={"long": 30, "short": 3}), today=TODAY)
    assert traces(own) == {long[0].trace_id}


def test_a_tenant_with_fewer_days_loses_its_failed_runs_too_whenever_the_sweep_comes(own: Store) -> None:
    """A tenant's days apply to all its runs, however long no sweep ran; pinned ones stay."""
    failed = {days: run_of(days, days_ago=days, failed=True, tenant="short") for days in (5, 20, 21)}
    for days, spans in failed.items():
        own.insert(spans, token=f"{days}")
    pin(own, failed[21][0].trace_id)
    expire(own, Retention(tenant_days={"short": 3}), today=TODAY)
    assert traces(own) == {failed[21][0].trace_id}


def test_a_dry_run_says_what_would_go_and_drops_nothing(own: Store) -> None:
    runs = {
        "old": run_of(1, days_ago=20),
        "failed": run_of(2, days_ago=20, failed=True),
        "short": run_of(3, days_ago=5, tenant="short"),
        "young": run_of(4, days_ago=5),
    }
    for name, spans in runs.items():
        own.insert(spans, token=name)
    retention = Retention(tenant_days={"short": 3})
    told = expire(own, retention, today=TODAY, dry_run=True)
    assert [(day.dropped_runs, day.kept_runs) for day in told] == [(1, 1), (1, 1)]
    assert len(traces(own)) == 4
    assert number_of(own, "span_rows", "kept = 1") == number_of(own, "audit") == 0
    assert expire(own, retention, today=TODAY) == told
    assert traces(own) == {runs["failed"][0].trace_id, runs["young"][0].trace_id}


def test_a_retention_that_makes_no_sense_is_refused_with_all_its_faults() -> None:
    with pytest.raises(ConfigError, match=r"days: found 0.*x: found -1"):
        Retention(days=0, tenant_days={"x": -1})


def test_a_run_may_be_pinned_unpinned_and_pinned_again_and_all_of_it_is_in_audit(own: Store) -> None:
    """The engine drops a block that it has had: it is told that these are new."""
    spans = run_of(1, days_ago=20)
    own.insert(spans, token="x")
    for pinned in (True, False, True, False, True):
        (pin if pinned else unpin)(own, spans[0].trace_id)
        assert own.query(f"SELECT pinned FROM {own.database}.pins FINAL")[1] == [[int(pinned)]]
    assert number_of(own, "audit") == 5
    expire(own, Retention(), today=TODAY)
    assert traces(own) == {spans[0].trace_id}


def test_a_day_that_was_restored_is_swept_again(own: Store, tmp_path: Path) -> None:
    """Its kept runs are copied as they were the first time, although the engine has already had those rows."""
    spans = run_of(2, days_ago=20, failed=True)
    own.insert(spans, token="x")
    backup(own, tmp_path / "b")
    for _ in range(2):
        expire(own, Retention(), today=TODAY)
        assert number_of(own, "spans") == len(spans)
        delete(own, "run", spans[0].trace_id)
        restore(own, tmp_path / "b")


def test_a_run_that_is_not_there_cannot_be_pinned(own: Store) -> None:
    with pytest.raises(RunError, match="not in the store"):
        pin(own, "0" * 32)


def price(store: Store, prefix: str, day: str, usd_in: float, usd_out: float) -> None:
    prices = f"{usd_in}, {usd_out}, {usd_in}, {usd_in}"
    store.engine.command(f"INSERT INTO {store.database}.prices VALUES ('{prefix}', '{day} 00:00:00', {prices}, '')")


def test_a_price_of_ones_own_counts_from_its_day(changed: Store) -> None:
    spans = run_of(1, days_ago=1)
    changed.insert(spans, token="x")
    price(changed, "gpt", "2020-01-01", 1e6, 0)
    price(changed, agent_loops.MODELS[0][:-3], "2026-12-01", 1, 2)
    price(changed, agent_loops.MODELS[1][:-3], "2026-12-01", 1, 2)
    price(changed, agent_loops.MODELS[2][:-3], "2026-12-01", 1, 2)
    _, rows = changed.query(
        "SELECT sum(cost_usd), sum(ifNull(input_tokens, 0) + 2 * ifNull(output_tokens, 0)) / 1e6"
        f" FROM {changed.database}.model_calls WHERE model_answered != ''"
    )
    assert rows[0][0] == pytest.approx(rows[0][1])


def test_the_longest_prefix_decides_whatever_characters_it_has(changed: Store) -> None:
    """None of them is read as a pattern. If the longest is not valid yet, the call has no price."""
    priced = {"v1.5-pro": 2.0, "v1x5-pro": 1.0, "a|b(c": 3.0, "[a-z]+": 4.0}
    expected = {**priced, "v1.5-lite-8b": 0.0, "b(c": 0.0, "abc": 0.0, "my v1": 0.0}
    for prefix, usd in {"v1": 1.0, "v1.5": 2.0, "a|b(": 3.0, "[a-z]+": 4.0}.items():
        price(changed, prefix, "2020-01-01", usd, 0)
    price(changed, "v1.5-lite", "2100-01-01", 9, 9)
    call = next(span for span in run_of(1, days_ago=1) if genai.RESPONSE_MODEL in span.attributes)
    asked = {genai.USAGE_INPUT_TOKENS: 1_000_000, genai.USAGE_OUTPUT_TOKENS: 7}
    calls = [
        replace(call.with_attributes({genai.RESPONSE_MODEL: model, **asked}), span_id=f"{number:016x}")
        for number, model in enumerate(expected)
    ]
    changed.insert(calls, token="x")
    _, rows = changed.query(f"SELECT model, cost_usd FROM {changed.database}.model_calls")
    assert {str(model): usd for model, usd in rows} == expected
    _, rows = changed.query(f"SELECT model, input_usd FROM {changed.database}.model_prices")
    assert {str(model): usd for model, usd in rows} == {**priced, "v1.5-lite-8b": 9.0}


def test_search_answers_the_same_with_an_index(changed: Store) -> None:
    changed.insert(run_of(1, days_ago=1), token="x")
    sql = f"SELECT count() FROM {changed.database}.search(words = 'you are')"
    before = changed.query(sql)[1]
    enable_search(changed)
    assert changed.query(sql)[1] == before
    assert before[0][0] > 0


@pytest.mark.proof
def test_a_backup_restores_into_an_empty_store(own: Store, store: Store, tmp_path: Path) -> None:
    spans = [span for number in range(5) for span in run_of(number, days_ago=3)]
    own.insert(spans, token="x")
    pin(own, spans[0].trace_id)
    rows = backup(own, tmp_path / "b1")
    assert rows["span_rows"] == len(spans)
    fresh = Store(store.engine, database=next(_names))
    fresh.migrate()
    restore(fresh, tmp_path / "b1")
    restore(fresh, tmp_path / "b1")
    for table in ("spans", "payloads", "runs", "pins"):
        columns = "trace_id" if table == "pins" else "*"
        sql = f"SELECT cityHash64(groupArray(toString(tuple({columns})))) FROM (SELECT * FROM {{}}.{table} ORDER BY ALL)"
        if table == "runs":
            sql = "SELECT groupArray((trace_id, spans, input_tokens, status)) FROM (SELECT * FROM {}.runs ORDER BY trace_id)"
        assert fresh.query(sql.format(fresh.database)) == own.query(sql.format(own.database)), table
    store.engine.command(f"DROP DATABASE {fresh.database}")
    with pytest.raises(PermanentStoreError, match="already exists"):
        backup(own, tmp_path / "b1")


def test_a_backup_of_an_earlier_version_may_lack_tables_that_came_later(own: Store, store: Store, tmp_path: Path) -> None:
    own.insert(run_of(1, days_ago=3), token="x")
    backup(own, tmp_path / "b")
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_text())
    del manifest["tables"]["policy_rows"]
    (tmp_path / "b" / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "b" / "policy_rows.native").unlink()
    fresh = Store(store.engine, database=next(_names))
    fresh.migrate()
    assert "policy_rows" not in restore(fresh, tmp_path / "b")
    assert traces(fresh) == traces(own)
    store.engine.command(f"DROP DATABASE {fresh.database}")


def test_a_damaged_backup_is_refused_before_the_first_row(own: Store, tmp_path: Path) -> None:
    own.insert(run_of(1, days_ago=3), token="x")
    backup(own, tmp_path / "b")
    path = tmp_path / "b" / "span_rows.native"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(PermanentStoreError, match="damaged"):
        restore(own, tmp_path / "b")
    manifest = tmp_path / "b" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 9}))
    with pytest.raises(PermanentStoreError, match="found format 9, this version reads 2"):
        restore(own, tmp_path / "b")


def test_a_store_that_stored_twice_shows_a_span_once(own: Store) -> None:
    """The tables forgive a store that forgot a token: rows come twice, the view and the check count spans."""
    spans, others = run_of(1, days_ago=0), run_of(2, days_ago=0)
    assert not own.holds(spans)
    own.insert(spans, "a")
    own.insert(spans, "b")
    assert own.holds(spans)
    assert not own.holds([*spans, *others])
    assert own.query(f"SELECT count() FROM {own.database}.spans")[1] == [[len(spans)]]


def test_a_span_that_comes_twice_in_one_batch_is_shown_once(own: Store) -> None:
    """Alone in its partition, in a part that no merge has seen: only FINAL removes the copy."""
    spans = run_of(1, days_ago=0)
    own.insert([*spans, *spans], "a")
    db = own.database
    _, rows = own.query(
        f"SELECT (SELECT count() FROM {db}.span_rows), (SELECT count() FROM {db}.spans), sum(spans) FROM {db}.runs"
    )
    assert rows == [[2 * len(spans), len(spans), len(spans)]]
    own.engine.command(f"OPTIMIZE TABLE {db}.span_rows FINAL")
    assert own.query(f"SELECT count() FROM {db}.span_rows")[1] == [[len(spans)]]
