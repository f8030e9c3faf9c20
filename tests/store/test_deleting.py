"""What is deleted is gone: from every table, from the index, from the next backup, and no earlier one brings it back."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import agent_loops
import pytest
from administered_store import stopping_after

import freezeframe_collector.store.deleting as deleting
from freezeframe_collector.readers.guard import SETTINGS
from freezeframe_collector.store import Rejected, Store
from freezeframe_collector.store.administration import administer
from freezeframe_collector.store.retention import Retention, enable_search, expire, label, pin, unpin
from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord

pytestmark = pytest.mark.long  # each test fills a store of its own

USER, TENANT = "anna#3f", "gone"
OTHER_TABLES = ("rejected_rows", "pins", "labels", "unsettled_rows")
SECRET = "xylophonequartz"
"""A word that only the run to be deleted has."""


@pytest.fixture
def own(emptied: Callable[[str], Store]) -> Store:
    """A database with the full-text index, and two runs: one that is to go, and one that stays."""
    return filled(emptied("deleting"))


@pytest.fixture
def changed(store: Store) -> Iterator[Store]:
    """The same, and the test may change its tables."""
    made = Store(store.engine, database="changed_and_deleted")
    made.migrate()
    yield filled(made)
    store.engine.command(f"DROP DATABASE {made.database}")


def filled(made: Store) -> Store:
    """Put the index and the two runs into a database."""
    enable_search(made)
    made.insert(run_of(1, USER, TENANT), token="goes")
    made.insert(run_of(2, "bob#77", "stays"), token="stays")
    for number, tenant in ((1, TENANT), (2, "stays")):
        pin(made, trace_of(number), note=f"ticket {number}")
        label(made, trace_of(number), {"span_id": "", "label": "bad", "note": f"note {number}", "author": "ann"})
        made.engine.command(
            f"INSERT INTO {made.database}.unsettled_rows (tenant, trace_id) VALUES ('{tenant}', '{trace_of(number)}')"
        )
    made.insert_rejected([rejected(1, TENANT), rejected(2, "stays")], token="rejected")
    return made


def run_of(number: int, user: str, tenant: str) -> list[SpanRecord]:
    spans = agent_loops.agent_run(number, turns=2)
    spans.append(replace(spans[-1], span_id="e" * 16, attributes={genai.OPERATION_NAME: genai.OP_CHAT}))
    named = {genai.TENANT: tenant, genai.USER_ID: user, genai.REDACTION_POLICY: f"{tenant}@0123456789ab"}
    said = {genai.TOOL_CALL_RESULT: f"{SECRET} {'and so on ' * 80}"} if number == 1 else {}
    return [
        replace(
            span,
            trace_id=trace_of(number),
            start_time_unix_nano=span.start_time_unix_nano - 365 * agent_loops.DAY_NS,
            end_time_unix_nano=span.end_time_unix_nano - 365 * agent_loops.DAY_NS,
            # the user is known on the entry point's span alone
        ).with_attributes({**named, genai.USER_ID: ""} if span.parent_span_id else {**named, **said})
        for span in spans
    ]


def trace_of(number: int) -> str:
    return f"{number:032x}"


def rejected(number: int, tenant: str) -> Rejected:
    return Rejected(
        trace_id=trace_of(number),
        span_id="1" * 16,
        name="chat",
        reason="limit",
        detail="",
        time_unix_nano=10**18,
        tenant=tenant,
    )


def rows_of(store: Store) -> dict[str, list[int]]:
    """Return for each table how many rows it has of the run that goes, and of the one that stays."""
    found: dict[str, list[int]] = {}
    for table in deleting.RUN_TABLES + OTHER_TABLES:
        counts = [f"countIf(trace_id = '{trace_of(number)}')" for number in (1, 2)]
        found[table] = [int(n) for n in store.query(f"SELECT {', '.join(counts)} FROM {store.database}.{table}")[1][0]]
    counts = [f"countIf(tenant = '{tenant}')" for tenant in (TENANT, "stays")]
    found["policy_rows"] = [int(n) for n in store.query(f"SELECT {', '.join(counts)} FROM {store.database}.policy_rows")[1][0]]
    return found


def found_by_words(store: Store) -> int:
    return len(store.query(f"SELECT trace_id FROM {store.database}.search(words = '{SECRET}')")[1])


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("run", trace_of(1)),
        pytest.param("user", USER, marks=pytest.mark.proof("law what is deleted is gone")),
        ("tenant", TENANT),
    ],
)
def test_what_is_deleted_is_gone_from_every_table_and_from_the_index_and_the_rest_is_not(
    own: Store, subject: str, name: str
) -> None:
    before = rows_of(own)
    assert all(goes and stays for goes, stays in before.values())
    assert found_by_words(own) == 1
    spans = before["span_rows"][0]
    answer = administer(own, {"action": "delete", subject: name, "note": "asked for"})
    assert answer == {"runs": 1, "spans": spans, "left": 0}
    after = rows_of(own)
    if subject != "tenant":  # other runs of the tenant may have gone through the policy
        assert after.pop("policy_rows") == before.pop("policy_rows")
    assert after == {table: [0, stays] for table, (_, stays) in before.items()}
    assert found_by_words(own) == 0
    _, audit = own.query(f"SELECT action, subject, rows, note FROM {own.database}.audit WHERE action LIKE 'delete%'")
    assert audit == [[f"delete_{subject}", name, spans, "asked for"]]


@pytest.mark.parametrize("subject", [pytest.param("run", marks=pytest.mark.proof), "day"])
def test_no_file_has_it_once_the_engine_has_removed_what_was_replaced(changed: Store, subject: str) -> None:
    """With a shorter time for both, and texts that are not compressed, so that they can be looked for in the files."""
    soon = "old_parts_lifetime = 1, cleanup_delay_period = 1, max_cleanup_delay_period = 1, cleanup_delay_period_random_add = 0"
    for table in deleting.RUN_TABLES:
        _, rows = changed.query(
            "SELECT name FROM system.columns WHERE database = {db:String} AND table = {table:String}"
            " AND default_kind != 'ALIAS' AND position(type, 'String') > 0",
            {"db": changed.database, "table": table},
        )
        name = f"{changed.database}.{table}"
        changed.engine.command(f"ALTER TABLE {name} {', '.join(f'MODIFY COLUMN `{column}` CODEC(NONE)' for (column,) in rows)}")
        changed.engine.command(f"ALTER TABLE {name} MODIFY SETTING {soon}")
        changed.engine.command(f"DETACH TABLE {name}")  # what removes files looks at its settings as it starts
        changed.engine.command(f"ATTACH TABLE {name}")
    changed.insert(
        [replace(span, span_id=f"{number:016x}") for number, span in enumerate(run_of(1, USER, TENANT))], token="again"
    )
    assert holding(changed)
    if subject == "day":
        unpin(changed, trace_of(1))
        (started,) = {span.start_time_unix_nano // agent_loops.DAY_NS for span in run_of(1, USER, TENANT)}
        expire(changed, Retention(days=1), today=dt.date(1970, 1, 1) + dt.timedelta(days=started + 3))
    else:
        deleting.delete(changed, subject, trace_of(1))
    assert found_by_words(changed) == 0
    given_up_at = time.monotonic() + 120
    while holding(changed) and time.monotonic() < given_up_at:
        time.sleep(0.1)
    assert holding(changed) == []


def holding(store: Store) -> list[Path]:
    """Return the files of the tables of runs that have the word or the user."""
    named = f"database = '{store.database}' AND name IN {deleting.RUN_TABLES}"
    _, rows = store.query(f"SELECT arrayJoin(data_paths) FROM system.tables WHERE {named}")
    found: list[Path] = []
    for file in (Path(at, name) for (folder,) in rows for at, _, names in os.walk(folder) for name in names):
        with suppress(FileNotFoundError):  # removed meanwhile
            found += [file] if any(text.encode() in file.read_bytes() for text in (SECRET, USER)) else []
    return found


def test_what_was_deleted_may_come_again_whole(own: Store) -> None:
    pieces = rows_of(own)["piece_rows"][0]
    deleting.delete(own, "run", trace_of(1))
    own.insert(run_of(1, USER, TENANT), token="again")
    assert rows_of(own)["piece_rows"][0] == pieces


@pytest.mark.parametrize("subject", [{"user": USER}, {"runs": [trace_of(1)]}], ids=["user", "person"])
def test_the_next_backup_does_not_have_it_and_an_earlier_one_does_not_bring_it_back(
    own: Store, tmp_path: Path, subject: dict[str, object]
) -> None:
    administer(own, {"action": "backup", "directory": str(tmp_path / "before")})
    administer(own, {"action": "delete", **subject})
    after = administer(own, {"action": "backup", "directory": str(tmp_path / "after")})
    assert after["rows"]["span_rows"] == rows_of(own)["span_rows"][1]
    stays = {table: stays for table, (_, stays) in rows_of(own).items()}
    restored = administer(own, {"action": "restore", "directory": str(tmp_path / "before")})
    assert restored["deleted_again"] == 1
    after_all = rows_of(own)
    assert [goes for table, (goes, _) in after_all.items() if table != "policy_rows"] == [0] * 8
    assert all(now >= stays[table] for table, (_, now) in after_all.items())
    assert found_by_words(own) == 0
    administer(own, {"action": "restore", "directory": str(tmp_path / "before"), "with_deleted": True})
    assert found_by_words(own) == 1


def test_a_run_that_was_deleted_by_itself_comes_back_from_a_backup(own: Store, tmp_path: Path) -> None:
    """However often: the engine does not take its rows for ones that it already has."""
    spans = own.query(f"SELECT * FROM {own.database}.spans ORDER BY trace_id, span_id")
    administer(own, {"action": "backup", "directory": str(tmp_path / "before")})
    for _ in range(2):
        administer(own, {"action": "delete", "run": trace_of(1)})
        assert administer(own, {"action": "restore", "directory": str(tmp_path / "before")})["deleted_again"] == 0
        assert own.query(f"SELECT * FROM {own.database}.spans ORDER BY trace_id, span_id") == spans
        assert found_by_words(own) == 1


@pytest.mark.parametrize(
    "subject", [pytest.param({"user": USER}, marks=pytest.mark.proof), {"runs": [trace_of(1)]}], ids=["user", "person"]
)
def test_a_deletion_that_stopped_midway_is_repeated(
    own: Store, monkeypatch: pytest.MonkeyPatch, subject: dict[str, object]
) -> None:
    """Whatever it had done: which runs are meant is known until the last of them has gone."""
    run = own.engine.command
    for left in range(5):
        monkeypatch.setattr(own.engine, "command", stopping_after(left, run))
        with pytest.raises(InterruptedError):
            administer(own, {"action": "delete", **subject})
        monkeypatch.setattr(own.engine, "command", run)
    administer(own, {"action": "delete", **subject})
    after = rows_of(own)
    assert [goes for table, (goes, _) in after.items() if table != "policy_rows"] == [0] * 8


def test_a_user_with_more_runs_than_a_statement_can_name_is_deleted(own: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "_RUNS_PER_STATEMENT", 2)
    for number in range(3, 8):
        own.insert([replace(span, trace_id=trace_of(number)) for span in run_of(2, USER, "many")], token=f"{number}")
    assert deleting.delete(own, "user", USER).runs == 6
    assert deleting.count(own, "user", USER) == deleting.Deleted(runs=0, spans=0)
    assert rows_of(own)["span_rows"][1] > 0


def test_replaced_files_outlive_the_longest_statement(own: Store) -> None:
    """A reader goes on reading the files that it began with, and chDB's own default is to remove them within half a minute."""
    _, rows = own.query(
        "SELECT name, toUInt32OrZero(extract(engine_full, 'old_parts_lifetime = (\\\\d+)')) FROM system.tables"
        " WHERE database = {db:String} AND name IN ('span_rows', 'piece_rows', 'run_rows', 'call_rows')",
        {"db": own.database},
    )
    longest_s = SETTINGS["max_execution_time"]
    assert longest_s is not None
    assert len(rows) == 4 and all(kept_s > longest_s for _, kept_s in rows)
