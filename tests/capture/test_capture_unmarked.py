"""The audit hook does not change the program: it never raises, hears nothing after capture, and reports no acts of tools."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import freezeframe
from freezeframe.context.sights import MAX_SIGHTS
from freezeframe.seams.unmarked import sights
from freezeframe.testing import capture
from freezeframe_schemas.gaps import Gap, GapKind
from freezeframe_schemas.run import build_run


@freezeframe.run
def agent(act: str, folder: str) -> Any:
    """Do what is asked, in unmarked code."""
    return ACTS[act](Path(folder))


@freezeframe.tool
def marked(folder: str) -> str:
    thread = threading.Thread(target=lambda: Path(folder, "data").read_text())
    thread.start()
    thread.join()
    sqlite3.connect(Path(folder, "marked.db")).close()
    return Path(folder, "data").read_text()


@freezeframe.retriever
async def found(folder: str) -> list[str]:
    return [await asyncio.to_thread(Path(folder, "data").read_text)]


def log(folder: Path) -> None:
    handler = logging.FileHandler(folder / "agent.log", delay=True)
    handler.emit(logging.LogRecord("agent", logging.INFO, __file__, 1, "asked", None, None))
    handler.close()


def many(folder: Path) -> None:
    for number in range(MAX_SIGHTS + 5):
        (folder / str(number)).write_text("x")


ACTS: dict[str, Callable[[Path], Any]] = {
    "marked tool": lambda folder: marked(str(folder)),
    "marked retriever": lambda folder: asyncio.run(found(str(folder))),
    "log": log,
    "read": lambda folder: (folder / "data").read_text(),
    "read of what is not there": lambda folder: (folder / "nothing").exists() or _absent(folder / "nothing"),
    "twice": lambda folder: [(folder / "data").read_text() for _ in range(3)],
    "own file": lambda folder: ((folder / "own").write_text("x"), (folder / "own").read_text()),
    "many": many,
    "odd paths": lambda folder: [_try(open, path) for path in (b"data", "", "\ud800", "a\0b", 99_999, str(folder))],
    "odd programs": lambda folder: [_try(subprocess.run, given) for given in ([], "", [b"\xff"], [str(folder)])],
}


def _absent(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return "absent"


def _try(call: Any, given: Any) -> str:
    try:
        result = call(given)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if hasattr(result, "close"):
        result.close()
    return "done"


def heard(act: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Gap]:
    monkeypatch.chdir(folder)
    (folder / "data").write_text("1")
    with capture() as captured:
        agent(act, str(folder))
        return list(build_run(captured.spans).gaps)


@pytest.mark.parametrize("act", ["marked tool", "marked retriever", "log", "read of what is not there"])
def test_what_a_replay_does_not_do_or_does_the_same_is_no_gap(
    act: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert heard(act, tmp_path, monkeypatch) == []


@pytest.mark.parametrize("act", ["read", "twice"])
def test_a_file_is_told_once(act: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (gap,) = heard(act, tmp_path, monkeypatch)
    assert gap.kind is GapKind.FILE_READ
    assert "reads data," in gap.text
    assert "test_capture_unmarked.py:" in gap.text


def test_a_file_that_the_run_made_is_no_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [gap.kind for gap in heard("own file", tmp_path, monkeypatch)] == [GapKind.FILE_WRITTEN]


def test_of_many_things_that_there_were_more_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = heard("many", tmp_path, monkeypatch)
    assert len(gaps) == MAX_SIGHTS + 1
    assert gaps[-1].kind is GapKind.UNSEEN


@pytest.mark.parametrize("act", ["odd paths", "odd programs"])
def test_what_the_program_gets_is_the_same_as_without_us(act: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plain = ACTS[act](tmp_path)
    with capture() as captured:
        assert agent(act, str(tmp_path)) == plain
        assert captured.spans


def test_a_fault_of_ours_does_not_reach_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.delenv("FREEZEFRAME_RAISE", raising=False)
    monkeypatch.setattr(sights, "_act", broken)
    assert heard("read", tmp_path, monkeypatch) == []


def test_after_capture_nothing_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def look(event: str, arguments: tuple[object, ...]) -> None:
        del arguments
        looked.append(event)

    heard("read", tmp_path, monkeypatch)
    monkeypatch.setattr(sights, "_note", look)
    (tmp_path / "data").read_text()
    agent("read", str(tmp_path))
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert looked == []
