"""Several agents in one run: a handoff of openai-agents, and sub-agents in threads. Recorded for real, replayed identically."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from loopback import listening, send_json

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import Verdict, verdict

pytest.importorskip("agents")
pytest.importorskip("openai")
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts the program again

HANDOFF = """
from agents import Agent, Runner, function_tool, set_default_openai_api, set_tracing_disabled
import freezeframe

freezeframe.instrument()
set_default_openai_api("chat_completions")
set_tracing_disabled(True)


@function_tool
def refund(order: str) -> str:
    return f"refunded {order}"


billing = Agent(name="billing", instructions="You refund.", tools=[refund], model="m")
desk = Agent(name="desk", instructions="You hand over.", handoffs=[billing], model="m")


@freezeframe.run
def answer(question):
    result = Runner.run_sync(desk, question)
    return [result.last_agent.name, result.final_output]


if __name__ == "__main__":
    answer("refund AC-1")
"""
THREADS = """
from concurrent.futures import ThreadPoolExecutor
import openai
import freezeframe

freezeframe.instrument()


def sub_agent(task):
    client = openai.OpenAI()
    messages = [{"role": "system", "content": "You are a sub-agent."}, {"role": "user", "content": "the same for all"}]
    first = client.chat.completions.create(model="m", messages=messages).choices[0].message.content
    messages.append({"role": "user", "content": f"{task}: {first}"})
    return client.chat.completions.create(model="m", messages=messages).choices[0].message.content


@freezeframe.run
def answer(question):
    with ThreadPoolExecutor() as pool:
        return list(pool.map(sub_agent, ["one", "two", "three"]))


if __name__ == "__main__":
    answer("go")
"""


class Model(BaseHTTPRequestHandler):
    """Hands over, refunds, and says what happened; each answer has different words."""

    count = 0
    lock = threading.Lock()

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.lock:
            type(self).count += 1
            number = type(self).count
        offered = [tool["function"]["name"] for tool in asked.get("tools", ())]
        message: dict[str, Any] = {"role": "assistant", "content": f"answer {number}"}
        last = asked["messages"][-1]
        if offered and not (last["role"] == "tool" and "refunded" in last["content"]):
            arguments = json.dumps({"order": "AC-1"} if offered == ["refund"] else {})
            call = {"id": f"call_{number}", "type": "function", "function": {"name": offered[0], "arguments": arguments}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        answer = {
            "id": f"c{number}",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }
        body = json.dumps(answer).encode()
        send_json(self, body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


@pytest.fixture(scope="module")
def model_url() -> Iterator[str]:
    with listening(Model) as url:
        yield f"{url}/v1"


def record(folder: Path, source: str, model_url: str) -> Fixture:
    (folder / "agent.py").write_text(source)
    spans = folder / "spans.jsonl"
    environment = {**os.environ, "FREEZEFRAME_FILE": str(spans), "OPENAI_BASE_URL": model_url, "OPENAI_API_KEY": "unused"}
    done = subprocess.run(
        [sys.executable, "agent.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    return freeze(load_run_of_file(spans))


def test_a_handoff_is_reenacted_and_a_changed_second_agent_diverges_at_its_first_question(
    tmp_path: Path, model_url: str
) -> None:
    fixture = record(tmp_path, HANDOFF, model_url)
    path = [step.exchange.kind if step.exchange.kind is Kind.MODEL else step.exchange.name for step in fixture.askable]
    assert path == [Kind.MODEL, Kind.MODEL, "refund", Kind.MODEL]
    assert fixture.entry.output is not None and json.loads(fixture.entry.output)[0] == "billing"
    assert verdict(reenact(fixture, cwd=tmp_path)) is Verdict.IDENTICAL
    (tmp_path / "agent.py").write_text(HANDOFF.replace("You refund.", "You refund at once."))
    first = reenact(fixture, cwd=tmp_path).first
    assert first is not None
    assert (first.kind, first.step) == (DivergenceKind.REQUEST_CHANGED, 2)


@pytest.mark.proof
def test_sub_agents_in_threads_each_get_their_own_answers(tmp_path: Path, model_url: str) -> None:
    """All three ask the same first question; the answers are told apart by who started the agents."""
    fixture = record(tmp_path, THREADS, model_url)
    report = reenact(fixture, cwd=tmp_path)
    assert verdict(report) is Verdict.IDENTICAL
    assert {item.how for item in report.served} == {"exact"}
