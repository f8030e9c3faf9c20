"""The way a user goes: up, record, runs, show, sql, replay, fixture, its test, down. Real processes, ephemeral ports."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from agent_folder import EPHEMERAL, Project

from freezeframe_collector.readers.sandbox import why_no_sandbox
from freezeframe_replay.local import daemon
from freezeframe_replay.local.collector import ask
from freezeframe_replay.local.home import Home
from freezeframe_schemas.fixture import load_fixture
from freezeframe_schemas.local_tokens import SENDER, read_token
from freezeframe_schemas.run import Run

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

RECORD = (
    "import freezeframe; freezeframe.instrument(); import agent; agent.answer('where is it? maria.keller@northbay-mail.com')"
)
FAIL = (
    "import freezeframe, agent\nfreezeframe.instrument()\n"
    "@freezeframe.run\ndef lose(order):\n    agent.track(order)\n    raise LookupError('lost')\n"
    "try:\n    lose('AC-1')\nexcept LookupError: pass\n"
)
FOREIGN = """
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
import sys
provider = TracerProvider()
headers = {"authorization": "Bearer " + sys.argv[2]}
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(sys.argv[1] + "/v1/traces", headers=headers)))
with provider.get_tracer("vendor").start_as_current_span("chat gpt-x") as span:
    print(format(span.get_span_context().trace_id, "032x"))
provider.shutdown()
"""


def port_of(project: Project, name: str) -> int:
    folder = project.root / ".freezeframe"
    file = folder / "processes" / "replay-ports.json" if name == "replay" else folder / "ports.json"
    ports: dict[str, int] = json.loads(file.read_text())
    return ports["http" if name == "replay" else name]


def run_command(project: Project, *arguments: str) -> str:
    """Return what a command prints; it must succeed."""
    done = project.freezeframe(*arguments)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def project(recorded: tuple[Path, Run], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project with everything up and three runs in the store: one that went well, one that failed, a vendor's."""
    root = tmp_path_factory.mktemp("up")
    shutil.copy(recorded[0] / "agent.py", root / "agent.py")
    (root / ".freezeframe").mkdir()  # so that no folder above is used
    project = Project(root=root)
    try:
        done = project.freezeframe("up", *EPHEMERAL)
        assert done.returncode == 0, done.stderr
        for program in (FAIL, RECORD):
            done = project.python("-c", program, environ={"GIT_COMMIT": "1f4aa9f"})
            assert done.returncode == 0, done.stderr
        yield project
    finally:
        project.freezeframe("down")


@pytest.fixture(scope="module")
def good_run(project: Project) -> str:
    """Trace id of the run that went well."""
    runs: list[dict[str, Any]] = json.loads(run_command(project, "runs", "--json"))
    return next(run["trace_id"] for run in runs if run["name"] == "answer")


def test_up_again_changes_nothing(project: Project) -> None:
    """What is running is left alone, and the addresses are shown again."""
    before = run_command(project, "status", "--json")
    assert f"http://127.0.0.1:{port_of(project, 'http')}" in run_command(project, "up", *EPHEMERAL)
    pids = [
        {name: part["pid"] for name, part in json.loads(text)["services"].items()}
        for text in (before, run_command(project, "status", "--json"))
    ]
    assert pids[0] == pids[1]


def test_an_identical_replay_earns_the_highest_level_wherever_it_is_shown(project: Project, good_run: str) -> None:
    def levels() -> list[object]:
        [row] = [row for row in json.loads(run_command(project, "runs", "--json")) if row["trace_id"] == good_run]
        shown = json.loads(run_command(project, "show", good_run, "--json"))
        sql = f"SELECT level, level_name FROM readiness WHERE trace_id = '{good_run}'"
        [asked] = json.loads(run_command(project, "sql", sql, "--format", "json"))
        return [row["level"], shown["level"], shown["level_means"], *asked.values(), shown["advice"] == []]

    earned = [6, 6, "hermetic", 6, "hermetic", True]
    if levels() != earned:  # no other test has replayed it
        unverified = "environment recorded, not verified"
        assert levels() == [5, 5, unverified, 5, unverified, False]
        assert "not verified" in run_command(project, "show", good_run)
        assert project.freezeframe("replay", good_run, "--ignore", "body.temperature").returncode == 0
        assert levels()[0] == 5  # a relaxed replay shows less
    run_command(project, "replay", good_run)
    assert levels() == earned


