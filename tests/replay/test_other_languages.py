"""Programs that are not Python, recorded through a proxy and replayed from that: the SDKs of npm, and curl.

The provider is gone in the replay, and each of its answers was another, so whatever a program sees then was recorded.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from any_provider import AnyProvider
from loopback import QuietHandler, listening, send_json
from node_packages import node_folder
from running_collector import CollectorProcess

from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.local.target import RunsPlace, load_run
from freezeframe_replay.process.program_recorder import ProgramRecorder
from freezeframe_replay.process.programs import collector_settings, record_program
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.process.served_run import ServedRun
from freezeframe_replay.process.wire_server import serve_wire
from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.exchange import Completion, Kind
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import EntryKind, Run, readiness
from freezeframe_schemas.verdict import Verdict, headline, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

QUESTION = "Where is it?"


def record(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str] | None = None
) -> tuple[Run, str]:
    """Record a program against a provider that is gone afterwards; return its run and what it printed."""
    spans, printed = tmp_path / "spans.jsonl", tmp_path / "printed"
    with AnyProvider() as provider, monkeypatch.context() as patch:
        for name, value in {**provider.variables(), **(variables or {})}.items():
            patch.setenv(name, value)
        argv = ["sh", "-c", 'out=$0; "$@" >"$out"', str(printed), *command]
        recorder, status, _ = record_program(argv, settings=collector_settings({"file": str(spans)}, None))
    assert status == 0
    (run,) = load_runs_of_file(spans)
    assert run.trace_id == recorder.trace_id
    return run, printed.read_text()


def serve(fixture: Fixture, command: list[str], **variables: str) -> tuple[ServedRun, subprocess.CompletedProcess[str]]:
    """Start a program against the run."""
    run = ServedRun(fixture)
    with serve_wire([run]) as url:
        environ = {**os.environ, **run.environment(url), **variables}
        return run, subprocess.run(command, env=environ, capture_output=True, text=True, timeout=400, check=False)


AGENTS = ["chat", "responses", "messages", "ai-openai", "ai-responses", "ai-anthropic"]


@pytest.mark.parametrize("agent", AGENTS)
def test_an_sdk_of_npm_is_recorded_and_replayed_whole_and_streamed_with_its_tools(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["node", str(node_folder() / "sdks.mjs"), agent, QUESTION]
    run, printed = record(command, tmp_path, monkeypatch)
    fixture = freeze(run)
    calls = [step for step in fixture.steps if step.exchange.kind is Kind.MODEL]
    assert len(calls) >= 2
    served, done = serve(fixture, command)
    assert (done.returncode, done.stdout) == (0, printed), done.stderr
    assert verdict(served.report()) is Verdict.IDENTICAL, headline(served.report())
    assert len(served.report().served) == len(calls)
    served, done = serve(fixture, command, TOOLS_ARE_SERVED="1")
    assert (done.returncode, done.stdout) == (0, printed), done.stderr
    assert verdict(served.report()) is Verdict.IDENTICAL, headline(served.report())
    assert served.tools.asked == {"track"}
    assert len(served.report().served) > len(calls)
    tools = [step.exchange for step in fixture.steps if step.exchange.kind is Kind.TOOL]
    if agent.startswith("ai-"):  # has a telemetry of its own, which tells of its tools
        assert tools
        assert [(call.name, json.loads(call.response.body)["place"]) for call in tools] == [("track", "Lyon")] * len(tools)
        assert len(served.report().served) == len(fixture.askable)


def test_another_question_of_a_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["node", str(node_folder() / "clients.mjs"), "fetch", QUESTION]
    run, _ = record(command, tmp_path, monkeypatch)
    served, done = serve(freeze(run), [*command[:-1], "Where is the other?"])
    assert (done.returncode, len(served.report().served)) == (1, 0)
    assert [(item.kind, item.step) for item in served.report().divergences][:1] == [(DivergenceKind.REQUEST_CHANGED, 1)]
    assert "Where is the other?" in str(served.report().divergences[0].live)


CLIENTS = ["fetch", "node:http", "axios", "got", "undici", "node-fetch"]
SDKS = ["gemini", "langchain", "agents-chat", "agents-responses", "ollama", "cohere"]


@pytest.mark.parametrize("client", CLIENTS + SDKS)
def test_a_client_of_node_is_recorded_and_replayed_identical_and_its_random_tool_does_not_run_again(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["node", str(node_folder() / "clients.mjs"), client, QUESTION]
    ran = tmp_path / "ran"
    run, printed = record(command, tmp_path, monkeypatch, {"TOOLS_RUN": str(ran)})
    assert [exchange.kind for exchange in run.exchanges] == [Kind.MODEL] * 3
    assert len(ran.read_text().splitlines()) == 1
    served, done = serve(freeze(run), command, TOOLS_RUN=str(ran))
    assert (done.returncode, done.stdout) == (0, printed), done.stderr
    assert verdict(served.report()) is Verdict.IDENTICAL, headline(served.report())
    assert (served.tools.asked, len(served.report().served)) == ({"track"}, 4)
    assert len(ran.read_text().splitlines()) == 1


@pytest.mark.proof("command run --proxy")
def test_a_recorded_program_is_started_again_by_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = shutil.which("curl")
    if program is None:
        pytest.skip("needs curl")
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": QUESTION}]}
    script = tmp_path / "agent.sh"
    script.write_text(
        f"set -e; ask() {{ {program} -sSNf --noproxy '*' -H 'content-type: application/json' -d \"$1\" "
        "$OPENAI_BASE_URL/chat/completions; }\n"
        f"ask '{json.dumps(body)}' | tee one; ask '{json.dumps({**body, 'stream': True})}' >two; test -z \"$FAILS\"\n"
    )
    monkeypatch.chdir(tmp_path)
    spans = tmp_path / "spans.jsonl"
    with AnyProvider() as provider, monkeypatch.context() as patch:
        for name, value in provider.variables().items():
            patch.setenv(name, value)
        assert record_program(["sh", "agent.sh"], settings=collector_settings({"file": str(spans)}, None))[1] == 0
    (run,) = load_runs_of_file(spans)
    told = [Path(name).read_bytes() for name in ("one", "two")]
    assert (run.entry.kind, readiness(run).level) == (EntryKind.PROGRAM, 4)
    fixture = freeze(run)
    report = reenact(fixture)
    assert headline(report).startswith("identical, except the outcome (not seen by the replay): 2 of 2 steps")
    assert [Path(name).read_bytes() for name in ("one", "two")] == told
    assert told[1].endswith(b"data: [DONE]\n\n")
    failed = reenact(fixture, env={"FAILS": "1"})
    assert [(item.kind, item.recorded, item.live) for item in failed.divergences] == [
        (DivergenceKind.OUTCOME_CHANGED, "0", "1")
    ]


class _Whole(QuietHandler):
    """A provider that sends each answer with its length."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        send_json(self, b'{"object": "chat.completion", "choices": [{"index": 0, "message": {"content": "Lyon"}}]}')


