"""Tokens of a data directory: made once, readable by their owner, and shown only to the collector that they belong to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from freezeframe_schemas.data_directory import remember_data_directory
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.local_tokens import SENDER, load_or_create_token, read_token, token_of


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No data directory is near, and none is remembered."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("FREEZEFRAME_DATA", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def data_directory(tmp_path: Path, *, pid: int | None = None) -> Path:
    """Return a data directory whose collector noted the ports 4001 and 4002."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "ports.json").write_text(json.dumps({"pid": pid or os.getpid(), "http": 4001, "grpc": 4002}))
    return data


def test_a_token_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    """Even if several processes ask at the same time."""
    with ThreadPoolExecutor(8) as threads:
        made = set(threads.map(load_or_create_token, [tmp_path] * 32, [SENDER] * 32))
    assert made == {read_token(tmp_path, SENDER)}
    assert (tmp_path / SENDER).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(SENDER) or path.name.startswith(".")] == [SENDER]


@pytest.mark.parametrize("text", ["", "short", "two words of a token", "ü" * 20, "x" * 513])
def test_what_is_not_a_token_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / SENDER).write_text(text)
    with pytest.raises(ConfigError, match=SENDER):
        load_or_create_token(tmp_path, SENDER)
    assert read_token(tmp_path, SENDER) is None


def test_an_agent_in_any_directory_finds_the_token_of_a_collector_that_its_user_started(tmp_path: Path) -> None:
    data = data_directory(tmp_path)
    token = load_or_create_token(data, SENDER)
    assert token_of("127.0.0.1", 4001, SENDER) is None
    remember_data_directory(data)
    assert [token_of(host, 4001, SENDER) for host in ("127.0.0.1", "localhost", "::1")] == [token] * 3
    assert token_of("localhost", 4002, SENDER) == token


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", 4003), ("collector.example.com", 4001), ("192.0.2.1", 4001), ("", 4001)]
)
def test_nobody_else_is_shown_the_token(tmp_path: Path, host: str, port: int) -> None:
    data = data_directory(tmp_path)
    load_or_create_token(data, SENDER)
    remember_data_directory(data)
    assert token_of(host, port, SENDER) is None


def test_whoever_takes_the_port_of_a_killed_collector_is_not_shown_the_token(tmp_path: Path) -> None:
    """The killed collector left its notes behind."""
    killed = subprocess.Popen([sys.executable, "-c", ""])
    killed.wait()
    data = data_directory(tmp_path, pid=killed.pid)
    load_or_create_token(data, SENDER)
    remember_data_directory(data)
    assert token_of("127.0.0.1", 4001, SENDER) is None


def test_a_data_directory_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    gone, there = tmp_path / "gone", tmp_path / "there"
    gone.mkdir()
    there.mkdir()
    remember_data_directory(gone)
    gone.rmdir()
    remember_data_directory(there)
    notes = tmp_path / "state" / "freezeframe" / "data-directories"
    assert [note.resolve() for note in notes.iterdir()] == [there]
