"""What watches unmarked code does not change the program: it never raises, sees nothing after capture, nor acts of tools."""

from __future__ import annotations

import asyncio
import builtins
import bz2
import gzip
import inspect
import io
import logging
import os
import pickle
import shutil
import socket
import sqlite3
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import freezeframe
from freezeframe.context.accesses import MAX_ACCESSES
from freezeframe.seams.unmarked import accesses
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
    for number in range(MAX_ACCESSES + 5):
        (folder / str(number)).write_text("x")


ACTS: dict[str, Callable[[Path], Any]] = {
    "marked tool": lambda folder: marked(str(folder)),
    "marked retriever": lambda folder: asyncio.run(found(str(folder))),
    "log": log,
    "read": lambda folder: (folder / "data").read_text(),
    "read of what is not there": lambda folder: (folder / "nothing").exists() or _absent(folder / "nothing"),
    "making a folder that exists": lambda folder: (folder / "kept").mkdir(exist_ok=True),
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
    (folder / "kept").mkdir(exist_ok=True)
    with capture() as captured:
        agent(act, str(folder))
        return list(build_run(captured.spans).gaps)


@pytest.mark.parametrize(
    "act", ["marked tool", "marked retriever", "log", "read of what is not there", "making a folder that exists"]
)
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
    assert len(gaps) == MAX_ACCESSES + 1
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
    monkeypatch.setattr(accesses, "_act", broken)
    assert heard("read", tmp_path, monkeypatch) == []


def test_after_capture_nothing_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def look(event: str, arguments: tuple[object, ...], frame: object) -> None:
        del arguments, frame
        looked.append(event)

    heard("read", tmp_path, monkeypatch)
    monkeypatch.setattr(accesses, "_note", look)
    (tmp_path / "data").read_text()
    agent("read", str(tmp_path))
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert looked == []


# -- the functions that are replaced while a run is open ------------------------------------------------------------------

imported_by_name, renamed_in_program = os.listdir, io.open
REPLACED = [
    (builtins, "open"),
    (io, "open"),
    (os, "open"),
    (os, "listdir"),
    (os, "remove"),
    (os, "system"),
    (tarfile, "bltn_open"),
]


def _connects(method: str) -> Callable[[Path], Any]:
    def connect(_: Path) -> Any:
        with socket.socket() as one, socket.create_server(("127.0.0.1", 0)) as server:
            getattr(one, method)(server.getsockname())

    return connect


def _bz2_read(path: Path) -> bytes:
    with bz2.open(path) as file:
        return file.read()


def _gzip_read(path: Path) -> bytes:
    with gzip.open(path) as file:
        return file.read()


WAYS: dict[str, tuple[GapKind, Callable[[Path], Any]]] = {
    "open": (GapKind.FILE_READ, lambda folder: Path(folder, "data").open().close()),
    "io.open by another name": (GapKind.FILE_READ, lambda folder: renamed_in_program(folder / "data", "rb").read()),
    "os.open": (GapKind.FILE_READ, lambda folder: os.close(os.open(str(folder / "data"), os.O_RDONLY))),
    "a keyword": (GapKind.FILE_READ, lambda folder: open(file=str(folder / "data"), encoding="utf8").close()),
    "bz2, which holds open by another name": (GapKind.FILE_READ, lambda folder: _try(_bz2_read, folder / "data")),
    "gzip": (GapKind.FILE_READ, lambda folder: _try(_gzip_read, folder / "data")),
    "os.open to write": (GapKind.FILE_WRITTEN, lambda folder: os.close(os.open(folder / "new", os.O_WRONLY | os.O_CREAT))),
    "append": (GapKind.FILE_WRITTEN, lambda folder: open(folder / "data", mode="a").close()),
    "read and write": (GapKind.FILE_WRITTEN, lambda folder: open(folder / "data", "r+").close()),
    "touch": (GapKind.FILE_WRITTEN, lambda folder: (folder / "new").touch()),
    "listdir by name": (GapKind.FILE_READ, lambda folder: imported_by_name(folder)),
    "iterdir": (GapKind.FILE_READ, lambda folder: list(folder.iterdir())),
    "walk": (GapKind.FILE_READ, lambda folder: list(os.walk(folder))),
    "makedirs": (GapKind.FILE_WRITTEN, lambda folder: os.makedirs(folder / "a" / "b")),
    "rename": (GapKind.FILE_WRITTEN, lambda folder: (folder / "data").rename(folder / "moved")),
    "unlink": (GapKind.FILE_WRITTEN, lambda folder: (folder / "data").unlink()),
    "symlink": (GapKind.FILE_WRITTEN, lambda folder: (folder / "link").symlink_to(folder / "data")),
    "system": (GapKind.PROCESS, lambda _: os.system("true")),  # pyright: ignore[reportDeprecated]
    "popen": (GapKind.PROCESS, lambda _: subprocess.run("true", shell=True, check=True)),
    "spawn": (GapKind.PROCESS, lambda _: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)),
    "asyncio": (GapKind.PROCESS, lambda _: asyncio.run(_wait())),
    "connect": (GapKind.CONNECTION, _connects("connect")),
    "connect_ex": (GapKind.CONNECTION, _connects("connect_ex")),
    "sqlite": (GapKind.DATABASE, lambda folder: sqlite3.connect(database=folder / "one.db").close()),
}


async def _wait() -> None:
    await (await asyncio.create_subprocess_exec("/bin/true")).wait()


ACTS.update({way: act for way, (_, act) in WAYS.items()})


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_reach_something_is_a_gap_with_its_line(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = heard(way, tmp_path, monkeypatch)
    assert WAYS[way][0] in {gap.kind for gap in gaps}
    assert all("test_capture_unmarked.py:" in gap.text for gap in gaps)


@pytest.mark.parametrize(("owner", "name"), REPLACED, ids=lambda value: getattr(value, "__name__", value))
def test_a_function_that_is_replaced_looks_and_works_like_its_original(owner: Any, name: str, tmp_path: Path) -> None:
    original = getattr(owner, name)
    path = str(tmp_path / "nothing")

    def traits() -> list[object]:
        function = getattr(owner, name)
        holder: Any = type("Holder", (), {"held": function})()
        return [
            _try(holder.held, path),  # it is no method of the class that holds it
            function.__name__,
            inspect.signature(function),
            pickle.loads(pickle.dumps(function)).__name__,
            [function in group for group in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks)],
            shutil.rmtree.avoids_symlink_attacks,
        ]

    plain = traits()
    with capture():
        agent("own file", str(tmp_path))
        with freezeframe.run("replaced"):
            assert getattr(owner, name) is not original
            assert traits() == plain
    assert getattr(owner, name) is original
    assert traits() == plain
