"""A fixed agent goes on live once it leaves the recording: the model is asked, tools stay frozen unless named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from handmade_runs import make_run, model_call, tool_call
from loopback import listening, send_json

from freezeframe.seams import Call
from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import Fence, ReplayPolicy, policy_from_json, policy_to_json
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas import values
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Exchange, Kind
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import headline

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts the program again

AGENT = """
import json, os, pathlib
import httpx
import freezeframe

freezeframe.instrument()

def ask(text):
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    answer = httpx.post(os.environ["OPENAI_BASE_URL"] + "/v1/chat/completions", json=body)
    return answer.json()["choices"][0]["message"]["content"]

@freezeframe.tool
def orders(name):
    mark("orders")
    return ["AC-1", "AC-2"]

@freezeframe.tool
def track(order):
    mark("track")
    return {"AC-1": "Lyon", "AC-2": "Bonn"}[order]

def mark(text):
    with pathlib.Path("touched").open("a") as file:
        file.write(text + " ")

@freezeframe.run
def answer(question):
    ask(question)
    order = orders("keller")[0]
    place = "Lyon"  # track(order)
    return ask(f"say that {order} is in {place}")

if __name__ == "__main__":
    print(answer("where is it?"))
"""


class Echo(BaseHTTPRequestHandler):
    """A model that says what it was told to."""

    asked: list[str]

    def do_POST(self) -> None:
        text = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"][-1]["content"]
        self.asked.append(text)
        body = json.dumps({"choices": [{"message": {"role": "assistant", "content": text.removeprefix("say that ")}}]}).encode()
        send_json(self, body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The model on loopback; what it was asked."""
    asked: list[str] = []
    with listening(type("Handler", (Echo,), {"asked": asked})) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        yield asked


