"""A full disk under the log and the embedded engine, which reports inserts as done that it could not write.

Each test runs in a separate mount namespace, on a small file system; if that is not allowed, they are skipped.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

SUPPORT = Path(__file__).parents[1] / "support"
_ROOM = 8 << 20
"""Bytes that a test leaves free: enough for some inserts and too little for all."""


def run_on_small_disk(scenario: str, directory: Path) -> str:
    """Run a function of this file in a separate process over a file system of 64 MiB; return what it printed."""
    probe = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    mount = f"mount -t tmpfs -o size=64m none {directory} && exec {sys.executable} {__file__} {scenario} {directory}"
    found = subprocess.run(["unshare", "--mount", "sh", "-c", mount], capture_output=True, text=True, timeout=200, check=False)
    if "mount:" in found.stderr:
        pytest.skip("needs the right to mount a tmpfs")
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-3000:]
    return found.stdout


def test_an_insert_that_the_engine_could_not_write_is_an_error(tmp_path: Path) -> None:
    """chDB reports it as done; `Store.insert` does not. With room again the same token stores it, once."""
    assert run_on_small_disk("fill_the_store", tmp_path).split() == ["refused", "stored"]


@pytest.mark.proof("law acked spans survive a full disk")
def test_a_full_disk_loses_nothing_acked(tmp_path: Path) -> None:
    """Senders are asked to wait while neither log nor store can write; with room again all that was acked is in SQL."""
    assert run_on_small_disk("fill_the_collector", tmp_path).split() == ["refused", "stored"]


def _large(number: int, size: int = 20_000) -> str:
    """Return a text that does not compress."""
    return random.Random(number).randbytes(size // 2).hex()


def _fill(directory: Path, room_bytes: int) -> Path:
    """Leave so many bytes of the file system free."""
    import os

    filler = directory / "filler"
    found = os.statvfs(directory)
    filler.write_bytes(bytes(found.f_bavail * found.f_bsize - room_bytes))
    return filler


def fill_the_store(directory: Path) -> None:
    """Insert until the store refuses, make room, and insert the same again."""
    from running_collector import span

    from freezeframe_collector.store import open_store
    from freezeframe_schemas.errors import RetryableStoreError

    store = open_store(f"chdb://{directory}/store")
    store.migrate()
    filler = _fill(directory, _ROOM)
    number = 0
    while True:
        spans = [span(20 * number + index, _large(20 * number + index)) for index in range(20)]
        try:
            store.insert(spans, f"batch-{number}")
        except RetryableStoreError:
            break
        number += 1
    print("refused")
    filler.unlink()
    store.insert(spans, f"batch-{number}")
    counted = "SELECT count(), uniqExact(span_id) FROM freezeframe.span_rows"
    pieces = "SELECT uniqExact(hash) FROM freezeframe.piece_rows"
    expected = 20 * (number + 1)
    assert store.query(counted)[1] == [[expected, expected]]
    assert store.query(pieces)[1][0][0] >= expected
    store.close()
    print("stored")


def fill_the_collector(directory: Path) -> None:
    """Send until the collector has refused some requests, make room, and look for all that it acked."""
    import httpx
    from running_collector import CollectorProcess, span

    hurry = {"WAL__FLUSH_INTERVAL_S": "0.05", "STORE__RETRY_MAX_S": "0.5"}
    environment = {f"FREEZEFRAME_COLLECTOR__{name}": value for name, value in hurry.items()}
    collector = CollectorProcess(directory / "data", environment=environment, readers=True)
    try:
        filler = _fill(directory, _ROOM)
        acked: set[int] = set()
        refused = number = 0
        while refused < 5:
            numbers = range(number, number + 20)
            if collector.post([span(one, _large(one)) for one in numbers]).status_code == 200:
                acked.update(numbers)
            else:
                refused += 1
            number += 20
        answer = httpx.get(f"{collector.url}/readyz", headers=collector.reader, timeout=300)
        assert (answer.status_code, "the log's disk is full" in answer.text) == (503, True), answer.text
        assert "the log's disk is full" in collector.status()["not_ready_because"]
        print("refused")
        filler.unlink()
        collector.flush()
        assert httpx.get(f"{collector.url}/readyz", headers=collector.reader, timeout=300).status_code == 200
        stored = [int(name[5:]) for (name,) in collector.rows("SELECT name FROM freezeframe.spans")]
        assert sorted(stored) == sorted(acked), (len(stored), len(acked))
        pieces = "SELECT hash, any(length(body)) AS bytes FROM freezeframe.piece_rows GROUP BY hash"
        assert collector.rows(f"SELECT toUInt32(sum(bytes)) FROM ({pieces})") == [[20_000 * len(acked)]]
        audit = collector.status()["audit"]
        assert audit["missing"] == audit["in_log"] == audit["rejected"] == 0
        assert collector.stop() == 0
    finally:
        collector.process.kill()
    print("stored")


if __name__ == "__main__":
    sys.path.insert(0, str(SUPPORT))
    {"fill_the_store": fill_the_store, "fill_the_collector": fill_the_collector}[sys.argv[1]](Path(sys.argv[2]))
