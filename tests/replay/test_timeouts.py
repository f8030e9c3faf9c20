"""A call that timed out: a longer timeout would get what the recording does not hold, so it is never identical."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.divergence import DivergenceKind, Report
from freezeframe_schemas.fixture import Fixture, load_fixture, write_fixture
from freezeframe_schemas.verdict import headline

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts the program again

AGENT = """
import asyncio, json, signal
import freezeframe
freezeframe.instrument()
BODY = {"model": "m", "messages": [{"role": "user", "content": "Where?"}]}
LIMIT = 0.2

def httpx_(url):
    import httpx
    httpx.post(url, json=BODY, timeout=LIMIT)

def openai_(url):
    import openai
    client = openai.OpenAI(base_url=url.removesuffix("/chat/completions"), api_key="none", max_retries=1)
    client.with_options(timeout=LIMIT).chat.completions.create(**BODY)

def requests_(url):
    import requests
    requests.post(url, json=BODY, timeout=LIMIT)

def urllib_request(url):
    import urllib.request
    asked = urllib.request.Request(url, json.dumps(BODY).encode(), {"content-type": "application/json"})
    urllib.request.urlopen(asked, timeout=LIMIT)

def aiohttp_(url, **limits):
    import aiohttp
    async def post():
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(**limits or {"sock_read": LIMIT})) as session:
            await session.post(url, json=BODY)
    asyncio.run(post())

def aiohttp_total(url):
    aiohttp_(url, total=LIMIT)

def interrupted(url):
    import httpx
    class Interrupted(httpx.BaseTransport):
        def handle_request(self, request):
            signal.raise_signal(signal.SIGALRM)
    def ring(*_):
        raise CAUSE("rang")
    signal.signal(signal.SIGALRM, ring)
    httpx.Client(transport=Interrupted(), timeout=300).post(url, json=BODY)

class Alarm(Exception):
    pass

CAUSE = TimeoutError

@freezeframe.run
def answer(url):
    try:
        CLIENT(url)
    except Exception as error:
        return type(error).__name__

if __name__ == "__main__":
    answer("URL")
"""


@pytest.fixture
def silence() -> Iterator[str]:
    """A provider that takes every connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1/chat/completions"


def record(folder: Path, source: str) -> Fixture:
    (folder / "agent.py").write_text(source)
    environment = {**os.environ, "FREEZEFRAME_FILE": "spans.jsonl"}
    subprocess.run([sys.executable, "agent.py"], cwd=folder, env=environment, check=True, timeout=400, capture_output=True)
    write_fixture(freeze(load_run_of_file(folder / "spans.jsonl")), folder / "saved")
    return load_fixture(folder / "saved")


def replayed(fixture: Fixture, folder: Path, source: str, policy: ReplayPolicy | None = None) -> Report:
    (folder / "agent.py").write_text(source)
    return reenact(fixture, cwd=folder, policy=policy or ReplayPolicy())


def line(report: Report) -> str:
    return headline(report).partition(", run ")[0]


@pytest.mark.parametrize(
    "client", [pytest.param("httpx_", marks=pytest.mark.proof), "openai_", "requests_", "urllib_request", "aiohttp_"]
)
def test_a_longer_timeout_than_the_one_that_ended_a_call_is_named(client: str, silence: str, tmp_path: Path) -> None:
    source = AGENT.replace("CLIENT", client).replace("URL", silence)
    fixture = record(tmp_path, source)
    assert line(replayed(fixture, tmp_path, source)).startswith("identical: ")
    longer = replayed(fixture, tmp_path, source.replace("LIMIT = 0.2", "LIMIT = 50"))
    assert longer.first is not None
    assert (longer.first.kind, longer.first.path) == (DivergenceKind.REQUEST_CHANGED, "$.timeout")
    assert longer.first.note == (
        "the call timed out after 0.2 s when recorded; the timeout is 50 s now, "
        "and what would have been answered is not recorded"
    )