IN_TURN = """
import os, urllib.request as u
for _ in range(2):
    body = b'{"model": "gpt-4o", "messages": []}'
    u.urlopen(u.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, {"Content-Type": "application/json"})).read()
"""


def test_calls_one_after_another_do_not_overlap_however_late_the_proxy_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is still busy with the first call when the program, which has the answer, makes the second."""
    slots: list[int] = []
    second = threading.Event()
    begin, add = ProgramRecorder.begin, ProgramRecorder.add

    def begin_noted(recorder: ProgramRecorder) -> int:
        slots.append(begin(recorder))
        if len(slots) == 2:
            second.set()
        return slots[-1]

    def add_late(recorder: ProgramRecorder, *arguments: Any, **named: Any) -> None:
        assert second.wait(300)
        add(recorder, *arguments, **named)

    monkeypatch.setattr(ProgramRecorder, "begin", begin_noted)
    monkeypatch.setattr(ProgramRecorder, "add", add_late)
    with listening(_Whole) as url:
        run, _ = record([sys.executable, "-c", IN_TURN], tmp_path, monkeypatch, {"OPENAI_BASE_URL": f"{url}/v1"})
    assert slots == [0, 0]
    assert [exchange.lane for exchange in run.exchanges] == [(), ()]


KEPT = """
import http.client, os, urllib.parse as p
url = p.urlsplit(os.environ["OPENAI_BASE_URL"])
kept = http.client.HTTPConnection(url.netloc)
for _ in range(3):
    body = b'{"model": "gpt-4o", "messages": []}'
    kept.request("POST", url.path + "/chat/completions", body, {"Content-Type": "application/json"})
    print(kept.getresponse().read())
