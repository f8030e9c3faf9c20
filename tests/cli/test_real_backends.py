"""Runs sent to real backends and read back: `make test-backends` installs them; elsewhere these tests are skipped."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clients.team import all_teams
from followed_page import ROOT
from recorded_teams import recorded_team

from freezeframe_replay.cli import main
from freezeframe_replay.local.target import RunsPlace, list_elsewhere, load_run
from freezeframe_replay.sources.recordings.kinds import RECORDINGS, runs_of_recording
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas import genai
from freezeframe_schemas.errors import RunError
from freezeframe_schemas.exchange import Exchange
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.run import Run

_TRIES = 2000
_HOMES = ROOT / ".venv-backends"
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    path = tmp_path / "sent.jsonl"
    path.write_bytes(gzip.decompress((ROOT / "tests" / "data" / "backends" / "sent.jsonl.gz").read_bytes()))
    return path


def _phoenix(port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    settings = {"PHOENIX_WORKING_DIR": str(folder), "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(port)}
    return ["serve"], {**settings, "PHOENIX_GRPC_PORT": str(_free_port()), "PHOENIX_TELEMETRY_ENABLED": "false"}


def _mlflow(port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    place = ["--host", "127.0.0.1", "--port", str(port), "--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    return ["server", "--workers", "1", *place], {"MLFLOW_DISABLE_TELEMETRY": "true"}


@contextmanager
def running(name: str, settings: Callable[[int, Path], tuple[list[str], dict[str, str]]], folder: Path) -> Generator[str]:
    """Run a backend until it has answered, or skip; yield its address."""
    program = _HOMES / name / "bin" / name
    if not program.exists():
        pytest.skip(f"no {name} in {_HOMES.name}: make test-backends")
    port = _free_port()
    words, environment = settings(port, folder)
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [program, *words], env={**os.environ, **environment}, cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
        try:
            _wait(f"http://127.0.0.1:{port}/", process)
            yield f"127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, 15)
            process.wait(30)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(_TRIES):
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
            break
        else:
            return
    pytest.fail("the backend did not start; see its log.txt")


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def timeless(exchange: Exchange) -> Exchange:
    """Phoenix rounds times through a double."""
    return replace(exchange, start_time_unix_nano=0, end_time_unix_nano=0)


def assert_same(kept: Run, sent: Run) -> None:
    assert list(map(timeless, kept.exchanges)) == list(map(timeless, sent.exchanges))
    assert replace(kept.entry, start_time_unix_nano=0, end_time_unix_nano=0) == replace(
        sent.entry, start_time_unix_nano=0, end_time_unix_nano=0
    )


@pytest.mark.parametrize(("name", "settings", "path"), [("phoenix", _phoenix, "/shop"), ("mlflow", _mlflow, "/0")])
def test_a_run_goes_out_to_a_real_backend_and_comes_back_to_the_byte(
    name: str,
    settings: Callable[[int, Path], tuple[list[str], dict[str, str]]],
    path: str,
    sent: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = load_run_of_file(sent)
    with running(name, settings, tmp_path) as address:
        assert main(["export", str(sent), "--unredacted", "--as", name, "-o", f"http://{address}{path}"]) == 0
        place = RunsPlace(store=f"{name}+http://{address}{path}")
        found: list[str] = []
        for _ in range(_TRIES):  # it stores what it has taken a moment later
            with suppress(RunError):  # Phoenix makes the project with its first span
                found = [item.trace_id for item in list_elsewhere(place, 5) or ()]
            if found:
                break
        assert found == [run.trace_id]
        for _ in range(_TRIES):
            if len(load_run(place, "last").spans) == len(run.spans):
                break
        assert_same(load_run(place, "last"), run)
        capsys.readouterr()
        assert main(["import", name, f"http://{address}{path}", "--dry-run", "--json"]) == 0
        assert [row["run"] for row in json.loads(capsys.readouterr().out)] == [run.trace_id]
    if name == "mlflow":
        (stored,) = runs_of_recording(tmp_path / "mlflow.db", RECORDINGS["mlflow"])
        assert_same(stored, run)


def test_phoenix_names_the_agents_of_a_team_at_each_call(tmp_path: Path) -> None:
    """As the conventions name it and as OpenInference does; and the spans of its instrumentors are there as they were."""
    with running("phoenix", _phoenix, tmp_path) as address:
        rest = f"http://{address}/v1/projects"
        for name, team in all_teams().items():
            sent = recorded_team(name)
            file = tmp_path / f"{name}.pb"
            file.write_bytes(encode_traces(sent))
            assert main(["export", str(file), "--unredacted", "--to", "phoenix", f"http://{address}/{name}"]) == 0
            rows: list[dict[str, Any]] = []
            for _ in range(_TRIES):  # it stores what it has taken a moment later
                with suppress(urllib.error.HTTPError), urllib.request.urlopen(f"{rest}/{name}/spans?limit=100") as page:
                    rows = json.load(page)["data"]
                if len(rows) == len(sent):
                    break
            kept = {row["context"]["span_id"]: row["attributes"] for row in rows}
            calls = [span for span in sent if span.text(genai.OPERATION_NAME) == genai.OP_CHAT]
            assert {kept[span.span_id]["agent.name"] for span in calls} == set(team.agents)
            tokens = sum(attributes.get("llm.token_count.prompt", 0) for attributes in kept.values())
            assert tokens == sum(span.integer(genai.USAGE_INPUT_TOKENS) or 0 for span in calls)  # each call counts once
            for span in sent:
                assert kept[span.span_id].get(genai.AGENT_NAME) == span.text(genai.AGENT_NAME)
                assert span.attributes.get("graph.node.id") == kept[span.span_id].get("graph.node.id")
