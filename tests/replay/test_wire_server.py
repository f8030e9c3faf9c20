"""A recorded run as an HTTP server: programs in other processes and languages get the recorded bytes through their own SDKs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from capture_provider import Provider
from node_packages import node_folder

import freezeframe
from freezeframe.testing import capture
from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.served_run import ServedRun
from freezeframe_replay.process.wire_server import serve_wire
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

TOOLS: Any = [{"type": "function", "function": {"name": "ship", "parameters": {"type": "object", "properties": {}}}}]


def client_of(url: str, retries: int = 0) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{url}/v1", api_key="x", max_retries=retries, http_client=httpx2.Client(verify=False, trust_env=False)
    )


def record(agent: Callable[[str], Any], *faults: str) -> tuple[Fixture, Any]:
    """Record the agent against a provider that is gone afterwards."""
    with Provider() as provider, capture() as captured:
        provider.faults.extend(faults)
        outcome = freezeframe.run(name="agent")(lambda: agent(provider.url))()
        return freeze(build_run(captured.spans)), outcome


@contextmanager
def served(fixture: Fixture) -> Generator[tuple[str, ServedRun]]:
    run = ServedRun(fixture)
    with serve_wire([run]) as url:
        yield url, run


def loop(url: str, question: str = "Ship AC-1.") -> dict[str, Any]:
    """The same as agent.mjs, with a recorded tool."""

    @freezeframe.tool
    def ship(order: str) -> dict[str, str]:
        return {"shipped": order}

    client = client_of(url)
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        message = client.chat.completions.create(model="gpt-4o", messages=messages, tools=TOOLS).choices[0].message
        if not message.tool_calls:
            messages.append({"role": "assistant", "content": message.content})
            break
        calls = [call.model_dump() for call in message.tool_calls]
        messages.append({"role": "assistant", "tool_calls": calls})
        for call in calls:
            result = ship(json.loads(call["function"]["arguments"])["order_id"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result, separators=(",", ":"))})
    messages.append({"role": "user", "content": "Sum it up."})
    stream = client.chat.completions.create(model="gpt-4o", messages=messages, stream=True)
    return {"said": messages[-2]["content"], "chunks": [chunk.choices[0].delta.content or "" for chunk in stream]}


@pytest.mark.proof
def test_a_client_in_another_process_gets_the_recorded_answers_and_chunks() -> None:
    fixture, outcome = record(loop)
    with served(fixture) as (url, run):
        assert loop(url) == outcome
    report = run.report()
    assert verdict(report) is Verdict.IDENTICAL
    assert (report.steps, len(report.served)) == (3, 3)  # the tool is the program's own


@pytest.mark.proof
def test_a_changed_question_is_refused_without_a_retry_and_named() -> None:
    fixture, _ = record(loop)
    with served(fixture) as (url, run):
        with pytest.raises(openai.APIStatusError) as caught:
            client_of(url, retries=3).chat.completions.create(
                model="gpt-4o", messages=[{"role": "user", "content": "Ship AC-2."}], tools=TOOLS
            )
        assert caught.value.status_code == 424
        assert "REPLAY-101 diverged at step 1" in caught.value.message
    assert [(item.kind, item.step) for item in run.report().divergences] == [(DivergenceKind.REQUEST_CHANGED, 1)]


def test_a_miss_is_told_in_the_form_of_the_clients_provider() -> None:
    fixture, _ = record(loop)
    with served(fixture) as (url, _):
        with pytest.raises(anthropic.APIStatusError) as caught:
            anthropic.Anthropic(base_url=url, api_key="x", max_retries=3).messages.create(
                model="claude-haiku-4-5", max_tokens=9, messages=[{"role": "user", "content": "Ship AC-1."}]
            )
        body: Any = caught.value.body
        assert (caught.value.status_code, body["type"]) == (424, "error")
        assert "REPLAY-1" in body["error"]["message"]
        assert httpx2.get(f"{url}/v1/files", trust_env=False).json()["error"]["message"]


def test_failures_are_served_as_they_came() -> None:
    def agent(url: str) -> Any:
        found: list[Any] = []
        for stream in (False, False, True):
            try:
                answer: Any = client_of(url, retries=0).chat.completions.create(
                    model="gpt-4o", messages=[{"role": "user", "content": "again"}], stream=stream
                )
                if stream:
                    found.extend(chunk.choices[0].delta.content for chunk in answer)
            except (openai.APIError, httpx2.HTTPError) as error:
                found.append(getattr(error, "status_code", None) or type(error).__name__)
        return found

    fixture, outcome = record(agent, "500", "hang-up", "stream-cut")
    with served(fixture) as (url, run):
        assert agent(url) == outcome
    assert verdict(run.report()) is Verdict.IDENTICAL


def test_equal_requests_are_answered_in_the_order_in_which_they_come() -> None:
    def agent(url: str) -> list[Any]:
        return [
            client_of(url).chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "same"}]).id
            for _ in range(3)
        ]

    fixture, outcome = record(agent)
    with served(fixture) as (url, _):
        assert agent(url) == outcome


def test_sdks_are_led_by_the_base_url_that_the_runhad() -> None:
    fixture, _ = record(lambda url: loop(f"{url}/deep"))
    variables = ServedRun(fixture).environment("http://127.0.0.1:1")
    assert variables["OPENAI_BASE_URL"] == "http://127.0.0.1:1/deep/v1"
    assert variables["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"


@pytest.mark.proof("command replay serve")
def test_the_command_runs_a_program_and_tells_where_it_left_the_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fixture, _ = record(loop)
    write_fixture(fixture, tmp_path / "run")
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, openai\n"
        "client = openai.OpenAI()\n"
        "messages = [{'role': 'user', 'content': sys.argv[1]}]\n"
        "tools = [{'type': 'function', 'function': {'name': 'ship', 'parameters': {'type': 'object', 'properties': {}}}}]\n"
        "client.chat.completions.create(model='gpt-4o', messages=messages, tools=tools)\n"
    )
    assert main(["replay", "serve", str(tmp_path / "run"), "--", sys.executable, str(program), "Ship AC-1."]) == 3
    assert "REPLAY-103 a recorded step was never requested at step 3" in capfd.readouterr().out
    assert main(["replay", "serve", str(tmp_path / "run"), "--", sys.executable, str(program), "Ship AC-2."]) == 3
    assert '+ "Ship AC-2."' in capfd.readouterr().out
    assert main(["replay", "serve", str(tmp_path / "run"), "--", "true"]) == 125


def streamed_ask(url: str) -> list[str]:
    """Read a stream as the SDK does: to `[DONE]`, and no further."""
    asked: Any = [{"role": "user", "content": "again"}]
    chunks = client_of(url).chat.completions.create(model="gpt-4o", messages=asked, stream=True)
    return [chunk.choices[0].delta.content or "" for chunk in chunks]


FETCH = """
const [url, body] = process.argv.slice(1);
const answer = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
process.stdout.write(await answer.text());
"""


@pytest.mark.parametrize("client", ["curl", "node"])
def test_a_stream_that_its_sdk_read_to_its_last_event_ends_properly_for_every_client(client: str) -> None:
    program = shutil.which(client)
    if program is None:
        pytest.skip(f"needs {client}")
    fixture, _ = record(streamed_ask)
    (step,) = fixture.steps
    body = step.exchange.request.body.decode()
    with served(fixture) as (url, run):
        asked = f"{url}/v1/chat/completions"
        command = {
            "curl": [program, "-sS", "--noproxy", "*", "-H", "content-type: application/json", "-d", body, asked],
            "node": [program, "--input-type=module", "-e", FETCH, asked, body],
        }[client]
        done = subprocess.run(command, capture_output=True, timeout=400, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == step.exchange.response.body
    assert done.stdout.endswith(b"data: [DONE]\n\n")
    assert verdict(run.report()) is Verdict.IDENTICAL


@pytest.fixture(scope="session")
def node_agent() -> Path:
    """The agent in JavaScript, with its SDK next to it."""
    return node_folder() / "agent.mjs"


def test_an_agent_in_javascript_is_answered_through_its_own_sdk(node_agent: Path) -> None:
    fixture, outcome = record(loop)

    def ask(question: str) -> tuple[subprocess.CompletedProcess[str], ServedRun]:
        with served(fixture) as (url, run):
            environ = {**os.environ, **run.environment(url)}
            command = ["node", str(node_agent), question]
            return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=400, check=False), run

    done, run = ask("Ship AC-1.")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == outcome
    assert verdict(run.report()) is Verdict.IDENTICAL, run.report()
    done, run = ask("Ship AC-2.")
    assert "REPLAY-101 diverged at step 1" in done.stderr
    assert [(item.kind, item.step) for item in run.report().divergences] == [(DivergenceKind.REQUEST_CHANGED, 1)]