"""


def test_a_program_that_keeps_its_connection_gets_each_answer_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(_Whole) as url:
        run, printed = record([sys.executable, "-c", KEPT], tmp_path, monkeypatch, {"OPENAI_BASE_URL": f"{url}/v1"})
    assert printed.count("Lyon") == 3
    assert [exchange.response.completion for exchange in run.exchanges] == [Completion.COMPLETE] * 3


STRANGER = """
import os, urllib.error, urllib.parse, urllib.request

url = urllib.parse.urlsplit(os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"])
for path in ("/v1/traces", "/-/mcp-calls", "/-/at/openai/v1/models", "/-/to/http://127.0.0.1:9/"):
    try:
        urllib.request.urlopen(f"http://{url.netloc}{path}", data=b"")
    except urllib.error.HTTPError as error:
        print(error.code)
"""


def test_who_does_not_know_the_token_of_a_recording_cannot_write_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, printed = record([sys.executable, "-c", STRANGER], tmp_path, monkeypatch)
    assert printed.split() == ["401"] * 4
    assert [span.span_id for span in run.spans] == [run.entry.span_id]


SERVER = '''
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("shop")

@server.tool()
def get_order(order_id: str) -> str:
    """Look an order up."""
    open(sys.argv[1], "a").write("called\\n")
    return f"{order_id} is in Lyon"

@server.prompt()
def greet(name: str) -> str:
    """Greet."""
    return f"Say hello to {name}"

@server.resource("shop://orders/{order_id}")
def order(order_id: str) -> str:
    """Read an order."""
    return f"{order_id}: one lamp"

server.run("stdio")
'''


def test_a_wrapped_mcp_server_is_recorded_and_then_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, log = tmp_path / "server.py", tmp_path / "calls"
    script.write_text(SERVER)
    wrapper = [sys.executable, "-m", "freezeframe._cli", "run", "--proxy", "--mcp", "--", sys.executable, str(script), str(log)]
    command = ["node", str(node_folder() / "sdks.mjs"), "mcp-stdio", "AC-1"]
    wrapped = {"MCP_SERVER": json.dumps(wrapper)}
    run, printed = record(command, tmp_path, monkeypatch, wrapped)
    told = json.loads(printed)
    assert told["content"] == [{"type": "text", "text": "AC-1 is in Lyon"}]
    assert [told["prompt"], told["resource"]] == ["Say hello to AC-1", "AC-1: one lamp"]
    assert log.read_text() == "called\n"
    for agent in ("mcp-stdio", "mcp-http"):  # over HTTP, the same program finds the same tools
        served, done = serve(freeze(run), [*command[:2], agent, "AC-1"], **wrapped)
        assert (done.returncode, done.stdout) == (0, printed), done.stderr
        assert verdict(served.report()) is Verdict.IDENTICAL, headline(served.report())
    assert log.read_text() == "called\n"
    served, done = serve(freeze(run), [*command[:-1], "AC-2"], **wrapped)
    assert "REPLAY-101" in done.stderr
    assert [(item.name, item.live) for item in served.report().divergences][:1] == [("prompts/get", '"AC-2"')]


GO = """
package main

import ("bufio"; "bytes"; "fmt"; "net/http"; "os")

func ask(body string) {
	answer, err := http.Post(os.Getenv("OPENAI_BASE_URL")+"/chat/completions", "application/json", bytes.NewBufferString(body))
	if err != nil || answer.StatusCode != 200 { os.Exit(1) }
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); { fmt.Println(lines.Text()) }
}

