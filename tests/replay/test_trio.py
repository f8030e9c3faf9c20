"""A program that trio runs, in place of asyncio: a replay runs it with trio, and its tasks have lanes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.run import readiness
from freezeframe_schemas.verdict import headline

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts programs
pytest.importorskip("trio")  # an environment that was set up before it was needed

AGENT = """
import freezeframe, trio
freezeframe.instrument()

@freezeframe.tool
async def track(order):
    await trio.sleep(0.01)
    return order

@freezeframe.run
async def answer(question):
    found = {}
    async def look(order):
        found[order] = await track(order)
        await track(order + "?")
    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(look, f"AC-{number}")
    return sorted(found), await track("the end")

if __name__ == "__main__":
    trio.run(answer, "where?")
"""


@pytest.mark.proof
@pytest.mark.parametrize("is_marked", [True, False])
def test_a_program_that_trio_runs_is_replayed_by_trio(is_marked: bool, tmp_path: Path) -> None:
    """Trio runs tasks that are ready in one of two orders, by chance."""
    source = AGENT if is_marked else AGENT.replace("@freezeframe.run\n", "")
    (tmp_path / "agent.py").write_text(source)
    environment = {**os.environ, "FREEZEFRAME_FILE": "spans.jsonl"}
    subprocess.run([sys.executable, "agent.py"], cwd=tmp_path, env=environment, check=True, timeout=400)
    run = load_run_of_file(tmp_path / "spans.jsonl")
    assert readiness(run).level >= 3, run.gaps
    assert headline(reenact(freeze(run), cwd=tmp_path)).startswith("identical: 17 of 17 steps and the outcome")
    (tmp_path / "agent.py").write_text(source.replace("order + ", "order[:4] + 'x' + "))
    assert headline(reenact(freeze(run), cwd=tmp_path)).startswith("REPLAY-101")
