"""Old days move to a slower disk by themselves. The two disks are two directories."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from running_collector import MODULE, CollectorProcess, span

from freezeframe_collector.settings.config_file import load_config
from freezeframe_collector.store import Store
from freezeframe_collector.store.tiers import COLD_TABLES, ColdTier, cold_directory, set_cold_tier
from freezeframe_schemas.errors import ConfigError, PermanentStoreError
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.tables.ddl import RECOMPRESSED

DAY_NS = 24 * 3600 * 10**9
PARTS = (
    "SELECT disk_name, max_time FROM system.parts WHERE database = 'freezeframe' AND active"
    " AND table IN ('span_rows', 'piece_rows')"
)
WHERE = f"SELECT disk_name, count() FROM ({PARTS}) GROUP BY disk_name ORDER BY disk_name"


def run_of(number: int, *, days_ago: int) -> SpanRecord:
    """Return a span with a large text, of a run some days ago."""
    start = time.time_ns() - days_ago * DAY_NS
    made = span(number, text=f"{number} and so on " * 100)
    return replace(made, trace_id=f"{number:032x}", start_time_unix_nano=start, end_time_unix_nano=start + 10**6)


def environment(cold: Path | None, days: int) -> dict[str, str]:
    named = {"FREEZEFRAME_COLLECTOR__STORE__COLD_VOLUME": str(cold)} if cold else {}
    return {**named, "FREEZEFRAME_COLLECTOR__STORE__COLD_AFTER_DAYS": str(days)}


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    """Return the directory of the slower disk."""
    return tmp_path / "slow disk" / "freezeframe & runs"


def disks(collector: CollectorProcess) -> dict[str, int]:
    return {disk: int(parts) for disk, parts in collector.rows(WHERE)}


def still_hot(collector: CollectorProcess) -> bool:
    """Return whether a part of the old day is on the disk of the new ones."""
    return bool(collector.rows(f"SELECT 1 FROM ({PARTS}) WHERE disk_name = 'default' AND max_time < now() - INTERVAL 10 DAY"))


@pytest.mark.long
def test_an_old_day_is_compressed_again_and_a_new_one_is_not(store: Store) -> None:
    made = Store(store.engine, database="of_old_days")
    made.migrate()
    made.insert([run_of(1, days_ago=4), run_of(2, days_ago=0)], token="old and new")
    for table in COLD_TABLES:
        made.engine.command(f"OPTIMIZE TABLE {made.database}.{table} FINAL")
        _, found = made.query(
            "SELECT default_compression_codec FROM system.parts WHERE active AND database = {db:String} AND table = {t:String}"
            " ORDER BY partition",
            {"db": made.database, "t": table},
        )
        assert [codec for [codec] in found] == ["ZSTD(9)", "ZSTD(3)"], table
    store.engine.command(f"DROP DATABASE {made.database}")


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_old_days_move_and_late_spans_of_theirs_go_there_at_once(tmp_path: Path, cold: Path) -> None:
    """Days from before the option too; the runs are read as before, and stay readable if the option is removed."""
    data = tmp_path / "data"
    collector = CollectorProcess(data)
    assert collector.post([run_of(1, days_ago=20), run_of(2, days_ago=0)]).status_code == 200
    collector.flush()
    assert collector.stop() == 0

    collector = CollectorProcess(data, environment=environment(cold, 3))
    while still_hot(collector):  # the engine moves in its own time, table by table; the test's time limit bounds it
        time.sleep(0.05)
    assert set(disks(collector)) == {"cold", "default"}  # readers call it `hot`
    assert collector.post([run_of(3, days_ago=10), run_of(4, days_ago=2)]).status_code == 200
    collector.flush()
    days = "SELECT disk_name, dateDiff('day', toDate(max_time), today()) AS age FROM system.parts WHERE active"
    found = collector.rows(f"{days} AND database = 'freezeframe' AND table = 'span_rows' ORDER BY age")
    assert [disk for disk, _ in found] == ["default", "default", "cold", "cold"]
    assert [int(age) > 3 for _, age in found] == [False, False, True, True]
    assert collector.stop() == 0

    again = CollectorProcess(data, readers=True)  # the option is gone, the days stay where they are
    assert again.post([run_of(5, days_ago=30)]).status_code == 200
    again.flush()
    texts = again.rows("SELECT uniqExact(trace_id), countIf(body LIKE '%and so on%') FROM freezeframe.contents")
    assert [int(value) for value in texts[0]] == [5, 5]
    [[disk]] = again.rows(
        "SELECT disk_name FROM system.parts WHERE database = 'freezeframe' AND active AND table = 'span_rows'"
        " ORDER BY max_time LIMIT 1"
    )
    assert disk == "hot", "nothing moves any more"
    assert again.stop() == 0


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_a_disk_that_is_not_there_is_no_store_without_its_days(tmp_path: Path, cold: Path) -> None:
    data = tmp_path / "data"
    collector = CollectorProcess(data, environment=environment(cold, 3))
    assert collector.post([run_of(1, days_ago=20)]).status_code == 200
    collector.flush()
    assert collector.stop() == 0

    away = tmp_path / "not mounted"
    cold.rename(away)
    cold.mkdir()  # what is left after a disk is unmounted
    assert "is its disk mounted?" in refusal(data)
    cold.rmdir()
    with pytest.raises(PermanentStoreError, match="is its disk mounted"):
        cold_directory(data / "store", "")
    with pytest.raises(ConfigError, match="runs are stored in"):
        cold_directory(data / "store", str(tmp_path / "another"))

    moved = CollectorProcess(data, environment=environment(away, 3))  # moved, and said so
    assert moved.rows("SELECT name FROM freezeframe.spans") == [["span-1"]]
    assert moved.stop() == 0
    told = subprocess.run(
        [sys.executable, "-m", "freezeframe_collector.store", f"chdb://{data / 'store'}"],
        input=json.dumps({"action": "stats"}), capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert json.loads(told.stdout)["disks"]["cold"] > 0


def refusal(data: Path) -> str:
    """Start a collector that cannot start; return what it says."""
    ended = subprocess.run(
        [sys.executable, *MODULE, "--data", str(data), "--grpc-port", "0", "--http-port", "0", "--clickhouse-port", "0"],
        capture_output=True, text=True, timeout=400, check=False,
        env={**os.environ, "FREEZEFRAME_COLLECTOR__REDACTION__POLICY": "off", **environment(None, 0)},
    )  # fmt: skip
    assert ended.returncode == 2
    return ended.stderr


class Server:
    """A server with one more storage policy, as far as statements go: they are kept, not run."""

    embedded = False

    def __init__(self, store: Store, policies: Mapping[str, Sequence[str]]) -> None:
        self.commands: list[str] = []
        self._store = store
        self._policies = {"default": ["default"], **policies}

    def command(self, sql: str) -> None:
        self._store.query(f"SELECT formatQuerySingleLine(unhex('{sql.encode().hex()}'))")  # parsed by the engine
        self.commands.append(sql)

    def rows(self, sql: str, parameters: Mapping[str, str | int] | None = None) -> tuple[list[str], list[Sequence[Any]]]:
        if "storage_policies" not in sql:
            return self._store.engine.rows(sql, parameters)
        if parameters is None:
            return [], [[name] for name in sorted(self._policies)]
        return [], [[volume] for volume in self._policies.get(str(parameters["p"]), [])]

    def blocks(self, sql: str) -> Generator[bytes]:
        raise NotImplementedError(sql)

    def insert(self, table: str, columns: Sequence[str], block: bytes, token: str) -> None:
        raise NotImplementedError(table)

    def close(self) -> None:
        return


TIER = ColdTier(after_days=3, volume="hot_cold/cold")


def set_on(server: Server, store: Store, tier: ColdTier = TIER) -> list[str]:
    set_cold_tier(server, store.database, {table: f"`t`.{table} ON CLUSTER 'main'" for table in COLD_TABLES}, tier)
    return server.commands


@pytest.mark.long
def test_a_server_is_told_policy_and_rule_once_a_table(store: Store) -> None:
    server = Server(store, {"hot_cold": ["default", "cold"]})
    assert set_on(server, store) == [
        statement
        for table in COLD_TABLES
        for statement in (
            f"ALTER TABLE `t`.{table} ON CLUSTER 'main' MODIFY SETTING storage_policy = 'hot_cold'",
            f"ALTER TABLE `t`.{table} ON CLUSTER 'main' MODIFY TTL toDate(run_hour) + toIntervalDay(4) TO VOLUME 'cold',"
            f" {RECOMPRESSED}",
        )
    ]
    assert set_on(Server(store, {}), store, ColdTier()) == [], "0 days leave a server as its operator has set it"


@pytest.mark.long
@pytest.mark.parametrize(
    ("policies", "said"),
    [
        ({}, r"no storage policy 'hot_cold', found default\n.*POLICY/VOLUME"),
        ({"hot_cold": ["default", "frozen"]}, r"policy 'hot_cold' has no volume 'cold', found default, frozen"),
        (
            {"hot_cold": ["hot", "cold"]},
            r"policy 'hot_cold' has no volume 'default', found hot, cold\n.*holds the tables now",
        ),
    ],
)
def test_a_policy_or_volume_that_a_server_lacks_is_refused_by_name(
    store: Store, policies: dict[str, list[str]], said: str
) -> None:
    server = Server(store, policies)
    with pytest.raises(ConfigError, match=said):
        set_on(server, store)
    assert server.commands == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"store.cold_after_days": 3}, "requires store.cold_volume"),
        ({"store.cold_volume": "slow"}, "expected an absolute path"),
        ({"store.cold_volume": "cold", "store.dsn": "clickhouse://u:p@h/d"}, "expected POLICY/VOLUME"),
    ],
)
def test_an_option_that_names_no_place_is_refused_at_the_start(values: dict[str, str | int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config(None, {}, values)
