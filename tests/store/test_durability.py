"""What the embedded store promises when things go wrong: a killed process, a damaged file, a second process, an odd end.

Each store has its own process, since one process opens one directory.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from administered_store import answer, ordered

pytestmark = pytest.mark.long

SUPPORT = Path(__file__).parents[1] / "support"
# acks each batch on stdout once `insert` has returned, when the collector would take its segment off the log
WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
import agent_loops
from freezeframe_collector.store import open_store
store = open_store(sys.argv[1])
store.migrate()
for number in range(int(sys.argv[3]), int(sys.argv[4])):
    spans = agent_loops.agent_run(number, turns=3)
    store.insert(spans, token=f"batch-{number}")
    print(number, spans[0].trace_id, len(spans), flush=True)
store.close()
"""
LOADER = """
import json, sys
from freezeframe_collector.store import open_store
from freezeframe_collector.store.rewriting import load_runs
from freezeframe_schemas.errors import FreezeframeError
store = open_store(sys.argv[1])
loaded = {}
for (run,) in store.query(f"SELECT DISTINCT trace_id FROM {store.database}.run_rows")[1]:
    try:
        loaded[run] = len(load_runs(store, [run]))
    except FreezeframeError:
        loaded[run] = 0
print(json.dumps(loaded))
store.close()
"""
# takes all texts of one run, and puts another text in the place of one of a second run
THIEF = """
import json, sys
from freezeframe_collector.store import open_store
store = open_store(sys.argv[1])
pieces = f"{store.database}.piece_rows"
_, rows = store.query(f"SELECT trace_id, count() FROM {pieces} GROUP BY trace_id ORDER BY trace_id")
(gone, texts), (changed, _), _ = rows
one = f"trace_id = '{changed}' AND hash = (SELECT min(hash) FROM {pieces} WHERE trace_id = '{changed}')"
store.engine.command(f"INSERT INTO {pieces} SELECT * REPLACE (concat(body, '!') AS body) FROM {pieces} WHERE {one}")
store.engine.command(
    f"ALTER TABLE {pieces} DELETE WHERE trace_id = '{gone}' OR ({one})"
    " SETTINGS mutations_sync = 2, allow_nondeterministic_mutations = 1"
)
print(json.dumps({gone: f"{texts}", changed: "1"}))
store.close()
"""


def told(script: str, directory: Path) -> Any:
    """Return what a script over the store prints, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", script, f"chdb://{directory}"], capture_output=True, timeout=400, check=True)
    return json.loads(done.stdout)


def start_writer(directory: Path, first: int, last: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, f"chdb://{directory}", str(SUPPORT), str(first), str(last)],
        stdout=subprocess.PIPE,
        text=True,
    )


def fill(directory: Path, runs: int) -> int:
    """Store some runs and return how many spans they have."""
    writer = start_writer(directory, 0, runs)
    output, _ = writer.communicate(timeout=400)
    assert writer.returncode == 0
    return sum(int(line.split()[2]) for line in output.splitlines())


def largest_part(directory: Path) -> Path:
    """Return the folder of the largest part that is in use: those that a merge has replaced stay for some minutes."""
    parts = [file.parent for file in (directory / "clickhouse" / "store").rglob("data.bin") if file.parent.name[:3] != "tmp"]

    def is_replaced(part: Path) -> bool:
        return any(other.parent == part.parent and _covers(other.name, part.name) for other in parts)

    return max((part for part in parts if not is_replaced(part)), key=lambda part: (part / "data.bin").stat().st_size)


def _covers(newer: str, older: str) -> bool:
    """Compare names of parts: ``PARTITION_FIRST_LAST_LEVEL``, blocks from first to last."""
    (partition, *new), (its, *old) = newer.rsplit("_", 3), older.rsplit("_", 3)
    (first, last, level), (its_first, its_last, its_level) = map(int, new), map(int, old)
    return partition == its and first <= its_first and its_last <= last and its_level < level


@pytest.mark.proof("law stored spans survive kill -9")
def test_what_an_insert_acked_survives_kill_9(tmp_path: Path) -> None:
    acked: dict[int, int] = {}
    for round_ in range(3):
        writer = start_writer(tmp_path, len(acked), 10_000)
        assert writer.stdout is not None
        for line in writer.stdout:
            number, _, spans = line.split()
            acked[int(number)] = int(spans)
            if len(acked) % 7 == 6:  # in the middle of the next insert
                break
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        stats = answer(tmp_path, "stats")
        # the batch that was in progress may be there too, whole or in part: it is sent again under the same token
        assert stats["spans"] >= sum(acked.values()), f"round {round_}"
    assert answer(tmp_path, "check") == {"damaged": []}


def test_a_damaged_file_is_found_and_named_with_the_runs_that_it_touches(tmp_path: Path) -> None:
    """All other runs can be read."""
    fill(tmp_path, 16)
    assert ordered(tmp_path, "optimize").returncode == 0  # one part, of several granules
    largest = largest_part(tmp_path) / "data.bin"
    raw = bytearray(largest.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    largest.write_bytes(raw)
    found = answer(tmp_path, "check")["damaged"]
    assert [one["part"] for one in found] == [largest.parent.name]
    assert "Checksum" in found[0]["fault"] or "checksum" in found[0]["fault"]
    loaded = told(LOADER, tmp_path)
    unreadable = {run for run, spans in loaded.items() if not spans}
    assert len(loaded) == 16
    assert 0 < len(unreadable) <= len(found[0]["runs"]) < 16
    assert unreadable <= {*found[0]["runs"]}


def test_a_text_that_is_gone_or_changed_is_found_with_its_run(tmp_path: Path) -> None:
    """The engine's checksums match: each row was written as it is."""
    fill(tmp_path, 3)
    taken = told(THIEF, tmp_path)
    found = answer(tmp_path, "check")["damaged"]
    assert {run: one["fault"].split()[0] for one in found for run in one["runs"]} == taken


def test_a_backup_heals_a_store_whose_damaged_part_was_taken_away(tmp_path: Path) -> None:
    """The way that docs/operate/store.md gives: restore a backup made before; rows that exist already count once."""
    directory, copy = tmp_path / "store", tmp_path / "backup"
    spans = fill(directory, 3)
    assert ordered(directory, "backup", directory=str(copy)).returncode == 0
    part = largest_part(directory)
    for file in part.iterdir():
        file.unlink()
    part.rmdir()
    assert ordered(directory, "restore", directory=str(copy)).returncode == 0
    assert answer(directory, "stats")["spans"] == spans
    assert answer(directory, "check") == {"damaged": []}


def test_a_second_process_is_told_who_has_the_store(tmp_path: Path) -> None:
    writer = start_writer(tmp_path, 0, 10_000)
    assert writer.stdout is not None
    writer.stdout.readline()
    refused = ordered(tmp_path, "stats")
    writer.kill()
    writer.wait()
    writer.stdout.close()
    assert refused.returncode == 1
    assert "another process holds this data directory" in json.loads(refused.stdout)["error"]
