"""Runs whose process ends before they do (killed, terminated, `os._exit`) or hangs: what is shown about them is true."""

from __future__ import annotations

import http.server
import itertools
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
from otlp_receiver import Receiver
from running_collector import CollectorProcess

from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file, load_runs_of_file
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.run import Run
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


PATIENT = {"FREEZEFRAME_BATCH_INTERVAL_S": "600", "WAIT": "1"}
"""So that only SIGTERM makes the process send the tool calls, which are made once the beginning has arrived."""


class Agent:
    """The running program, in a separate process, which sends what it records to `url`."""

    def __init__(self, folder: Path, url: str, provider: Provider) -> None:
        self.folder = folder
        self.provider = provider
        self.process: subprocess.Popen[str] | None = None
        self.run_id = folder.name
        self.environ: dict[str, str] = {}
        self._url = url

    def start(self, text: str, *command: str, **environ: str) -> subprocess.Popen[str]:
        """Start the program with this text after the agent's."""
        (self.folder / "agent.py").write_text(AGENT + text)
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("FREEZEFRAME_", "OTEL_"))}
        variables |= {"PROVIDER_BASE_URL": self.provider.url, "FREEZEFRAME_ENDPOINT": self._url, "FREEZEFRAME_RAISE": "1"}
        variables |= {"FREEZEFRAME_SERVICE_NAME": self.run_id, **PATIENT_END, **environ}
        self.environ = variables
        self.process = subprocess.Popen(
            [*(command or (sys.executable,)), "agent.py"],
            cwd=self.folder,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self.process

    def hang(self, text: str, *command: str, **environ: str) -> subprocess.Popen[str]:
        """Start the program; return once it waits for the model, and its two tool calls have arrived."""
        process = self.start(text, *command, **environ)
        assert self.provider.asked.wait(300), process.communicate()
        self.wait_for_spans(1 + 2)
        return process

    def hold(self, text: str, **environ: str) -> subprocess.Popen[str]:
        """Start a program whose tool calls stay in its queue; return once it waits for the model and its beginning arrived."""
        process = self.start(text, **PATIENT, **environ)
        self.wait_for_spans(1)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert self.provider.asked.wait(300), process.communicate()
        return process

    def wait_for_spans(self, number: int) -> None:
        """Wait until so many spans of the program have arrived."""
        raise NotImplementedError

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


class SendingAgent(Agent):
    """One that sends to a receiver in this process."""

    def __init__(self, folder: Path, receiver: Receiver, provider: Provider) -> None:
        super().__init__(folder, receiver.url, provider)
        self._receiver = receiver
        self._saved = itertools.count()

    def wait_for_spans(self, number: int) -> None:
        self._receiver.wait_until(lambda: len(self._receiver.spans) >= number)

    @property
    def runs(self) -> list[Run]:
        """The runs of what has arrived."""
        return load_runs_of_file(self._receiver.save(self.folder / f"received {next(self._saved)}"))

    @property
    def run(self) -> Run:
        (run,) = self.runs
        return run

    @property
    def came(self) -> tuple[str, int]:
        """The status of the run, and how many calls of it arrived."""
        run = self.run
        return run.status.value, len(run.exchanges)


class StoredAgent(Agent):
    """One that sends to a collector with its store."""

    def __init__(self, folder: Path, collector: CollectorProcess, provider: Provider) -> None:
        super().__init__(folder, collector.url, provider)
        self._collector = collector
        self._before = self._received()

    def _received(self) -> int:
        return self._collector.status()["audit"]["received"]

    def wait_for_spans(self, number: int) -> None:
        until = time.monotonic() + 60
        while self._received() < self._before + number:
            assert time.monotonic() < until, self._collector.status()
            assert self.process is None or self.process.poll() is None, self.process.communicate()
            time.sleep(0.1)

    def rows(self, columns: str, table: str = "runs") -> list[list[Any]]:
        """Return what the store shows of the program's runs at this moment."""
        self._collector.flush()
        return self._collector.rows(f"SELECT {columns} FROM freezeframe.{table} WHERE service = '{self.run_id}'")

    def replay(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Replay a run against the unchanged program, with no provider to reach."""
        store = self._collector.store_url
        command = [sys.executable, "-m", "freezeframe._cli", "replay", *arguments, "--store", store]
        return subprocess.run(
            command, cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=400, check=False
        )

    def say(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
        """Return what the command line prints."""
        capsys.readouterr()
        store = self._collector.store_url
        assert main([*arguments, "--store", store]) == 0
        return capsys.readouterr().out


@pytest.fixture
def agent(tmp_path: Path, provider: Provider) -> Iterator[SendingAgent]:
    with Receiver() as receiver:
        made = SendingAgent(tmp_path, receiver, provider)
        yield made
        made.stop()


@pytest.fixture
def stored_agent(tmp_path: Path, collector: CollectorProcess, provider: Provider) -> Iterator[StoredAgent]:
    made = StoredAgent(tmp_path, collector, provider)
    yield made
    made.stop()


RUN = "\nfreezeframe.instrument()\nanswer('where?')\n"


def test_a_run_is_known_from_its_beginning_and_its_entry_span_takes_the_place_of_that(
    stored_agent: StoredAgent, capsys: pytest.CaptureFixture[str]
) -> None:
    process = stored_agent.hang(RUN)
    assert process.poll() is None
    [[trace_id, *rest]] = stored_agent.rows("trace_id, status, name, entry_target, toUInt32(spans), input")
    assert rest == ["unfinished", "answer", "__main__:answer", 2, '{"args": [], "kwargs": {"question": "where?"}}']
    assert f"{trace_id}  unfinished" in stored_agent.say(capsys, "show", trace_id)
    assert stored_agent.rows("name, toUInt32(exchanges)", "unfinished_runs") == [["answer", 2]]
    stored_agent.provider.answers.set()
    assert process.wait(300) == 0
    assert stored_agent.rows("trace_id, status, toUInt32(spans), toUInt32(exchanges)") == [[trace_id, "ok", 4, 3]]
    assert stored_agent.rows("name", "unfinished_runs") == []
    names = [["answer"], ["chat gpt-4o"], ["execute_tool look"], ["execute_tool look"]]
    assert sorted(stored_agent.rows("name", "spans")) == names
    shown = stored_agent.say(capsys, "show", trace_id)
    assert f"{trace_id}  ok" in shown
    assert "unfinished" not in shown


REPLAYED = (
    "identical up to where the recording ends, except the outcome (not recorded) and 1 call beyond it "
    "(model POST /v1/chat/completions): 2 of 2 steps; the run never finished, run "
)


def test_a_run_that_was_killed_is_unfinished_wherever_it_is_shown(
    stored_agent: StoredAgent, capsys: pytest.CaptureFixture[str]
) -> None:
    stored_agent.hang(RUN).kill()
    [[trace_id, *rest]] = stored_agent.rows("trace_id, status, name, toUInt32(spans)")
    assert rest == ["unfinished", "answer", 2]
    failed = stored_agent.say(capsys, "runs", "--failed")
    assert any(line.startswith(trace_id[:8]) and line.endswith("unfinished") for line in failed.splitlines())
    shown = stored_agent.say(capsys, "show", trace_id)
    assert f"{trace_id}  unfinished" in shown
    assert "2 steps, the last: step 2 (tool look)" in shown
    assert "still going, or was killed" in shown
    replayed = stored_agent.replay(trace_id)
    assert replayed.returncode == 0, replayed.stderr
    assert replayed.stdout.startswith(f"{REPLAYED}{trace_id}\n")


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
def test_a_run_that_was_ended_is_unfinished_and_replays_to_there(agent: SendingAgent, way: str) -> None:
    text, number, code = WAYS[way]
    process = agent.hang(text)
    process.send_signal(number)
    assert process.wait(300) == code
    run = agent.run
    assert (run.status, run.entry.name, len(run.exchanges)) == (RunStatus.UNFINISHED, "answer", 2)
    report = reenact(freeze(run), cwd=agent.folder, env=agent.environ)
    assert headline(report) == f"{REPLAYED}{run.trace_id}"


@pytest.mark.usefixtures("fresh_python")
@pytest.mark.parametrize("command", ["a script", "freezeframe run"])
def test_a_script_that_was_killed_is_unfinished(agent: SendingAgent, command: str) -> None:
    text = "\nsteps('where?')\n"
    if command == "a script":
        process = agent.hang("\nfreezeframe.instrument()" + text)
    else:
        process = agent.hang(text, sys.executable, "-m", "freezeframe._cli", "run", "--", sys.executable)
    process.kill()
    process.wait()
    assert agent.came == ("unfinished", 2)
    assert (agent.run.entry.name, agent.run.entry.file) == ("agent.py", "agent.py")


def test_a_run_without_a_recorded_step_claims_none_and_advises_to_look_again(
    stored_agent: StoredAgent, capsys: pytest.CaptureFixture[str]
) -> None:
    stored_agent.hold(RUN)
    [[trace_id]] = stored_agent.rows("trace_id")
    shown = stored_agent.say(capsys, "show", trace_id)
    assert "no step was recorded" in shown
    assert f"next: freezeframe show {trace_id} --store URL, once it has ended" in shown
    assert "record it with freezeframe.instrument()" not in shown


# -- SIGTERM ------------------------------------------------------------------------------------------------------------


def test_without_the_option_sigterm_is_left_alone(agent: SendingAgent) -> None:
    text = "\nfreezeframe.instrument()\nassert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\nanswer('where?')\n"
    process = agent.hold(text, FREEZEFRAME_TERMINATE_TIMEOUT_S="0")
    process.terminate()
    assert process.wait(300) == -signal.SIGTERM
    assert agent.came == ("unfinished", 0)


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
def test_sigterm_during_an_import_of_what_the_delivery_needs_loses_nothing(agent: SendingAgent) -> None:
    """If the signal's handler waited inside the import, the delivery would wait for the import, and the handler for both."""
    process = agent.start(IMPORTING)
    assert process.wait(300) == -signal.SIGTERM, process.communicate()
    assert agent.came == ("ok", 1)


JOB = "import os, sys\nsys.modules['__main__'].work()\nos._exit(3)\n"


def test_os_exit_during_an_import_loses_nothing(agent: SendingAgent, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    process = agent.start("\n@freezeframe.run\ndef work():\n    look(1)\n\nfreezeframe.instrument()\nimport job\n")
    assert process.wait(300) == 3, process.communicate()
    assert agent.came == ("ok", 1)


@pytest.mark.usefixtures("fresh_python")
def test_os_exit_during_an_import_of_what_the_delivery_needs_ends_the_process_and_loses_what_is_queued(
    agent: SendingAgent,
) -> None:
    """The delivery waits for the import, and the call, which never returns, waits for the delivery as long as it may."""
    process = agent.start(
        IMPORTING.replace("os.kill(os.getpid(), signal.SIGTERM)", "os._exit(3)"), FREEZEFRAME_TERMINATE_TIMEOUT_S="0.5"
    )
    assert process.wait(300) == 3, process.communicate()
    assert agent.runs == []


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
def test_a_handler_of_the_application_decides_how_the_process_ends(agent: SendingAgent, text: str) -> None:
    process = agent.hold(text)
    process.terminate()
    assert process.wait(300) == 3
    # the exception went through the entry point, so the run has an end, and calls that it interrupted are recorded as such
    status, exchanges = agent.came
    assert (status, exchanges >= 2) == ("error", True)


def test_a_handler_of_an_event_loop_is_called_and_the_run_goes_on(agent: SendingAgent) -> None:
    text = """
import asyncio
async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: print("asked to stop", flush=True))
    return await asyncio.to_thread(answer, "where?")
freezeframe.instrument()
asyncio.run(main())
"""
    process = agent.hold(text)
    process.terminate()
    assert process.stdout is not None
    assert process.stdout.readline() == "asked to stop\n"
    agent.provider.answers.set()
    assert process.wait(300) == 0
    assert agent.came == ("ok", 3)


def test_an_ignored_sigterm_stays_ignored(agent: SendingAgent) -> None:
    text = "\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nfreezeframe.instrument()\nanswer('where?')\n"
    process = agent.hold(text)
    process.terminate()
    agent.provider.answers.set()
    assert process.wait(300) == 0
    assert agent.came == ("ok", 3)


@pytest.mark.usefixtures("fresh_python")
def test_sigterm_in_a_forked_child_delivers_the_childs_spans(agent: SendingAgent) -> None:
    text = """
freezeframe.instrument()
child = os.fork()
if child == 0:
    answer("where?")
    os._exit(0)
_, status = os.waitpid(child, 0)
sys.exit(0 if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM else 1)
"""
    process = agent.hold(text)
    [child] = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    os.kill(child, signal.SIGTERM)
    assert process.wait(300) == 0
    assert agent.came == ("unfinished", 2)


def test_a_model_call_inside_a_tool_that_never_ended_is_not_asked_for_in_a_replay(agent: SendingAgent) -> None:
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
    report = reenact(freeze(agent.run), cwd=agent.folder, env=agent.environ)
    assert headline(report).startswith(
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