def test_a_timeout_that_was_removed_diverges_a_shorter_one_does_not_and_an_ignored_one_is_named(
    silence: str, tmp_path: Path
) -> None:
    source = AGENT.replace("CLIENT", "httpx_").replace("URL", silence)
    fixture = record(tmp_path, source)
    removed = source.replace("LIMIT = 0.2", "LIMIT = None")
    report = replayed(fixture, tmp_path, removed)
    assert report.first is not None
    assert "there is no timeout now" in report.first.note
    assert line(replayed(fixture, tmp_path, source.replace("LIMIT = 0.2", "LIMIT = 0.1"))).startswith("identical: ")
    ignored = replayed(fixture, tmp_path, removed, ReplayPolicy(ignore=("timeout",)))
    assert line(ignored) == "identical, except timeout in 1 step (ignored): 1 of 1 step and the outcome"


def test_a_timeout_that_is_not_known_is_named(silence: str, tmp_path: Path) -> None:
    source = AGENT.replace("CLIENT", "httpx_").replace("URL", silence)
    fixture = record(tmp_path, source)
    step, exchange = fixture.steps[0], fixture.steps[0].exchange
    untold = replace(exchange, request=replace(exchange.request, timeouts=None))
    said = "identical, except the timeout of 1 call (not known exactly): 1 of 1 step and the outcome"
    assert line(replayed(replace(fixture, steps=(replace(step, exchange=untold),)), tmp_path, source)) == said
    assert line(replayed(fixture, tmp_path, source.replace("LIMIT = 0.2", "LIMIT = 0.205"))) == said


def test_a_timeout_that_is_worked_out_from_a_monotonic_clock_is_that_of_the_run(silence: str, tmp_path: Path) -> None:
    """The tool takes half of the time that there is, and none in a replay."""
    source = AGENT.replace("CLIENT", "after_a_tool").replace("URL", silence)
    source = source.replace(
        "@freezeframe.run",
        "import time\n\n@freezeframe.tool\ndef look():\n    time.sleep(0.4)\n\ndef after_a_tool(url):\n    import httpx\n"
        "    end = time.monotonic() + 0.8\n    look()\n    httpx.post(url, json=BODY, timeout=end - time.monotonic())\n\n"
        "@freezeframe.run",
    )
    fixture = record(tmp_path, source)
    assert line(replayed(fixture, tmp_path, source)).startswith("identical")
    longer = replayed(fixture, tmp_path, source.replace("+ 0.8", "+ 30"))
    assert longer.first is not None
    assert longer.first.path == "$.timeout"


def test_a_longer_total_of_aiohttp_waits_for_what_the_run_had_abandoned(silence: str, tmp_path: Path) -> None:
    source = AGENT.replace("CLIENT", "aiohttp_total").replace("URL", silence)
    fixture = record(tmp_path, source)
    assert line(replayed(fixture, tmp_path, source)) == "identical: 1 of 1 step and the outcome"
    longer = replayed(fixture, tmp_path, source.replace("LIMIT = 0.2", "LIMIT = 50"))
    assert longer.first is not None


@pytest.mark.parametrize("cause", ["TimeoutError", "Alarm"])
def test_an_exception_that_came_into_a_call_from_outside_is_named(cause: str, silence: str, tmp_path: Path) -> None:
    """No replay knows whether it would come again: the line is the same with and without the signal."""
    source = AGENT.replace("CLIENT", "interrupted").replace("URL", silence).replace("CAUSE = TimeoutError", f"CAUSE = {cause}")
    fixture = record(tmp_path, source)
    said = "identical, except what ended 1 call (an exception from outside of it): 1 of 1 step and the outcome"
    assert line(replayed(fixture, tmp_path, source)) == said
    assert line(replayed(fixture, tmp_path, source.replace("signal.raise_signal(signal.SIGALRM)", "pass"))) == said
