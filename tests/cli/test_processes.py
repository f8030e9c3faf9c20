"""Background processes: recognised for what they are, stopped politely, never mistaken."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from freezeframe_replay.local import daemon
from freezeframe_replay.local.daemon import Note
from freezeframe_replay.local.home import Home
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.listeners import port_is_free, who_listens

SLEEP = "import signal, sys; print('ready', flush=True); signal.pause()"
STUBBORN = (
    "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)\nwhile True: signal.pause()"
)


def wait_for(log: Path, text: str, note: Note) -> None:
    while text not in (log.read_text() if log.exists() else ""):
        assert daemon.alive(note)


@pytest.fixture
def started(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Note]:
    """A detached process that waits for signals."""
    log = tmp_path / "log"
    command = [sys.executable, "-c", getattr(request, "param", SLEEP)]
    note = daemon.start("sleeper", command, log=log, note_file=tmp_path / "note.json")
    try:
        wait_for(log, "ready", note)
        yield note
    finally:
        daemon.stop(note, grace_s=0)


def test_a_started_process_is_found_again_by_its_note(started: Note, tmp_path: Path) -> None:
    """Another command reads the note and sees that it runs, then stops it."""
    note = daemon.read_note(tmp_path / "note.json")
    assert note == started
    assert note is not None
    assert daemon.alive(note)
    assert daemon.stop(note, grace_s=10)
    assert not daemon.alive(note)


@pytest.mark.parametrize("started", [STUBBORN], indirect=True)
def test_a_process_that_will_not_end_is_killed(started: Note) -> None:
    """SIGTERM first, SIGKILL after the grace period, and the caller is told."""
    assert not daemon.stop(started, grace_s=0.1)
    assert not daemon.alive(started)


def test_a_recycled_pid_is_never_touched() -> None:
    """If the pid of a note now belongs to another process, the noted one is dead; the other process is left alone."""
    with subprocess.Popen([sys.executable, "-c", SLEEP], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        mark = daemon.start_mark(other.pid)
        assert mark is not None
        stale = Note(name="old", pid=other.pid, started=f"1{mark}", command=())
        assert not daemon.alive(stale)
        assert daemon.stop(stale, grace_s=0)
        assert daemon.alive(replace(stale, started=mark))
        other.kill()


@pytest.mark.parametrize("text", ["", "{}", '{"name": "x", "pid": "many"}', "[1]"])
def test_a_damaged_note_is_no_note(tmp_path: Path, text: str) -> None:
    """It names nothing that could be stopped."""
    (tmp_path / "note.json").write_text(text)
    assert daemon.read_note(tmp_path / "note.json") is None


def test_who_holds_a_port_is_named() -> None:
    """The message can say which process to end."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert not port_is_free(port)
        if sys.platform == "linux":
            assert f"pid {os.getpid()}" in (who_listens(port) or "")
    assert port_is_free(port)
    assert who_listens(port) is None


@pytest.mark.parametrize("taken", [("grpc",), ("http", "replay"), ("grpc", "http", "clickhouse", "replay"), ()])
def test_a_port_that_nobody_chose_gives_way_to_another_project(
    taken: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second project needs no options; a port that was asked for by number is an error instead."""
    names = ("grpc", "http", "clickhouse", "replay")
    commands: list[str] = []

    def start(name: str, command: Sequence[str], *, log: Path, note_file: Path) -> None:
        commands.extend(command)

    def is_ready(*_: object) -> str:
        return ""

    monkeypatch.setattr(daemon, "start", start)
    monkeypatch.setattr(daemon, "_wait_until_it_answers", is_ready)
    with contextlib.ExitStack() as stack:
        held = {name: stack.enter_context(socket.create_server(("127.0.0.1", 0))) for name in names}
        numbers = {name: server.getsockname()[1] for name, server in held.items()}
        for name in set(names) - set(taken):
            held[name].close()
        said: list[str] = []
        daemon.up(Home(directory=tmp_path), daemon.Ports(**numbers, chosen=frozenset()), said.append)
        options = dict(itertools.pairwise(commands))
        ports = {"grpc": "--grpc-port", "http": "--http-port", "clickhouse": "--clickhouse-port", "replay": "--port"}
        assert {name: options[option] for name, option in ports.items()} == {
            name: "0" if name in taken else str(numbers[name]) for name in names
        }
        assert sum("is taken by pid" in line for line in said) == len(taken)
        if taken:
            commands.clear()
            with pytest.raises(ConfigError, match=rf"--{taken[0]}-port\) is taken by pid"):
                daemon.up(Home(directory=tmp_path), daemon.Ports(**numbers), said.append)
            assert commands == []
