"""Two projects, one port: commands say whose collector answers there, and `freezeframe run` sends to no other project's."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from freezeframe import _cli, _config
from freezeframe_replay.cli import main
from freezeframe_replay.local import checkup as doctor
from freezeframe_replay.local.home import Home


class _Status(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"data": self.server.data, "pid": 1}).encode()  # type: ignore[attr-defined]  # set below
        self.send_response(200 if self.path == "/status" else 404)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """The collector of another project: its URL, which is the usual one here, and its data directory."""
    directory = tmp_path / "first" / ".freezeframe"
    (tmp_path / "second").mkdir()
    monkeypatch.chdir(tmp_path / "second")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Status)
    server.data = str(directory)  # type: ignore[attr-defined]  # what the handler answers
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    for name in ("FREEZEFRAME_ENDPOINT", "FREEZEFRAME_FILE", "FREEZEFRAME_DATA", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_config, "DEFAULT_ENDPOINT", url)
    try:
        yield url, directory
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Programs that `freezeframe run` would have started."""
    names: list[str] = []

    def start(name: str, *rest: object) -> None:
        names.append(name)
        raise FileNotFoundError

    monkeypatch.setattr(os, "execvpe", start)
    return names


def test_run_refuses_the_collector_of_another_project(
    other: tuple[str, Path], started: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Unless it is told to send there."""
    url, directory = other
    Path(".freezeframe").mkdir()
    assert _cli.main(["run", "--", "python", "agent.py"]) == 126
    said = capsys.readouterr().err
    assert f"{url} is the collector of {directory}" in said
    assert f"this project's data directory is {Path.cwd() / '.freezeframe'}" in said
    assert started == []
    _cli.main(["run", "--endpoint", url, "--", "python", "agent.py"])
    _cli.main(["run", "--file", "spans.jsonl", "--", "python", "agent.py"])
    assert started == ["python", "python"]


def test_run_says_whose_collector_it_is_where_the_project_has_none(
    other: tuple[str, Path], started: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    _cli.main(["run", "--", "python", "agent.py"])
    assert f"the spans go to the collector of {other[1]}" in capsys.readouterr().err
    assert started == ["python"]


def test_run_says_nothing_of_its_own_collector(
    other: tuple[str, Path], started: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other[1].mkdir(parents=True)
    monkeypatch.chdir(other[1].parent)
    _cli.main(["run", "--", "python", "agent.py"])
    assert "collector" not in capsys.readouterr().err
    assert started == ["python"]


def test_status_and_doctor_say_where_an_agent_started_here_sends(
    other: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url, directory = other
    monkeypatch.setenv("FREEZEFRAME_ENDPOINT", url)
    assert main(["status"]) == 1
    assert f"started here send to {url}, the collector of {directory}: not to this one" in capsys.readouterr().out
    assert main(["runs"]) == 1
    assert f"agents started here send to {url}, the collector of {directory}" in capsys.readouterr().err
    assert main(["status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["agents_send_to"] == {"url": url, "data": str(directory)}
    home = Home(directory=Path.cwd() / ".freezeframe")
    found = [item for item in doctor.checkup(home, environ={"FREEZEFRAME_ENDPOINT": url}) if item.check == "instrument()"]
    assert [item.grade for item in found] == [doctor.Grade.WARN]
    assert f"the collector of {directory}" in found[0].found


def test_up_names_the_data_directory_of_whoever_has_the_port(
    other: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    port = other[0].rpartition(":")[2]
    assert main(["up", "--http-port", port, "--grpc-port", "0", "--clickhouse-port", "0", "--replay-port", "0"]) == 1
    assert f"is taken by the collector of {other[1]}" in capsys.readouterr().err
