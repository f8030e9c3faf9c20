"""`freezeframe status` over a collector that a supervisor started: `freezeframe up` never ran on that host."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from running_collector import CollectorProcess, span

from freezeframe_replay.cli import main


@pytest.mark.long
def test_a_supervised_collector_is_told_of_and_nothing_is_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its pid, ports and figures as with `freezeframe up`; no replay service is expected. When it is gone, that is said."""
    data = tmp_path / "data"
    collector = CollectorProcess(data)
    collector.post([span(1), span(2)])
    assert httpx.post(f"{collector.url}/v1/traces", content=b"\xff", headers={"content-type": "text/csv"}).status_code == 415
    assert main(["status", "--data", str(data)]) == 0
    shown = capsys.readouterr().out
    assert f"collector  runs, pid {collector.pid}\n" in shown
    assert "2 received" in shown
    assert "refused 1 requests that are not valid OTLP" in " ".join(shown.split())
    assert " bytes free" in shown
    assert main(["status", "--json", "--data", str(data)]) == 0
    services = json.loads(capsys.readouterr().out)["services"]
    assert services["collector"]["pid"] == collector.pid
    assert (services["replay"]["running"], services["replay"]["pid"]) == (False, None)
    assert collector.stop() == 0
    assert main(["status", "--data", str(data)]) == 1
    assert "collector  is not running" in capsys.readouterr().out