func main() {
	said := fmt.Sprintf(`"model": "gpt-4o", "messages": [{"role": "user", "content": "%s"}]`, os.Args[1])
	ask("{" + said + "}")
	ask("{" + said + `, "stream": true}`)
}
"""


def test_a_program_in_go_is_recorded_and_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("go") is None:
        pytest.skip("needs go")
    (tmp_path / "agent.go").write_text(GO)
    subprocess.run(["go", "build", "-o", "agent", "agent.go"], cwd=tmp_path, check=True, timeout=400)
    command = [str(tmp_path / "agent"), QUESTION]
    run, printed = record(command, tmp_path, monkeypatch)
    served, done = serve(freeze(run), command)
    assert (done.stdout, verdict(served.report())) == (printed, Verdict.IDENTICAL)
    served, done = serve(freeze(run), [command[0], "Where else?"])
    assert (done.returncode, verdict(served.report())) == (1, Verdict.DIVERGED)


@pytest.mark.proof("command run --reuse")
def test_a_recorded_program_reaches_the_store_and_a_cache_answers_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": QUESTION}]})
    (tmp_path / "ask.py").write_text(
        "import os, sys, urllib.request as u; u.urlopen(u.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', "
        "sys.argv[1].encode(), {'Content-Type': 'application/json'}))"
    )
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "ask.py", body]
    collector = CollectorProcess(tmp_path / "data")
    try:
        with AnyProvider() as provider, monkeypatch.context() as patch:
            for name, value in {**provider.variables(), "FREEZEFRAME_DATA": str(tmp_path / "data")}.items():
                patch.setenv(name, value)
            assert main(["run", "--proxy", "--", *command]) == 0
            assert main(["replay", "last", "--quiet"]) == 0
            assert main(["replay", "last", "--quiet", "--", *command[:-1], command[-1].replace("Where", "Who")]) == 3
            assert provider.asked == 1
            assert main(["run", "--reuse", "--", *command]) == 0
            assert provider.asked == 1
            said = capsys.readouterr().err
            assert "answered 1 of 1 model call from earlier runs; saved 0 tokens in, 7 out, $0.0001" in said
            assert (
                main(["replay", "last", "--quiet"]) == 0
            )  # the run of the answered call has no step, so `last` is the one before
            assert main(["run", "--reuse", "--", *command[:-1], command[-1].replace("Where", "Who")]) == 0
            assert provider.asked == 2
            patch.setattr("freezeframe_replay.process.cached_answers._MAX_RUNS", 1)  # and the newest asked another question
            assert main(["run", "--reuse", "--", *command]) == 0
            assert provider.asked == 2
            assert "answered 0 of 1 model call from earlier runs" in capsys.readouterr().err
    finally:
        collector.stop()


def test_what_a_served_run_does_not_hold_goes_to_the_provider_and_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asks = """
import json, os, sys, urllib.request as u
for question in sys.argv[1:]:
    body = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": question}]}).encode()
    asked = u.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, {"Content-Type": "application/json"})
    print(json.load(u.urlopen(asked))["choices"][0]["message"]["content"])
"""
    command = [sys.executable, "-c", asks]
    collector = CollectorProcess(tmp_path / "data")
    try:
        with AnyProvider() as provider, monkeypatch.context() as patch:
            for name, value in {**provider.variables(), "FREEZEFRAME_DATA": str(tmp_path / "data")}.items():
                patch.setenv(name, value)
            assert main(["run", "--proxy", "--", *command, QUESTION]) == 0
            place = RunsPlace(data=tmp_path / "data")
            first = load_run(place, "last").trace_id
            capfd.readouterr()
            assert main(["replay", "serve", first, "--live-miss", "--", *command, QUESTION]) == 0
            told = capfd.readouterr()
            assert told.out.startswith("identical")
            assert "made for real and recorded: 0 calls, run " in told.err
            assert provider.asked == 1
            assert main(["replay", "serve", first, "--live-miss", "--", *command, QUESTION, "Who is it?"]) == 3
            told = capfd.readouterr()
            assert "REPLAY-" in told.out
            assert provider.asked == 2
            recorded = load_run(place, re.search(r"recorded: 1 call, run (\w+)", told.err)[1])  # type: ignore[index]
            (exchange,) = recorded.exchanges
            assert b"Who is it?" in exchange.request.body
            assert exchange.response.status == 200
            assert main(["replay", "serve", first, "--live-miss"]) == 1
    finally:
        collector.stop()