@pytest.mark.proof("command open")
def test_open_prints_a_link_that_leads_to_the_page_of_the_run(project: Project, good_run: str) -> None:
    link = run_command(project, "open", good_run[:12], "--print").strip()
    with httpx.Client(follow_redirects=True) as browser:
        page = browser.get(link)
    assert (page.status_code, page.url.path) == (200, f"/runs/{good_run}")
    assert run_command(project, "logs", "replay").startswith("replay    | ")


@pytest.mark.proof("command status", "command doctor")
def test_status_and_doctor_say_that_all_is_well(project: Project) -> None:
    """Both services answer, every span that was sent is stored, no check fails."""
    status = json.loads(run_command(project, "status", "--json"))
    assert [part["running"] for part in status["services"].values()] == [True, True]
    run_command(project, "runs")  # reading flushes
    audit = json.loads(run_command(project, "status", "--json"))["services"]["collector"]["status"]["audit"]
    assert audit["stored"] == audit["received"] > 0
    shown = run_command(project, "status")
    assert f"http://127.0.0.1:{port_of(project, 'clickhouse')}" in shown
    assert "received" in shown
    assert "a second" in shown
    findings = json.loads(run_command(project, "doctor", "--json"))
    grades = {finding["check"]: finding["grade"] for finding in findings}
    assert (grades["store"], grades["token"]) == ("ok", "ok")
    assert grades["readers"] == ("ok" if why_no_sandbox() is None else "warn")


@pytest.mark.proof("command runs", "command up")
def test_runs_are_listed_and_filtered(project: Project) -> None:
    """Newest first; --failed and --since narrow."""
    names = [run["name"] for run in json.loads(run_command(project, "runs", "--json"))]
    assert [name for name in names if name in ("answer", "lose")] == ["answer", "lose"]
    failed = json.loads(run_command(project, "runs", "--json", "--failed", "--since", "1h"))
    assert [run["name"] for run in failed] == ["lose"]
    by_status = json.loads(run_command(project, "runs", "--json", "--status", "failed", "--entry", "lose"))
    assert by_status == failed
    assert json.loads(run_command(project, "runs", "--json", "--entry", "lose", "--service", "nobody")) == []
    assert "answer" in run_command(project, "runs", "--limit", "5")


@pytest.mark.proof("command show")
def test_show_names_steps_readiness_and_what_to_type(project: Project, good_run: str) -> None:
    """By id, by its first digits, in text and JSON; the e-mail in the input is a surrogate."""
    shown = run_command(project, "show", good_run[:12])
    assert f"run           {good_run}" in shown
    assert "track(order=" in shown
    assert "maria" not in shown
    assert f"next: freezeframe replay {good_run[:12]}" in shown
    outline = json.loads(run_command(project, "show", good_run, "--json", "--full"))
    assert [node["name"] for node in outline["nodes"] if node["step"]] == ["find_orders", "track"]
    assert "AC-1" in outline["nodes"][-1]["request"]


@pytest.mark.proof("command sql")
def test_sql_in_three_formats_with_parameters(project: Project, good_run: str) -> None:
    """Table, JSON and CSV of the same rows; the store itself refuses to write."""
    query = ("sql", "SELECT name, exchanges FROM runs WHERE trace_id = {run:String}", "-p", f"run={good_run}")
    assert run_command(project, *query).splitlines() == ["name    exchanges", "answer          2", "(1 row)"]
    assert json.loads(run_command(project, *query, "--format", "json")) == [{"name": "answer", "exchanges": 2}]
    assert list(csv.reader(io.StringIO(run_command(project, *query, "--format", "csv")))) == [
        ["name", "exchanges"],
        ["answer", "2"],
    ]
    for statement in ("DROP TABLE spans_hot", "SELECT nope FROM runs"):
        refused = project.freezeframe("sql", statement)
        assert refused.returncode == 1
        assert refused.stderr.startswith("freezeframe sql: store: ")
        assert "Traceback" not in refused.stderr


