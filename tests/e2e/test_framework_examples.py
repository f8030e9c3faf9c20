"""The examples for frameworks, as they are in the repository: recorded under their servers, then replayed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest
from races import Provider

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas.run import Run
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

FOLDER: Final = Path(__file__).parents[2] / "examples" / "frameworks"
_UVICORN = """
import socket, uvicorn
import fastapi_chat
found = socket.create_server(("127.0.0.1", 0))
print(found.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(fastapi_chat.app, log_level="error")).run([found])
"""
_WERKZEUG = """
from werkzeug.serving import make_server
import django_chat
server = make_server("127.0.0.1", 0, django_chat.application, threaded=True)
print(server.port, flush=True)
import signal
signal.signal(signal.SIGTERM, lambda *_: exit())
server.serve_forever()
"""


@contextmanager
def served(code: str) -> Generator[httpx.Client]:
    server = subprocess.Popen([sys.executable, "-c", code], cwd=FOLDER, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=200) as client:
            yield client
    finally:
        server.terminate()
        server.wait()
        assert server.stdout is not None
        server.stdout.close()


def ask_fastapi(count: int) -> None:
    with served(_UVICORN) as client, ThreadPoolExecutor(count) as pool:
        stream = pool.submit(client.get, "/stream?text=pieces")
        asked = [pool.submit(client.post, f"/chat/u{number}", json={"text": "hello"}) for number in range(count)]
        assert {done.result().status_code for done in (*asked, stream)} == {200}


def ask_django(count: int) -> None:
    with served(_WERKZEUG) as client, ThreadPoolExecutor(count) as pool:
        stream = pool.submit(client.get, "/stream?text=pieces")
        asked = [pool.submit(client.get, f"/chat?user=u{number}&text=hello") for number in range(count)]
        assert {done.result().status_code for done in (*asked, stream)} == {200}


EXAMPLES = {
    "fastapi": (ask_fastapi, {"POST /chat/{user}", "GET /stream"}),
    "django": (ask_django, {"GET /chat", "GET /stream"}),
}


def prompts(run: Run) -> list[bytes]:
    return [exchange.request.body for exchange in run.exchanges if exchange.kind.value == "model"]


@pytest.mark.parametrize("count", [4, pytest.param(50, marks=pytest.mark.soak)])
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_recorded_and_replays(example: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask, names = EXAMPLES[example]
    with Provider({}) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("FREEZEFRAME_FILE", str(tmp_path / "spans.jsonl"))
        ask(count)
    monkeypatch.delenv("FREEZEFRAME_FILE")
    runs = load_runs_of_file(tmp_path / "spans.jsonl")
    assert {run.entry.name for run in runs} == names
    chats = [run for run in runs if len(run.exchanges) == 2]
    assert len(chats) == count
    for number in range(count):  # each question in a run of its own
        [run] = [run for run in chats if f"order of u{number}:".encode() in prompts(run)[0]]
        assert f"u{number}" in (run.entry.input or "")
    for run in [next(run for run in runs if run.entry.name == name) for name in names]:
        report = reenact(freeze(run), cwd=FOLDER)
        assert (report.divergences, verdict(report)) == ((), Verdict.IDENTICAL)
