"""`--freezeframe=none|once|auto|live`: a test that records its own run, as with VCR."""

from __future__ import annotations

import re

import pytest
from agent_folder import Project

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test runs pytest on a small project

CASE = """
import pathlib
import agent

def test_answer(freezeframe_cassette):
    assert "it is in" in freezeframe_cassette.play(agent.answer, "where is it?")
"""
TOUCH = ('return ["AC-1", "AC-2"]', 'open("touched", "a").write("x"); return ["AC-1", "AC-2"]')


@pytest.mark.proof
def test_recorded_once_then_played_without_running_a_tool(project: Project) -> None:
    (project.root / "test_it.py").write_text(CASE)
    project.edit(*TOUCH)
    touched = project.root / "touched"
    missing = project.pytest()
    assert "nothing recorded yet" in missing.stdout
    assert not touched.exists()
    for _ in range(2):
        done = project.pytest("--freezeframe=once")
        assert done.returncode == 0, done.stdout
        assert touched.read_text() == "x"
    assert (project.root / "cassettes/test_it/test_answer/manifest.json").exists()
    assert project.pytest().returncode == 0
    live = project.pytest("--freezeframe=live")
    assert live.returncode == 0, live.stdout
    assert touched.read_text() == "xx"


def test_what_asks_something_new_fails_until_it_is_recorded_anew(project: Project) -> None:
    (project.root / "test_it.py").write_text(CASE)
    assert project.pytest("--freezeframe=once").returncode == 0
    project.edit("orders[0]", "orders[1]")
    failed = project.pytest("--freezeframe=once")
    assert failed.returncode == 1
    assert "REPLAY-101 diverged at step 2 (tool track, lane root)" in failed.stdout
    for mode in ("auto", "none"):
        done = project.pytest(f"--freezeframe={mode}")
        assert done.returncode == 0, done.stdout


ASYNC_CASE = """
import asyncio, agent, pytest

@agent.freezeframe.tool
async def look(name):
    open("touched", "a").write("x")
    return f"{name} is in Lyon"

async def ask(name):
    async with asyncio.TaskGroup() as group:
        return await group.create_task(look(name))

def test_in_a_loop_of_its_own(freezeframe_cassette):
    async def main():
        return await freezeframe_cassette.play(ask, "Maria Keller <maria.keller@example.org>")
    asyncio.run(main())

@pytest.mark.freezeframe(redact="strict")
def test_redacted(freezeframe_cassette):
    assert "is in Lyon" in freezeframe_cassette.play(ask, "Maria Keller <maria.keller@example.org>")
"""


def test_a_cassette_is_played_inside_of_a_running_loop_and_may_be_redacted(project: Project) -> None:
    (project.root / "test_it.py").write_text(ASYNC_CASE)
    assert project.pytest("--freezeframe=once").returncode == 0
    done = project.pytest()
    assert done.returncode == 0, done.stdout
    assert (project.root / "touched").read_text() == "xx"
    cassettes = project.root / "cassettes" / "test_it"
    held = {path.name: (path / "steps.json").read_text() for path in cassettes.iterdir()}
    assert "maria.keller" in held["test_in_a_loop_of_its_own"]
    assert "maria.keller" not in held["test_redacted"]
    (project.root / "test_it.py").write_text(ASYNC_CASE.replace("look(name))", "look(name + '!'))"))
    changed = project.pytest()
    assert changed.returncode == 1
    assert changed.stdout.count("REPLAY-101 diverged at step 1 (tool look, task 1)") >= 2


NAMED = """
import re

import pytest
import freezeframe

NAMES = ["a/b", "a:b", "a-b", "A-B", "a*b?", "a b", "a.", "a\\\\b", "é", "e\\u0301", "..", "x" * 300, ""]

@freezeframe.tool
def look(x):
    return x

def agent(x):
    return look(x)

@pytest.mark.parametrize("name", NAMES)
def test_p(freezeframe_cassette, name):
    assert freezeframe_cassette.play(agent, name) == name

class TestA:
    def test_same(self, freezeframe_cassette):
        assert freezeframe_cassette.play(agent, "A") == "A"

class TestB:
    class TestA:
        def test_same(self, freezeframe_cassette):
            assert freezeframe_cassette.play(agent, "B.A") == "B.A"

    def test_same(self, freezeframe_cassette):
        assert freezeframe_cassette.play(agent, "B") == "B"
"""


def test_each_test_has_a_cassette_of_its_own_on_every_file_system(project: Project) -> None:
    (project.root / "test_it.py").write_text(NAMED)
    assert project.pytest("--freezeframe=once").returncode == 0
    done = project.pytest()
    assert done.returncode == 0, done.stdout
    names = [path.name for path in (project.root / "cassettes" / "test_it").iterdir()]
    assert len({name.lower() for name in names}) == 16
    assert [name for name in names if len(name) > 120 or not re.fullmatch(r"[\w.-]*[\w-]", name, re.ASCII)] == []
    assert "test_p-a-b-" in names  # as before where nothing has to tell it apart
