"""A real LlamaIndex workflow, replayed from after a step. Needs llama-index-workflows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.operations.replay import begin_at
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.fixture import Fixture

pytest.importorskip("workflows")
pytestmark = pytest.mark.long  # each test starts the program again

AGENT = """
import asyncio, pathlib
from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent
import freezeframe

freezeframe.instrument(framework_state=True)


class Planned(Event):
    order: str


class Tracked(Event):
    place: str


def mark(name):
    with pathlib.Path("ran").open("a") as file:
        file.write(name + " ")


@freezeframe.tool
def look(name):
    return name.upper()


class Flow(Workflow):
    @step
    async def plan(self, ctx: Context, ev: StartEvent) -> Planned:
        mark("plan")
        await ctx.store.set("asked", ev.question)
        return Planned(order=look("ac-1"))

    @step
    async def track(self, ev: Planned) -> Tracked:
        mark("track")
        return Tracked(place=look(ev.order + " in lyon"))

    @step
    async def write(self, ctx: Context, ev: Tracked) -> StopEvent:
        mark("write")
        return StopEvent(result=f"{await ctx.store.get('asked')} {look(ev.place + '!')}")


@freezeframe.run
async def answer(question):
    return await Flow(timeout=400).run(question=question)


if __name__ == "__main__":
    print(asyncio.run(answer("where?")))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workflow")
    (folder / "agent.py").write_text(AGENT)
    return folder


@pytest.fixture(scope="module")
def recorded(folder: Path) -> Fixture:
    """A run of three steps, recorded for real."""
    spans = folder / "spans.jsonl"
    environment = {**os.environ, "FREEZEFRAME_FILE": str(spans)}
    done = subprocess.run(
        [sys.executable, "agent.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "where? AC-1 IN LYON!\n"
    (folder / "ran").unlink()
    return freeze(load_run_of_file(spans))


def test_the_state_after_each_step_is_recorded(recorded: Fixture) -> None:
    assert [state.after for state in recorded.states] == [(), ("plan",), ("track",)]
    assert {state.name.rpartition(".")[2] for state in recorded.states} == {"Flow"}


@pytest.mark.proof("seam frameworks.llama_workflows")
@pytest.mark.parametrize(("begin", "steps"), [(2, "track write "), (3, "write ")])
def test_a_replay_from_the_middle_runs_the_later_steps_only_and_ends_as_recorded(
    recorded: Fixture, folder: Path, begin: int, steps: str
) -> None:
    (folder / "ran").write_text("")
    report = reenact(begin_at(recorded, begin), cwd=folder, policy=ReplayPolicy(allow_paths=("ran",)))
    assert (folder / "ran").read_text() == steps
    assert report.divergences == ()
    assert report.outcome == recorded.entry.output