@pytest.fixture
def recorded(provider: list[str], tmp_path: Path) -> Fixture:
    """The agent's run about the wrong order, recorded for real; nothing is touched yet by a replay."""
    (tmp_path / "agent.py").write_text(AGENT)
    done = subprocess.run(
        [sys.executable, "agent.py"],
        cwd=tmp_path,
        env={**os.environ, "FREEZEFRAME_FILE": "spans.jsonl"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.stdout == "AC-1 is in Lyon\n", done.stderr
    provider.clear()
    (tmp_path / "touched").unlink()
    return freeze(load_run_of_file(tmp_path / "spans.jsonl"))


def fix(folder: Path, old: str, new: str) -> None:
    source = (folder / "agent.py").read_text()
    assert old in source
    (folder / "agent.py").write_text(source.replace(old, new))


@pytest.mark.proof
def test_fixed_code_goes_on_live_and_reaches_the_right_answer_with_frozen_tools(
    recorded: Fixture, provider: list[str], tmp_path: Path
) -> None:
    fix(tmp_path, '("keller")[0]', '("keller")[1]')
    report = reenact(recorded, cwd=tmp_path, policy=ReplayPolicy(live=frozenset({Kind.MODEL})))
    assert report.outcome == '"AC-2 is in Lyon"', report
    assert provider == ["say that AC-2 is in Lyon"]
    assert not (tmp_path / "touched").exists()
    assert [item.step for item in report.served] == [1, 2]
    assert [(call.call_kind, call.step) for call in report.live] == [("model", 3)]
    assert [(item.kind, item.step) for item in report.divergences] == [(DivergenceKind.REQUEST_CHANGED, 3)]


@pytest.mark.proof
def test_a_tool_runs_for_real_only_where_it_is_named(recorded: Fixture, provider: list[str], tmp_path: Path) -> None:
    fix(tmp_path, '"Lyon"  # track(order)', "track(order)")
    refused = reenact(recorded, cwd=tmp_path, policy=ReplayPolicy(live=frozenset({Kind.MODEL})))
    assert not refused.live
    assert "--allow-tool track" in ((refused.first and refused.first.note) or "")
    assert not (tmp_path / "touched").exists()
    allowed = reenact(
        recorded, cwd=tmp_path, policy=ReplayPolicy(live=frozenset({Kind.MODEL}), allow_tools=frozenset({"track"}))
    )
    assert allowed.outcome == '"AC-1 is in Lyon"'
    assert (tmp_path / "touched").read_text() == "track "
    assert [(call.call_kind, call.name) for call in allowed.live] == [("tool", "track")]
    assert provider == []


def test_unchanged_code_asks_anew_from_the_named_step_on(recorded: Fixture, provider: list[str], tmp_path: Path) -> None:
    report = reenact(recorded, cwd=tmp_path, policy=ReplayPolicy(live=frozenset({Kind.MODEL}), live_from=2))
    assert provider == ["say that AC-1 is in Lyon"]
    assert [item.step for item in report.served] == [1, 2]
    assert [call.step for call in report.live] == [3]
    assert report.divergences == ()
    assert headline(report).startswith("identical, except 1 call made for real: 2 of 3 steps and the outcome, run ")


@pytest.mark.proof
def test_without_a_policy_nothing_goes_out(recorded: Fixture, provider: list[str], tmp_path: Path) -> None:
    fix(tmp_path, '("keller")[0]', '("keller")[1]')
    report = reenact(recorded, cwd=tmp_path)
    assert provider == []
    assert report.outcome is not None and "ReplayMiss" in report.outcome


def call_of(exchange: Exchange) -> Call:
    return Call(kind=exchange.kind, name=exchange.name, seam=exchange.seam, request=exchange.request, lane=exchange.lane)


def test_only_hosts_that_were_asked_live_are_open() -> None:
    session = ReplaySession(
        freeze(build_run(make_run(model_call("a", "1")))), policy=ReplayPolicy(live=frozenset({Kind.MODEL}))
    )
    assert not session.is_open("api.openai.com")
    assert session.respond(call_of(model_call("other", ""))) is None
    assert session.is_open("api.openai.com")
    assert not session.is_open("example.com")
    with pytest.raises(ReplayMiss):
        session.respond(call_of(tool_call("look", 1)))


def test_a_replay_stops_before_the_named_step_with_the_request_about_to_be_made() -> None:
    steps = model_call("a", "1"), tool_call("look", "Lyon", "AC-1"), model_call("b", "2")
    session = ReplaySession(freeze(build_run(make_run(*steps))), policy=ReplayPolicy(stop_before=2))
    order = "AC-1"
    assert session.respond(call_of(steps[0])) is not None
    with pytest.raises(ReplayMiss, match="stopped before step 2"):
        session.respond(call_of(steps[1]))
    session.leave(None, values.encode_exception(ReplayMiss("x")))
    report = session.report()
    stopped = report.stopped
    assert stopped is not None
    assert (stopped.step, stopped.name, stopped.answer) == (2, "look", '"Lyon"')
    assert json.loads(stopped.request)["args"] == [order]
    assert stopped.frames[0].variables["order"] == repr(order)
    assert report.divergences == ()


def test_a_policy_survives_its_way_to_the_replayed_process() -> None:
    policy = ReplayPolicy(
        ignore=("body.model",),
        live=frozenset({Kind.MODEL}),
        live_from=3,
        allow_tools=frozenset({"x"}),
        stop_before=2,
        real_time=True,
        fences=frozenset(Fence),
        allow_paths=("out",),
        allow_programs=frozenset({"git"}),
    )
    assert policy_from_json(policy_to_json(policy)) == policy


def test_the_command_line_lists_each_live_call(
    recorded: Fixture, provider: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fix(tmp_path, '("keller")[0]', '("keller")[1]')
    assert main(["replay", "spans.jsonl", "--live", "model"]) == 3
    shown = capsys.readouterr().out
    assert "REPLAY-101 diverged at step 3" in shown
    assert "  live: model POST /v1/chat/completions in place of step 3" in shown
    assert 'returned "AC-2 is in Lyon"' in shown
    assert main(["replay", "spans.jsonl", "--live-from", "2"]) == 1
    assert "--live-from requires --live" in capsys.readouterr().err
