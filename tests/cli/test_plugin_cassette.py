"""`--freezeframe=none|once|auto|live`: a test that records its own run, as users of VCR know it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Protocol

import pytest

pytestmark = pytest.mark.long  # each test runs pytest on a small project

CASE = """
import pathlib
import agent

def test_answer(freezeframe_cassette):
    assert "it is in" in freezeframe_cassette.play(agent.answer, "where is it?")
"""
TOUCH = ('return ["AC-1", "AC-2"]', 'open("touched", "a").write("x"); return ["AC-1", "AC-2"]')


class Project(Protocol):
    @property
    def root(self) -> Path: ...

    def edit(self, old: str, new: str) -> None: ...

    def pytest(self, *arguments: str) -> subprocess.CompletedProcess[str]: ...


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
