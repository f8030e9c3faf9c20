"""An agent that asks a model which order to track, and a model on loopback that answers as its name says."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from agent_folder import Folder
from loopback import listening, send_json

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.fixture import Fixture

AGENT = """
import json, os, sys
import httpx
import freezeframe

freezeframe.instrument()

MODEL = "m"
SYSTEM = "You pick the order."

def ask(text):
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
    url = os.environ["OPENAI_BASE_URL"] + "/v1/chat/completions"
    answer = httpx.post(url, json={"model": MODEL, "messages": messages, "temperature": 1}).json()
    return answer["choices"][0]["message"]["content"]

@freezeframe.tool
def orders(name):
    return ["AC-1", "AC-2"]

@freezeframe.tool
def track(order, note=""):
    return {"AC-1": "Lyon", "AC-2": "Bonn"}[order]

@freezeframe.run
def answer(question):
    found = orders("keller")
    order = ask(f"pick for {question}: " + " ".join(found))
    place = track(order, note=f"asked by {question}")
    return ask(f"say that {order} is in {place}")

if __name__ == "__main__":
    print(answer(sys.argv[1]))
"""


@dataclass(kw_only=True)
class Provider:
    """The model on loopback."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    say: Callable[[dict[str, Any]], str] | None = None
    fingerprint: str = "fp_1"

    def answer(self, body: dict[str, Any]) -> str:
        """Return what the model says: depending on its name, another order, other words, or a refusal."""
        self.asked.append(body)
        if self.say is not None:
            return self.say(body)
        model, text = str(body["model"]), str(body["messages"][-1]["content"])
        if text.startswith("pick"):
            return "AC-2" if model == "other-order" else "AC-1"
        words = text.removeprefix("say that ")
        return f"Your order: {words}." if model == "wordy" else words


def _handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            body = json.dumps(
                {
                    "id": f"chatcmpl-{len(provider.asked)}",
                    "model": f"{asked['model']}-2026",
                    "system_fingerprint": provider.fingerprint,
                    "choices": [
                        {
                            "index": 0,
                            "message": {"role": "assistant", "content": provider.answer(asked)},
                            "finish_reason": "stop",
                        }
                    ],
                }
            ).encode()
            send_json(self, body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            """Keep quiet."""

    return Handler


@contextmanager
def serving() -> Generator[Provider]:
    """Serve a model on loopback."""
    provider = Provider()
    with listening(_handler(provider)) as provider.url:
        yield provider


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """The model, and what it was asked."""
    with serving() as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        yield provider


@dataclass(frozen=True, kw_only=True)
class Agent(Folder):
    """The agent's folder."""

    def record(self, question: str, **environ: str) -> Fixture:
        """Run it for real and return the run."""
        spans = self.root / f"spans-{question}.jsonl"
        done = self.python("agent.py", question, environ={"FREEZEFRAME_FILE": str(spans), **environ})
        assert done.returncode == 0, done.stderr
        return freeze(load_run_of_file(spans))


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """The agent, in a separate folder."""
    (tmp_path / "agent.py").write_text(AGENT)
    return Agent(root=tmp_path)


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fixture, Fixture]:
    """Two runs of the agent, recorded once: for Ann and for Bob."""
    root = tmp_path_factory.mktemp("recorded")
    (root / "agent.py").write_text(AGENT)
    with serving() as provider:
        recorder = Agent(root=root)
        ann, bob = (recorder.record(question, OPENAI_BASE_URL=provider.url) for question in ("Ann", "Bob"))
    return ann, bob
