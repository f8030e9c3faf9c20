"""A replayed GET: `step` shows where it goes, and no report begins with the program's own `instrument()`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from capture_provider import Provider

from freezeframe_replay.cli import main

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # starts the program again

AGENT = """
import os
import freezeframe, httpx
freezeframe.instrument(service_name="shop", record_hosts=["127.0.0.1"])

@freezeframe.run
def answer(order):
    return httpx.get(os.environ["SHOP"] + "/orders", params={"id": order}).status_code

if __name__ == "__main__":
    answer("AC-1")
"""


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    monkeypatch.chdir(tmp_path)
    with Provider() as shop:
        monkeypatch.setenv("SHOP", shop.url)
        environment = {**os.environ, "FREEZEFRAME_FILE": "spans.jsonl"}
        subprocess.run([sys.executable, "agent.py"], env=environment, check=True, timeout=400, capture_output=True)
    return tmp_path


@pytest.mark.usefixtures("recorded")
def test_step_before_a_get_shows_where_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["step", "spans.jsonl", "--until", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    asked = lines.index("about to ask")
    assert lines[asked + 1].startswith(f"  GET {os.environ['SHOP']}/orders?id=AC-1")
    assert lines[asked + 2] == "  (no body)"
    assert "recorded: the same" in lines


def test_a_report_does_not_begin_with_what_the_program_sets_up(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The replay has called `instrument()` before the program does; that is not news to anyone."""
    (recorded / "agent.py").write_text(AGENT.replace("@freezeframe.run", "import not_there\n\n@freezeframe.run"))
    assert main(["replay", "spans.jsonl"]) == 125
    said = capsys.readouterr()
    assert "not_there" in said.out
    assert "called before" not in said.out + said.err
