"""A collector that an agent finds without being told may be another project's: it is named, and is sent nothing by mistake."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from freezeframe.export.delivery import Destination, Unreachable
from freezeframe.export.otlp_grpc import GrpcWire
from freezeframe_schemas.data_directory import remember_data_directory
from freezeframe_schemas.local_tokens import SENDER, load_or_create_token

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts processes

PROGRAM = """
import os, freezeframe, freezeframe._instrument as start
start.USUAL_ENDPOINT = os.environ["USUAL"]  # 4318 may be taken here

@freezeframe.run
def work():
    return 1

freezeframe.instrument()
work()
"""


class Collector(http.server.ThreadingHTTPServer):
    """Accepts what is sent to it, and keeps a data directory as a collector does."""

    def __init__(self, data: Path) -> None:
        self.shown: list[str | None] = []
        """The credentials that came with each batch."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        data.mkdir(parents=True, exist_ok=True)
        self.token = load_or_create_token(data, SENDER)
        (data / "ports.json").write_text(json.dumps({"http": self.server_port, "grpc": 1, "pid": os.getpid()}))
        remember_data_directory(data)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Collector  # pyright: ignore[reportIncompatibleVariableOverride]  (it is one)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.shown.append(self.headers["authorization"])
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()


@pytest.fixture
def another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """The collector of project a."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("FREEZEFRAME_SPOOL")
    (tmp_path / "b").mkdir()
    with Collector(tmp_path / "a" / ".freezeframe") as running:
        yield running
        running.shutdown()


def run_agent(folder: Path, usual: Collector, **environ: str) -> str:
    """Run the agent in the folder, and return what it writes to standard error."""
    variables = {**os.environ, "USUAL": usual.url, **environ}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=folder, env=variables, capture_output=True, text=True, check=True
    )
    return done.stderr


@pytest.mark.proof
def test_a_project_sends_nothing_to_the_collector_of_another_and_loses_nothing(tmp_path: Path, another: Collector) -> None:
    """Its spans wait in its spool for its own collector."""
    a, own = (tmp_path / folder / ".freezeframe" for folder in "ab")
    own.mkdir()
    stderr = run_agent(tmp_path / "b", another)
    assert f"the collector of {a}, and this project's data directory is {own}" in stderr
    with Collector(own) as of_its_own:
        assert run_agent(tmp_path / "b", another) == ""
        of_its_own.shutdown()
    assert len(of_its_own.shown) >= 2  # what waited, and the second run
    assert another.shown == []


@pytest.mark.parametrize("variable", ["FREEZEFRAME_ENDPOINT", "FREEZEFRAME_DATA"])
def test_a_project_that_names_the_collector_of_another_sends_there(tmp_path: Path, another: Collector, variable: str) -> None:
    (tmp_path / "b" / ".freezeframe").mkdir()
    named = {"FREEZEFRAME_ENDPOINT": another.url, "FREEZEFRAME_DATA": str(tmp_path / "a" / ".freezeframe")}
    assert run_agent(tmp_path / "b", another, **{variable: named[variable]}) == ""
    assert set(another.shown) == {f"Bearer {another.token}"}


def test_a_folder_without_a_data_directory_uses_the_usual_collector_and_says_whose_it_is(
    tmp_path: Path, another: Collector
) -> None:
    a, b = (tmp_path / folder / ".freezeframe" for folder in "ab")
    assert run_agent(tmp_path / "b", another) == f"freezeframe: {b} does not exist, so spans go to the collector of {a}\n"
    assert set(another.shown) == {f"Bearer {another.token}"}


def test_over_grpc_too_a_project_sends_nothing_to_the_collector_of_another(tmp_path: Path, another: Collector) -> None:
    own = tmp_path / "b"
    wire = GrpcWire(Destination(endpoint=f"http://127.0.0.1:{another.server_port}", own=own))
    with pytest.raises(Unreachable, match=f"this project's data directory is {own} "):
        wire.send(b"", 1.0)
    wire.close()
