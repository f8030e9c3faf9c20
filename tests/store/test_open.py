"""Opening a store: what a DSN may say, and the message for a wrong one."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import pytest

from freezeframe_collector.facade import build_app
from freezeframe_collector.store import Store, embedded, open_store
from freezeframe_collector.store.embedded import EmbeddedEngine
from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas.errors import ConfigError, PermanentStoreError, RetryableStoreError
from freezeframe_schemas.span import SpanRecord


@pytest.mark.parametrize("dsn", ["chdb://relative/path", "chdb:///", "sqlite:///x", "nothing"])
def test_a_dsn_of_another_form_is_refused_with_the_right_one(dsn: str) -> None:
    with pytest.raises(ConfigError, match="expected chdb:///"):
        open_store(dsn)


@pytest.mark.parametrize("said", ["much", "1000", "-5"])
def test_a_bound_of_memory_that_is_none_is_refused(said: str) -> None:
    with pytest.raises(ConfigError, match="memory_bytes"):
        open_store(f"chdb:///nowhere?memory_bytes={said}")


@pytest.mark.proof
@pytest.mark.long
def test_the_engine_keeps_to_the_memory_that_the_dsn_gives_it(tmp_path: Path) -> None:
    """In a separate process: the engine takes its settings when it starts."""
    program = (
        "import sys\nfrom freezeframe_collector.store import open_store\nstore = open_store(sys.argv[1])\n"
        "query = \"SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'\"\n"
        "print(store.query(query)[1][0][0])\nstore.close()\n"
    )
    dsn = f"chdb://{tmp_path}?memory_bytes=3000000000"
    done = subprocess.run([sys.executable, "-c", program, dsn], capture_output=True, text=True, timeout=400, check=True)
    assert done.stdout.strip() == "3000000000"


@pytest.mark.long
def test_an_engine_costs_no_libraries_for_data_frames(tmp_path: Path) -> None:
    """chDB's package imports pyarrow, and that numpy, for what a collector never asks. Whoever wants them still gets them."""
    program = (
        "import sys\nfrom freezeframe_collector.store import open_store\nstore = open_store(sys.argv[1])\n"
        "print(store.query('SELECT 1')[1], {'numpy', 'pyarrow'} & set(sys.modules))\n"
        "import pyarrow\nprint(pyarrow.array([1]).to_pylist())\nstore.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, f"chdb://{tmp_path}"], capture_output=True, text=True, timeout=400, check=True
    )
    assert done.stdout.splitlines() == ["[[1]] set()", "[1]"]


@pytest.mark.proof
@pytest.mark.long
def test_a_directory_that_another_process_holds_is_named(store: Store) -> None:
    assert isinstance(store.engine, EmbeddedEngine)
    program = (
        "import sys\nfrom freezeframe_collector.store import open_store\n"
        "try:\n    open_store(sys.argv[1])\nexcept Exception as error:\n    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, f"chdb://{store.engine.directory}"],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.stdout.startswith("PermanentStoreError")
    assert "another process holds this data directory" in done.stdout


@pytest.mark.proof
@pytest.mark.long
def test_a_server_that_does_not_answer_may_answer_later() -> None:
    with pytest.raises(RetryableStoreError):
        open_store("clickhouse://127.0.0.1:1/freezeframe")
    with pytest.raises(RetryableStoreError, match="freezeframe up"):
        open_runs("http://127.0.0.1:1").list_runs()


@pytest.mark.long
def test_a_server_is_asked_over_http_and_its_refusal_is_permanent(facade_url: str) -> None:
    parts = urlsplit(facade_url)
    server = open_store(f"clickhouse://default@{parts.hostname}:{parts.port}/freezeframe")
    assert server.query("SELECT {a:String} AS a", {"a": "x"}) == (["a"], [["x"]])
    assert b"".join(server.engine.blocks("SELECT number FROM numbers(3)"))
    assert server.migrate() == []
    with pytest.raises(PermanentStoreError, match="READONLY"):
        server.engine.command("DROP TABLE span_rows")
    with pytest.raises(ConfigError, match="expected an embedded store"):
        build_app(server)
    server.close()


@pytest.mark.proof
@pytest.mark.long
def test_stats_tell_sizes_by_table(store: Store) -> None:
    stats = store.stats()
    assert {"span_rows", "piece_rows"} <= {table.table for table in stats.tables} | {"span_rows", "piece_rows"}
    assert stats.disk_bytes == sum(table.disk_bytes for table in stats.tables)


@pytest.mark.proof
@pytest.mark.long
def test_a_closed_store_says_so() -> None:
    program = (
        "import sys\nfrom freezeframe_collector.store import open_store\n"
        "store = open_store(sys.argv[1])\nstore.migrate()\nstore.close()\nstore.close()\n"
        "try:\n    store.query('SELECT 1')\nexcept Exception as error:\n    print(type(error).__name__, error)\n"
    )
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [sys.executable, "-c", program, f"chdb://{directory}"], capture_output=True, text=True, timeout=400, check=False
        )
    assert done.stdout == "PermanentStoreError the store is closed\n"


@pytest.mark.long
@pytest.mark.parametrize("damaged", ["metadata/freezeframe.sql", "store/*/*/span_rows.sql"])
def test_a_damaged_file_of_the_engine_is_not_blamed_on_another_process(damaged: str, tmp_path: Path) -> None:
    program = (
        "import sys\nfrom freezeframe_collector.store import open_store\n"
        "store = open_store(sys.argv[1])\nstore.migrate()\nstore.close()\n"
    )
    command = [sys.executable, "-c", program, f"chdb://{tmp_path}"]
    subprocess.run(command, timeout=400, check=True)
    [file] = (tmp_path / "clickhouse").glob(damaged)
    file.write_bytes(b"\0garbage" + file.read_bytes()[5:])
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 1
    assert "restore a backup" in done.stderr
    assert "another process" not in done.stderr


@pytest.mark.long
def test_an_insert_asks_once_for_errors_and_is_repeated_if_another_statement_failed_since(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    ask = embedded.count_errors

    def noted(handle: object) -> dict[str, int]:
        asked.append(handle)
        return ask(handle)

    monkeypatch.setattr(embedded, "count_errors", noted)

    def insert(number: int) -> int:
        """Store a span without texts; return how often the engine's errors were asked for."""
        span = SpanRecord(
            trace_id=f"{number:032x}", span_id=f"{number:016x}", name="s", start_time_unix_nano=1, end_time_unix_nano=2
        )
        before = len(asked)
        store.insert([span], f"of another statement {number}")
        assert store.holds([span])
        return len(asked) - before

    insert(0xE001)
    assert insert(0xE002) == 1
    elsewhere = cast("EmbeddedEngine", store.engine).open_handle()
    with pytest.raises(RuntimeError):
        elsewhere.query("SELECT no_such_column FROM system.one")
    elsewhere.close()
    assert insert(0xE003) == 3
    assert insert(0xE004) == 1
