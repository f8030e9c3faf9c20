"""A part of the embedded store that cannot be read is named, and the collector is not ready."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from running_collector import CollectorProcess, span

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # a collector is started twice


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


@contextmanager
def _ended(collector: CollectorProcess) -> Generator[None]:
    try:
        yield
    finally:
        if collector.process.poll() is None:
            os.kill(collector.pid, signal.SIGKILL)
            collector.process.wait()


def test_a_part_that_does_not_read_makes_the_collector_not_ready(tmp_path: Path) -> None:
    """One with a changed byte of its data, and one that the engine set aside at its start: body, status and metrics name both.

    Spans are still taken and stored.
    """
    data = tmp_path / "data"
    collector = CollectorProcess(data)
    with _ended(collector):
        assert collector.post([span(number, text="x" * 200) for number in range(50)]).status_code == 200
        collector.flush()
        parts = dict(
            collector.rows(
                "SELECT table, any(path) FROM system.parts WHERE database = 'freezeframe' AND active"
                " AND table IN ('span_rows', 'run_rows') GROUP BY table"
            )
        )
        collector.kill()
    _flip(Path(parts["span_rows"]) / "data.bin")
    (Path(parts["run_rows"]) / "columns.txt").write_bytes(b"")

    again = CollectorProcess(data)
    with _ended(again):
        while len(broken := again.status()["store"]["broken_parts"]) < 2:  # the test's own time limit bounds it
            time.sleep(0.1)
        answer = httpx.get(f"{again.url}/readyz", headers=again.reader, timeout=400)
        assert answer.status_code == 503
        assert any(f"{Path(parts['span_rows']).name} of span_rows cannot be read: Checksum mismatch" in said for said in broken)
        assert any("of run_rows cannot be read: the engine set it aside" in said for said in broken)
        assert answer.text.strip() == again.status()["not_ready_because"] == f"{broken[0]}, and 1 more"
        assert (
            "freezeframe_collector_store_broken_parts 2\n"
            in httpx.get(f"{again.url}/metrics", headers=again.reader, timeout=400).text
        )
        assert again.post([span(1000)]).status_code == 200
        again.flush()
        assert again.stop() == 0