@pytest.mark.proof
def test_replay_from_the_store(project: Project, good_run: str) -> None:
    """Identical, from the store alone; JSON for a script."""
    assert "2 of 2 steps and the outcome" in run_command(project, "replay", good_run)
    report = json.loads(run_command(project, "replay", good_run, "--json"))
    assert (report["entered"], report["divergences"]) == (True, [])


CHAT = """
import freezeframe
freezeframe.instrument()

@freezeframe.tool
def look(number): return number

@freezeframe.run(session="chat-81")
def turn(number): return look(number)

if __name__ == "__main__":
    turn(1), turn(2)
"""


def test_a_conversation_is_listed_and_replayed_turn_by_turn(project: Project) -> None:
    file = project.root / "chat.py"
    file.write_text(CHAT)
    assert project.python("chat.py").returncode == 0
    rows = json.loads(run_command(project, "runs", "--session", "chat-81", "--json"))
    assert [(row["name"], row["session_id"]) for row in rows] == [("turn", "chat-81")] * 2
    assert json.loads(run_command(project, "runs", "--session", "chat-8", "--json")) == []
    said = run_command(project, "replay", "--session", "chat-81")
    assert re.findall(r"^turn .*|session .*", said, re.MULTILINE) == [
        "turn 1 of 2: turn",
        "turn 2 of 2: turn",
        "session chat-81: 2 of 2 turns identical",
    ]
    file.write_text(CHAT.replace("look(number)\n\nif", "look(1)\n\nif"))
    changed = project.freezeframe("replay", "--session", "chat-81", "--quiet")
    assert changed.returncode == 3, changed.stderr
    assert "1 of 2 turns identical" in changed.stdout


@pytest.mark.parametrize("words", [["--session", "none-such"], ["--session", "chat-81", "--json"]])
def test_a_conversation_that_cannot_be_replayed_says_why(project: Project, words: list[str]) -> None:
    refused = project.freezeframe("replay", *words)
    assert refused.returncode == 1
    assert "do: " in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_fixture_with_a_test_needs_no_store(project: Project, good_run: str, tmp_path: Path) -> None:
    """Red on the old code, green on the changed code, in a checkout that knows no collector; an edited test is kept."""
    checkout = Project(root=tmp_path)
    shutil.copy(project.root / "agent.py", tmp_path / "agent.py")
    where = str(tmp_path / "tests" / "regressions" / "wrong-order")
    written = json.loads(run_command(project, "fixture", good_run, "-o", where, "--pytest", "--json"))
    assert (written["run"], written["steps"]) == (good_run, 2)
    assert checkout.pytest().returncode == 1
    assert "2 of 2 steps and the outcome" in run_command(checkout, "replay", where)
    assert "whole, 2 steps" in run_command(checkout, "fixture", "verify", where)
    checkout.edit("orders[0]", "orders[1]")
    assert checkout.pytest().returncode == 0
    diverged = checkout.freezeframe("replay", where, "--quiet")
    assert (diverged.returncode, diverged.stdout.count("\n")) == (3, 1)

    test = Path(written["test"])
    test.write_text(test.read_text() + "# edited\n")
    kept = project.freezeframe("fixture", good_run, "-o", where, "--pytest")
    assert "kept" in kept.stderr
    assert test.read_text().endswith("# edited\n")
    run_command(project, "fixture", good_run, "-o", where, "--pytest", "--force", "--expect", "identical")
    assert "assert_identical" in test.read_text()


