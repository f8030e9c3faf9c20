"""Servers with several worker processes: no run is lost when they stop, and one that is killed is told as unfinished.

gunicorn and uvicorn themselves, with an application that asks a provider on loopback.
"""

from __future__ import annotations

import functools
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from races import NEVER, Provider

from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas import values
from freezeframe_schemas.run import Run

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]

_FLASK = """
import os
import freezeframe
freezeframe.instrument()
import httpx
from flask import Flask, request

app = Flask(__name__)

@app.get("/ask")
def ask():
    message = {"role": "user", "content": request.args["text"]}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    answer = httpx.post(url, json={"model": "m", "messages": [message]}, timeout=60)
    return {"pid": os.getpid(), "answer": answer.json()}
"""
_STARLETTE = """
import os
import freezeframe
freezeframe.instrument()
import httpx
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def ask(request):
    message = {"role": "user", "content": request.query_params["text"]}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(url, json={"model": "m", "messages": [message]})
    return JSONResponse({"pid": os.getpid(), "answer": answer.json()})

app = Starlette(routes=[Route("/ask", ask)])
"""
_PATIENT = ("--graceful-timeout", "60", "--timeout", "100")  # the machine may be busy
_GUNICORN = ("gunicorn", "--bind", "127.0.0.1:0", "--workers", "4", *_PATIENT, "application:app")
_UVICORN = ("uvicorn", "--port", "0", "application:app")
SERVERS = {
    "gunicorn": (_FLASK, _GUNICORN),
    "gunicorn preload": (_FLASK, (*_GUNICORN, "--preload")),
    "uvicorn workers": (_STARLETTE, (*_UVICORN, "--workers", "2")),
    "uvicorn reload": (_STARLETTE, (*_UVICORN, "--reload")),
}
_AT = re.compile(r"http://127\.0\.0\.1:(\d+)")


def _url(log: Path, server: subprocess.Popen[bytes]) -> str:
    while (found := _AT.search(log.read_text())) is None:
        assert server.poll() is None, log.read_text()
        time.sleep(0.05)
    while True:  # uvicorn binds its port before its workers listen
        try:
            socket.create_connection(("127.0.0.1", int(found[1]))).close()
        except ConnectionRefusedError:
            assert server.poll() is None, log.read_text()
            time.sleep(0.05)
        else:
            return found[0]


def _ask(url: str, text: str) -> httpx.Response:
    return httpx.get(f"{url}/ask", params={"text": text}, timeout=60)


def _text(run: Run) -> str:
    return values.decode(run.entry.input or "")["query"].partition("=")[2]


@pytest.mark.parametrize("named", SERVERS)
def test_no_run_is_lost_when_the_server_stops_and_a_killed_one_is_unfinished(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, command = SERVERS[named]
    (tmp_path / "application.py").write_text(source)
    spans, log = tmp_path / "spans.jsonl", tmp_path / "server.log"
    kills = named.startswith("gunicorn")
    texts = [f"q{number}" for number in range(12)]
    with Provider({"stuck": (NEVER,)}) as provider, ThreadPoolExecutor(13) as pool:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        monkeypatch.setenv("FREEZEFRAME_FILE", str(spans))
        with log.open("wb") as output:
            server = subprocess.Popen([sys.executable, "-m", *command], cwd=tmp_path, stdout=output, stderr=output)
        try:
            url = _url(log, server)
            ask = functools.partial(_ask, url)
            stuck = pool.submit(ask, "stuck") if kills else None
            if stuck is not None:
                provider.wait_for("stuck")
            answers = [answer.json() for answer in pool.map(ask, texts[:6])]
            if kills:  # gunicorn replaces its workers
                server.send_signal(signal.SIGHUP)
            answers += [answer.json() for answer in pool.map(ask, texts[6:])]
            if stuck is not None:
                while not spans.exists() or "text=stuck" not in spans.read_text():  # its beginning
                    time.sleep(0.05)
                busy = {int(pid) for pid in _children(server.pid)} - {answer["pid"] for answer in answers}
                for pid in busy:
                    os.kill(pid, signal.SIGKILL)
                with pytest.raises(httpx.HTTPError):
                    stuck.result()
            server.send_signal(signal.SIGTERM)
            server.wait(60)
        finally:
            server.kill()
            server.wait()
    monkeypatch.delenv("FREEZEFRAME_FILE")
    runs = load_runs_of_file(spans)
    assert Counter(_text(run) for run in runs if not run.entry.unfinished) == Counter(texts), log.read_text()
    assert [_text(run) for run in runs if run.entry.unfinished] == (["stuck"] if kills else [])


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
