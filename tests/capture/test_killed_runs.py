"""Runs whose process ends before they do (killed, terminated, `os._exit`) or hangs: what is shown about them is true."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running_collector import CollectorProcess

from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.verdict import headline

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts processes

AGENT = """
import os, signal, sys, threading
import httpx
import freezeframe

@freezeframe.tool
def look(number):
    return number * 2

def ask(text):
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": text}]}
    answer = httpx.post(os.environ["PROVIDER_BASE_URL"] + "/v1/chat/completions", json=body, timeout=None)
    return answer.json()["choices"][0]["message"]["content"]

def steps(question):
    if "WAIT" in os.environ:
        os.read(0, 1)  # no step, as `sys.stdin` is
    look(1)
    look(2)
    return ask(question)

@freezeframe.run
def answer(question):
    return steps(question)
"""


class Provider(http.server.ThreadingHTTPServer):
    """Answers a model call when told to."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.answers = threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def stop(self) -> None:
        self.answers.set()
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Provider  # pyright: ignore[reportIncompatibleVariableOverride]  (it is one)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.set()
        self.server.answers.wait(100)
        message = {"role": "assistant", "content": "in Lyon"}
        body = json.dumps({"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        try:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:  # the agent is gone
            self.close_connection = True


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    running = CollectorProcess(tmp_path_factory.mktemp("collector"))
    yield running
    running.kill()


@pytest.fixture
def provider() -> Iterator[Provider]:
    serving = Provider()
    yield serving
    serving.stop()


PATIENT_END = {"FREEZEFRAME_TERMINATE_TIMEOUT_S": "100"}
"""On a busy machine, the default is not enough to deliver what is queued."""


class Agent:
    """The running program, in a separate process."""

    def __init__(self, folder: Path, collector: CollectorProcess, provider: Provider) -> None:
        self._folder = folder
        self._collector = collector
        self.provider = provider
        self.process: subprocess.Popen[str] | None = None
        self.run_id = folder.name
        self._environ: dict[str, str] = {}

    def start(self, text: str, *command: str, **environ: str) -> subprocess.Popen[str]:
        """Start the program with this text after the agent's."""
        (self._folder / "agent.py").write_text(AGENT + text)
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("FREEZEFRAME_", "OTEL_"))}
        variables |= {
            "PROVIDER_BASE_URL": self.provider.url,
            "FREEZEFRAME_ENDPOINT": self._collector.url,
            "FREEZEFRAME_RAISE": "1",
        }
        variables |= {"FREEZEFRAME_SERVICE_NAME": self.run_id, **PATIENT_END, **environ}
        self._environ = variables
        self.process = subprocess.Popen(
            [*(command or (sys.executable,)), "agent.py"],
            cwd=self._folder,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self.process

    def rows(self, columns: str, table: str = "runs") -> list[list[Any]]:
        """Return what the store shows of the program's runs at this moment."""
        self._collector.flush()
        return self._collector.rows(f"SELECT {columns} FROM freezeframe.{table} WHERE service = '{self.run_id}'")

    def wait_until(self, columns: str, row: list[Any]) -> None:
        """Wait until the store shows one run of the program, with this row."""
        until = time.monotonic() + 60
        while (found := self.rows(columns)) != [row]:
            assert time.monotonic() < until, f"{found} is not {row}"
            assert self.process is None or self.process.poll() is None, self.process.communicate()
            time.sleep(0.1)  # each question starts a reader

    def hang(self, text: str, *command: str, **environ: str) -> subprocess.Popen[str]:
        """Start the program; return once it waits for the model, and its two tool calls are stored."""
        process = self.start(text, *command, **environ)
        assert self.provider.asked.wait(300), process.communicate()
        self.wait_until("toUInt32(exchanges)", [2])
        return process

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()

    def replay(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Replay a run against the unchanged program, with no provider to reach."""
        store = self._collector.store_url
        command = [sys.executable, "-m", "freezeframe._cli", "replay", *arguments, "--store", store]
        return subprocess.run(
            command, cwd=self._folder, env=self._environ, capture_output=True, text=True, timeout=400, check=False
        )

    def say(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
        """Return what the command line prints."""
        capsys.readouterr()
        store = self._collector.store_url
        assert main([*arguments, "--store", store]) == 0
        return capsys.readouterr().out


@pytest.fixture
def agent(tmp_path: Path, collector: CollectorProcess, provider: Provider) -> Iterator[Agent]:
    made = Agent(tmp_path, collector, provider)
    yield made
    made.stop()


RUN = "\nfreezeframe.instrument()\nanswer('where?')\n"


def test_a_run_is_known_from_its_beginning_and_hangs_unfinished(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    process = agent.hang(RUN)
    assert process.poll() is None
    assert agent.rows("status, name, entry_target, toUInt32(spans), input") == [
        ["unfinished", "answer", "__main__:answer", 2, '{"args": [], "kwargs": {"question": "where?"}}']
    ]
    [[trace_id]] = agent.rows("trace_id")
    assert f"{trace_id}  unfinished" in agent.say(capsys, "show", trace_id)
    assert agent.rows("name, toUInt32(exchanges)", "unfinished_runs") == [["answer", 2]]


def test_the_entry_span_takes_the_place_of_its_beginning(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    process = agent.hang(RUN)
    agent.provider.answers.set()
    assert process.wait(300) == 0
    assert agent.rows("status, toUInt32(spans), toUInt32(exchanges)") == [["ok", 4, 3]]
    assert agent.rows("name", "unfinished_runs") == []
    [[trace_id]] = agent.rows("trace_id")
    assert sorted(agent.rows("name", "spans")) == [["answer"], ["chat gpt-4o"], ["execute_tool look"], ["execute_tool look"]]
    shown = agent.say(capsys, "show", trace_id)
    assert f"{trace_id}  ok" in shown
    assert "unfinished" not in shown


WAYS = {
    "SIGKILL": (RUN, signal.SIGKILL, -signal.SIGKILL),
    "SIGTERM": (RUN, signal.SIGTERM, -signal.SIGTERM),
    "os._exit in a thread": (
        "\nimport signal\nfreezeframe.instrument()\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
        "threading.Thread(target=lambda: (signal.sigwait([signal.SIGUSR1]), os._exit(7)), daemon=True).start()\n"
        "answer('where?')\n",
        signal.SIGUSR1,
        7,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_was_ended_is_unfinished(agent: Agent, capsys: pytest.CaptureFixture[str], way: str) -> None:
    text, number, code = WAYS[way]
    process = agent.hang(text)
    process.send_signal(number)
    assert process.wait(300) == code
    assert agent.rows("status, name, toUInt32(spans)") == [["unfinished", "answer", 2]]
    [[trace_id]] = agent.rows("trace_id")
    failed = agent.say(capsys, "runs", "--failed")
    assert any(line.startswith(trace_id[:8]) and line.endswith("unfinished") for line in failed.splitlines())
    shown = agent.say(capsys, "show", trace_id)
    assert f"{trace_id}  unfinished" in shown
    assert "2 steps, the last: step 2 (tool look)" in shown
    assert "still going, or was killed" in shown
    replayed = agent.replay(trace_id)
    assert replayed.returncode == 0, replayed.stderr
    assert replayed.stdout.startswith(
        "identical up to where the recording ends, except the outcome (not recorded) and 1 call beyond it "
        "(model POST /v1/chat/completions): "
        f"2 of 2 steps; the run never finished, run {trace_id}\n"
    )


@pytest.mark.usefixtures("fresh_python")
@pytest.mark.parametrize("command", ["a script", "freezeframe run"])
def test_a_script_that_was_killed_is_unfinished(agent: Agent, command: str) -> None:
    text = "\nsteps('where?')\n"
    if command == "a script":
        process = agent.hang("\nfreezeframe.instrument()" + text)
    else:
        process = agent.hang(text, sys.executable, "-m", "freezeframe._cli", "run", "--", sys.executable)
    process.kill()
    process.wait()
    assert agent.rows("status, name, entry_target, toUInt32(spans), toUInt32(exchanges)") == [
        ["unfinished", "agent.py", "agent.py", 2, 2]
    ]


# -- SIGTERM ------------------------------------------------------------------------------------------------------------

PATIENT = {"FREEZEFRAME_BATCH_INTERVAL_S": "600", "WAIT": "1"}
"""So that only SIGTERM makes the process send the tool calls, which are made once the beginning is stored."""


def hold(agent: Agent, text: str, **environ: str) -> subprocess.Popen[str]:
    """Start a program whose tool calls stay in its queue; return once it waits for the model and its beginning is stored."""
    process = agent.start(text, **PATIENT, **environ)
    agent.wait_until("status, toUInt32(exchanges)", ["unfinished", 0])
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert agent.provider.asked.wait(300), process.communicate()
    return process


def test_a_run_without_a_recorded_step_claims_none_and_advises_to_look_again(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    hold(agent, RUN)
    [[trace_id]] = agent.rows("trace_id")
    shown = agent.say(capsys, "show", trace_id)
    assert "no step was recorded" in shown
    assert f"next: freezeframe show {trace_id} --store URL, once it has ended" in shown
    assert "record it with freezeframe.instrument()" not in shown


def test_without_the_option_sigterm_is_left_alone(agent: Agent) -> None:
    text = "\nfreezeframe.instrument()\nassert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\nanswer('where?')\n"
    process = hold(agent, text, FREEZEFRAME_TERMINATE_TIMEOUT_S="0")
    process.terminate()
    assert process.wait(300) == -signal.SIGTERM
    assert agent.rows("toUInt32(exchanges)") == [[0]]


IMPORTING = """
import importlib.util
from importlib.machinery import PathFinder

needed = "importlib.metadata"

class First(PathFinder):
    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target)
        if name != needed or threading.current_thread() is not threading.main_thread():
            return spec
        execute = spec.loader.exec_module
        def first(module):
            work()
            os.kill(os.getpid(), signal.SIGTERM)
            execute(module)
        spec.loader.exec_module = first
        return spec

@freezeframe.run
def work():
    look(1)

freezeframe.instrument()
assert needed not in sys.modules
sys.meta_path.insert(0, First)
importlib.import_module(needed)
sys.stdin.readline()
"""


@pytest.mark.usefixtures("fresh_python")
def test_sigterm_during_an_import_of_what_the_delivery_needs_loses_nothing(agent: Agent) -> None:
    """If the signal's handler waited inside the import, the delivery would wait for the import, and the handler for both."""
    process = agent.start(IMPORTING)
    assert process.wait(300) == -signal.SIGTERM, process.communicate()
    assert agent.rows("status, toUInt32(exchanges)") == [["ok", 1]]


JOB = "import os, sys\nsys.modules['__main__'].work()\nos._exit(3)\n"


def test_os_exit_during_an_import_loses_nothing(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    process = agent.start("\n@freezeframe.run\ndef work():\n    look(1)\n\nfreezeframe.instrument()\nimport job\n")
    assert process.wait(300) == 3, process.communicate()
    assert agent.rows("status, toUInt32(exchanges)") == [["ok", 1]]


@pytest.mark.usefixtures("fresh_python")
def test_os_exit_during_an_import_of_what_the_delivery_needs_ends_the_process_and_loses_what_is_queued(agent: Agent) -> None:
    """The delivery waits for the import, and the call, which never returns, waits for the delivery as long as it may."""
    process = agent.start(
        IMPORTING.replace("os.kill(os.getpid(), signal.SIGTERM)", "os._exit(3)"), FREEZEFRAME_TERMINATE_TIMEOUT_S="0.5"
    )
    assert process.wait(300) == 3, process.communicate()
    assert agent.rows("status") == []


HANDLER = "signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(3))\n"
CHAIN = """
before = signal.getsignal(signal.SIGTERM)
def handler(number, frame):
    if callable(before):
        before(number, frame)
    sys.exit(3)
signal.signal(signal.SIGTERM, handler)
"""


@pytest.mark.parametrize(
    "text",
    [
        f"\n{HANDLER}freezeframe.instrument()\nanswer('where?')\n",
        f"\nfreezeframe.instrument()\n{HANDLER}answer('where?')\n",
        f"\nfreezeframe.instrument()\n{CHAIN}answer('where?')\n",
    ],
    ids=["before instrument", "after instrument", "after instrument, calling the one before"],
)
def test_a_handler_of_the_application_decides_how_the_process_ends(agent: Agent, text: str) -> None:
    process = hold(agent, text)
    process.terminate()
    assert process.wait(300) == 3
    # the exception went through the entry point, so the run has an end, and calls that it interrupted are recorded as such
    [[status, exchanges]] = agent.rows("status, toUInt32(exchanges)")
    assert (status, exchanges >= 2) == ("error", True)


def test_a_handler_of_an_event_loop_is_called_and_the_run_goes_on(agent: Agent) -> None:
    text = """
import asyncio
async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: print("asked to stop", flush=True))
    return await asyncio.to_thread(answer, "where?")
freezeframe.instrument()
asyncio.run(main())
"""
    process = hold(agent, text)
    process.terminate()
    assert process.stdout is not None
    assert process.stdout.readline() == "asked to stop\n"
    agent.provider.answers.set()
    assert process.wait(300) == 0
    assert agent.rows("status, toUInt32(exchanges)") == [["ok", 3]]


def test_an_ignored_sigterm_stays_ignored(agent: Agent) -> None:
    text = "\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nfreezeframe.instrument()\nanswer('where?')\n"
    process = hold(agent, text)
    process.terminate()
    agent.provider.answers.set()
    assert process.wait(300) == 0
    assert agent.rows("status, toUInt32(exchanges)") == [["ok", 3]]


@pytest.mark.usefixtures("fresh_python")
def test_sigterm_in_a_forked_child_delivers_the_childs_spans(agent: Agent) -> None:
    text = """
freezeframe.instrument()
child = os.fork()
if child == 0:
    answer("where?")
    os._exit(0)
_, status = os.waitpid(child, 0)
sys.exit(0 if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM else 1)
"""
    process = hold(agent, text)
    [child] = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    os.kill(child, signal.SIGTERM)
    assert process.wait(300) == 0
    assert agent.rows("status, toUInt32(exchanges)") == [["unfinished", 2]]


def test_a_model_call_inside_a_tool_that_never_ended_is_not_asked_for_in_a_replay(agent: Agent) -> None:
    text = """
@freezeframe.tool
def research(question):
    look(2)
    return ask(question)

@freezeframe.run
def deep(question):
    look(1)
    return research(question)

freezeframe.instrument()
deep("where?")
"""
    process = agent.hang(text)
    process.kill()
    process.wait()
    [[trace_id]] = agent.rows("trace_id")
    replayed = agent.replay(trace_id)
    assert replayed.returncode == 0, replayed.stderr
    assert replayed.stdout.startswith(
        "identical up to where the recording ends, except the outcome (not recorded) and 1 call beyond it (tool research): "
        "1 of 1 step; the run never finished"
    )


@pytest.mark.parametrize(
    "leave",
    ["os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])", "os.execlp('python3', 'python3', '-c', 'print(1)')"],
)
def test_a_run_whose_program_replaces_itself_is_unfinished_with_all_its_steps(tmp_path: Path, leave: str) -> None:
    text = AGENT.replace("return ask(question)", leave)
    (tmp_path / "agent.py").write_text(text + "\nfreezeframe.instrument()\nanswer('where?')\n")
    environment = {**os.environ, "FREEZEFRAME_FILE": "spans.jsonl", "FREEZEFRAME_BATCH_INTERVAL_S": "600", **PATIENT_END}
    command = [sys.executable, "agent.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    run = load_run_of_file(tmp_path / "spans.jsonl")
    assert (run.status, len(run.exchanges)) == (RunStatus.UNFINISHED, 2)
    assert "replaced by another program" in str(run.gaps)


# -- hanging ------------------------------------------------------------------------------------------------------------

HANGING = (
    AGENT.replace("return ask(question)", "print('hangs', flush=True)\n    return globals()[question]()")
    + """
import socket, subprocess
freezeframe.instrument()

def waits():
    subprocess.Popen(["cat", "fifo"], start_new_session=True)  # it has our outputs, and no one ends it with us
    threading.Event().wait()

def connects():
    with socket.socket() as opened:
        opened.connect(("127.0.0.1", int(os.environ["PORT"])))
        opened.recv(1)

if __name__ == "__main__":
    answer(sys.argv[1])
"""
)


@pytest.mark.parametrize(
    ("how", "not_compared"),
    [
        ("waits", "the rest of the program (no call for 5 s, so the replay ended it)"),
        ("connects", "1 call beyond it (connection 127.0.0.1:1)"),
    ],
)
def test_the_replay_of_a_hanging_run_ends_where_its_recording_ends(tmp_path: Path, how: str, not_compared: str) -> None:
    (tmp_path / "agent.py").write_text(HANGING)
    os.mkfifo(tmp_path / "fifo")
    with socket.create_server(("127.0.0.1", 0)) as silent, (tmp_path / "fifo").open("r+b", buffering=0):
        environ = {**os.environ, "FREEZEFRAME_FILE": "spans.jsonl", "PORT": str(silent.getsockname()[1]), **PATIENT_END}
        command = [sys.executable, "agent.py", how]
        with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "hangs\n"
            process.terminate()
            assert process.wait(300) == -signal.SIGTERM
            process.stdout.close()
        fixture = freeze(load_run_of_file(tmp_path / "spans.jsonl"))
        report = reenact(fixture, cwd=tmp_path, env={"PORT": "1"}, timeout_s=400)
    assert headline(report) == (
        f"identical up to where the recording ends, except the outcome (not recorded) and {not_compared}: "
        f"2 of 2 steps; the run never finished, run {fixture.run_id}"
    )