def test_a_damaged_fixture_is_refused(project: Project, good_run: str, tmp_path: Path) -> None:
    """verify and replay name the file and what to do."""
    run_command(project, "fixture", good_run, "-o", str(tmp_path / "f"))
    steps = tmp_path / "f" / "steps.json"
    steps.write_text(steps.read_text().replace("Lyon", "Bern"))
    for command in (["fixture", "verify"], ["replay"], ["show"]):
        done = project.freezeframe(*command, str(tmp_path / "f"))
        assert done.returncode == 1
        assert "edited or damaged" in done.stderr


def test_a_run_without_exchanges_is_a_cold_case(project: Project) -> None:
    """Another vendor's spans are stored and shown; what keeps them from a replay is named."""
    endpoint = f"http://127.0.0.1:{port_of(project, 'http')}"
    token = read_token(project.root / ".freezeframe", SENDER) or ""
    trace = project.python("-c", FOREIGN, endpoint, token).stdout.strip()
    shown = run_command(project, "show", trace)
    assert "a cold case" in shown
    assert "entry_point" in shown
    refused = project.freezeframe("fixture", trace, "-o", "cold")
    assert refused.returncode == 1
    assert "found no exchanges among its 1 spans" in refused.stderr
    assert not (project.root / "cold").exists()


@pytest.mark.proof
def test_the_service_serves_runs_fixtures_and_pages(project: Project, good_run: str, tmp_path: Path) -> None:
    """It serves the same fixture that the command writes; pages name the run and run no script but our own."""
    port = port_of(project, "replay")
    base = f"http://127.0.0.1:{port}"
    home = Home(directory=project.root / ".freezeframe")
    assert ask(home, port, "/healthz")["status"] == "ok"
    assert good_run in [run["trace_id"] for run in ask(home, port, "/api/v1/runs", timeout_s=60)]
    assert ask(home, port, f"/api/v1/runs/{good_run[:12]}", timeout_s=60)["run_id"] == good_run
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    link = re.search(r"http://127\.0\.0\.1:\d+/enter\?code=\S+", run_command(project, "status"))
    assert link is not None
    browser.open(link[0])
    with (
        browser.open(f"{base}/api/v1/runs/{good_run}/fixture") as answer,
        tarfile.open(fileobj=io.BytesIO(answer.read())) as archive,
    ):
        archive.extractall(tmp_path, filter="data")
    run_command(project, "fixture", good_run, "-o", str(tmp_path / "same"))
    assert load_fixture(tmp_path / f"fixture-{good_run}") == load_fixture(tmp_path / "same")
    for path in ("/", f"/runs/{good_run}"):
        with browser.open(f"{base}{path}") as page:
            assert good_run in page.read().decode()
            assert page.headers["Content-Security-Policy"].count("script-src 'sha256-") == 1
    for path in ("/api/v1/runs/ffffffffffff", "/runs/ffffffffffff"):
        with pytest.raises(urllib.error.HTTPError) as missing:
            browser.open(f"{base}{path}")
        assert missing.value.code == 404


def test_a_collector_that_somebody_else_started_is_read_too(project: Project) -> None:
    """A supervisor's or a container's: without a note from `up`, it answers to this directory's token."""
    note = project.root / ".freezeframe" / "processes" / "collector.json"
    text = note.read_text()
    note.unlink()
    try:
        assert "answer" in run_command(project, "runs")
    finally:
        note.write_text(text)


def test_of_two_ups_at_once_one_starts_and_both_succeed(tmp_path: Path) -> None:
    """The second waits for the first, and finds everything running."""
    own = Project(root=tmp_path)
    command = [sys.executable, "-m", "freezeframe._cli", "up", "--data", str(tmp_path / "data"), *EPHEMERAL]
    try:
        both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        said = [process.communicate(timeout=400) for process in both]
        assert [process.returncode for process in both] == [0, 0], said
        assert sorted("starting the collector" in error for _, error in said) == [False, True]
        one, other = (re.sub(r"code=\S+", "", out) for out, _ in said)  # each is given a link of its own
        assert one == other
    finally:
        own.freezeframe("down", "--data", str(tmp_path / "data"))


