"""Servers with several worker processes: no run is lost when they stop, and one that is killed is told as unfinished.

gunicorn and uvicorn themselves, with an application that asks a provider on loopback.
"""

from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from otlp_receiver import Receiver
from races import NEVER, Provider

from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas import values
from freezeframe_schemas.run import Run

pytestmark = pytest.mark.long

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
    answer = httpx.post(url, json={"model": "m", "messages": [message]}, timeout=300)
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
    async with httpx.AsyncClient(timeout=300) as client:
        answer = await client.post(url, json={"model": "m", "messages": [message]})
    return JSONResponse({"pid": os.getpid(), "answer": answer.json()})

app = Starlette(routes=[Route("/ask", ask)])
"""
_PATIENT = ("--graceful-timeout", "500", "--timeout", "500")  # the machine may be busy
_GUNICORN = ("gunicorn", "--bind", "fd://FD", "--workers", "2", *_PATIENT, "application:app")
_UVICORN = ("uvicorn", "--fd", "FD", "application:app")
SERVERS = {
    "gunicorn": (_FLASK, _GUNICORN),
    "gunicorn preload": (_FLASK, (*_GUNICORN, "--preload")),
    "uvicorn workers": (_STARLETTE, (*_UVICORN, "--workers", "2")),
    "uvicorn reload": (_STARLETTE, (*_UVICORN, "--reload")),
}


def _ask(url: str, text: str) -> httpx.Response:
    return httpx.get(f"{url}/ask", params={"text": text}, timeout=300)


def _text(run: Run) -> str:
    return values.decode(run.entry.input or "")["query"].partition("=")[2]


@pytest.mark.parametrize("named", SERVERS)
def test_no_run_is_lost_when_the_server_stops_and_a_killed_one_is_unfinished(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, command = SERVERS[named]
    (tmp_path / "application.py").write_text(source)
    log = tmp_path / "server.log"
    kills = named.startswith("gunicorn")
    texts = [f"q{number}" for number in range(12)]
    with (
        Provider({"stuck": (NEVER,)}) as provider,
        Receiver() as receiver,
        ThreadPoolExecutor(13) as pool,
        socket.create_server(("127.0.0.1", 0), backlog=64) as door,  # who knocks before the server is there waits
        log.open("wb") as output,
    ):
        monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        monkeypatch.setenv("FREEZEFRAME_ENDPOINT", receiver.url)
        argv = [word.replace("FD", str(door.fileno())) for word in (sys.executable, "-m", *command)]
        server = subprocess.Popen(argv, cwd=tmp_path, stdout=output, stderr=output, pass_fds=[door.fileno()])
        try:
            ask = functools.partial(_ask, f"http://127.0.0.1:{door.getsockname()[1]}")
            stuck = pool.submit(ask, "stuck") if kills else None
            if stuck is not None:
                provider.wait_for("stuck")
            answers = [answer.json() for answer in pool.map(ask, texts[:6])]
            if kills:  # gunicorn replaces its workers
                server.send_signal(signal.SIGHUP)
            answers += [answer.json() for answer in pool.map(ask, texts[6:])]
            if stuck is not None:
                receiver.wait_until(lambda: "text=stuck" in str(receiver.requests))  # its beginning
                busy = {int(pid) for pid in _children(server.pid)} - {answer["pid"] for answer in answers}
                for pid in busy:
                    os.kill(pid, signal.SIGKILL)
                with pytest.raises(httpx.HTTPError):
                    stuck.result()
            server.send_signal(signal.SIGTERM)
            server.wait(300)
        finally:
            server.kill()
            server.wait()
    runs = load_runs_of_file(receiver.save(tmp_path / "spans"))
    assert Counter(_text(run) for run in runs if not run.entry.unfinished) == Counter(texts), log.read_text()
    assert [_text(run) for run in runs if run.entry.unfinished] == (["stuck"] if kills else [])


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
