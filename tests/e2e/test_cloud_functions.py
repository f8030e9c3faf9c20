"""Google Cloud Functions under the Functions Framework and its servers: each request is a run, and replays without a port."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from recorded_tasks import recorded, replays

from freezeframe_schemas import values
from freezeframe_schemas.lifecycle import RunStatus

pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.usefixtures("warm_python")]

_FUNCTIONS = """
import os
import freezeframe

freezeframe.instrument()

import functions_framework, functions_framework.aio, httpx

URL = os.environ["PROVIDER_BASE_URL"] + "/v1/chat/completions"


def asked(prompt):
    return {"model": "m", "messages": [{"role": "user", "content": prompt}]}


def said(answer):
    return answer.json()["choices"][0]["message"]["content"]


@functions_framework.http
def chat(request):
    return {"answer": said(httpx.post(URL, json=asked(request.get_json()["text"]), timeout=200))}


@functions_framework.cloud_event
def on_order(event):
    told = said(httpx.post(URL, json=asked(f"{event['type']} of {event.data['order']}"), timeout=200))
    raise ValueError(told)


@functions_framework.aio.http
async def later(request):
    async with httpx.AsyncClient(timeout=200) as client:
        return said(await client.post(URL, json=asked((await request.body()).decode())))
"""
_AT = re.compile(r"Listening at: (http://127\.0\.0\.1:\d+)")
_EVENT = {"ce-id": "77", "ce-source": "shop", "ce-type": "order.made", "ce-specversion": "1.0", "ce-order": "o-1"}


@contextmanager
def serving(folder: Path, target: str) -> Generator[str]:
    """Run the framework's command; yield its address."""
    log = folder / "server.log"
    command = ["-m", "functions_framework", "--source", "tasks.py", "--target", target, "--host", "127.0.0.1", "--port", "0"]
    with log.open("wb") as output:
        server = subprocess.Popen([sys.executable, *command], cwd=folder, stdout=output, stderr=output)
    try:
        while (found := _AT.search(log.read_text())) is None:
            assert server.poll() is None, log.read_text()
            time.sleep(0.05)
        yield found[1]
    finally:
        server.terminate()
        server.wait()


def test_each_request_to_a_function_is_a_run(tmp_path: Path) -> None:
    with recorded(tmp_path, _FUNCTIONS, GUNICORN_LOG_LEVEL="info") as runs:
        with serving(tmp_path, "chat") as url:
            answers = [httpx.post(f"{url}/shop", json={"text": f"t{number}"}, timeout=200).json() for number in range(3)]
        worked = runs()
        assert [values.decode(run.entry.output or "")["status"] for run in worked.of("chat")] == [200] * 3
        assert worked.runs[0].entry.target == "functions_framework:create_app('chat', 'tasks.py', 'http')"
        assert [run.gaps for run in worked.runs] == [()] * 3
        for run, answer in zip(worked.runs, answers, strict=True):
            assert answer["answer"] in values.decode(run.entry.output or "")["body"]
            assert replays(worked, run)


def test_an_event_that_is_delivered_again_is_a_run_with_the_id_of_the_event(tmp_path: Path) -> None:
    with recorded(tmp_path, _FUNCTIONS, GUNICORN_LOG_LEVEL="info") as runs:
        with serving(tmp_path, "on_order") as url:
            for _ in range(2):
                assert httpx.post(url, json={"order": "o-1"}, headers=_EVENT, timeout=200).status_code == 500
        worked = runs()
        assert [(run.entry.run_id, run.status) for run in worked.of("on_order")] == [("77", RunStatus.FAILED)] * 2
        assert worked.input(worked.runs[0])["headers"].items() >= _EVENT.items()
        assert replays(worked, worked.runs[0])


def test_a_request_to_an_async_function_is_a_run(tmp_path: Path) -> None:
    with recorded(tmp_path, _FUNCTIONS, GUNICORN_LOG_LEVEL="info") as runs:
        with serving(tmp_path, "later") as url:
            answer = httpx.post(url, content="hello", timeout=200).text
        worked = runs()
        [run] = worked.of("later")
        assert values.decode(run.entry.output or "")["body"] == answer
        assert replays(worked, run)