def test_a_taken_port_is_named_with_its_holder(project: Project, tmp_path: Path) -> None:
    """Nothing is started; the message says who holds it and which option to use."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = holder.getsockname()[1]
        done = project.freezeframe(
            "up", "--data", str(tmp_path / "other"), *EPHEMERAL[:2], "--http-port", str(taken), *EPHEMERAL[4:]
        )
    assert done.returncode == 1
    assert f"port {taken} (OTLP/HTTP, --http-port) is taken by" in done.stderr
    if Path("/proc/net/tcp").exists():
        assert f"taken by pid {os.getpid()} (" in done.stderr
    assert not list((tmp_path / "other" / "processes").glob("*.json"))


@pytest.mark.proof("command down")
def test_down_ends_both_and_up_finds_the_runs_again(recorded: tuple[Path, Run], tmp_path: Path) -> None:
    """What was acknowledged is there after a kill, and what was recorded without a collector."""
    with_spool = {"FREEZEFRAME_SPOOL": "on"}
    shutil.copy(recorded[0] / "agent.py", tmp_path / "agent.py")
    (tmp_path / ".freezeframe").mkdir()
    own = Project(root=tmp_path)
    home = Home(directory=tmp_path / ".freezeframe")
    try:
        run_command(own, "up", *EPHEMERAL)
        assert own.python("-c", RECORD).returncode == 0
        collector = daemon.running(home, daemon.COLLECTOR)
        assert collector is not None
        os.kill(collector.pid, signal.SIGKILL)
        assert daemon.wait_until_gone(collector, 10)
        assert own.freezeframe("status").returncode == 1
        assert own.python("-c", RECORD, environ=with_spool).returncode == 0
        assert "delivering what was recorded before" in own.freezeframe("up", *EPHEMERAL, environ=with_spool).stderr
        assert run_command(own, "runs").count("answer") == 2
        notes = [note for name in daemon.NAMES if (note := daemon.running(home, name))]
        assert "freezeframe is down" in run_command(own, "down")
        assert [daemon.alive(note) for note in notes] == [False, False]
        assert "nothing is running" in run_command(own, "down")
    finally:
        own.freezeframe("down")


@contextmanager
def in_the_foreground(home: Home) -> Generator[subprocess.Popen[str]]:
    """As a container or a supervisor runs it; it is up."""
    command = [sys.executable, "-m", "freezeframe._cli", "up", "--foreground", "--data", str(home.directory), *EPHEMERAL]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as front:
        try:
            assert front.stdout is not None
            assert "freezeframe is up" in front.stdout.readline()
            yield front
        finally:
            daemon.down(home, print)
            front.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_in_the_foreground_a_signal_stops_everything(tmp_path: Path, number: signal.Signals) -> None:
    """Exit 0, nothing left behind."""
    home = Home(directory=tmp_path / "data")
    with in_the_foreground(home) as front:
        notes = [note for name in daemon.NAMES if (note := daemon.running(home, name))]
        assert len(notes) == 2
        front.send_signal(number)
        assert front.wait(timeout=400) == 0
        assert [daemon.alive(note) for note in notes] == [False, False]


def test_in_the_foreground_the_end_of_one_is_the_end_of_all(tmp_path: Path) -> None:
    """Exit 1, so that a supervisor starts it again."""
    home = Home(directory=tmp_path / "data")
    with in_the_foreground(home) as front:
        collector, service = (daemon.running(home, name) for name in daemon.NAMES)
        assert collector is not None
        assert service is not None
        os.kill(collector.pid, signal.SIGKILL)
        assert front.wait(timeout=400) == 1
        assert not daemon.alive(service)
        assert front.stderr is not None
        assert "the collector exited" in front.stderr.read()
