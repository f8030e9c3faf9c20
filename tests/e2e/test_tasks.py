"""Tasks of workers: with nothing added but `instrument()`, each that calls a model is a run, and replays by itself.

The tasks run under their real workers in a process of their own, and ask a provider on loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from recorded_tasks import ASK, Worked, recorded, replays

import freezeframe
from freezeframe.hosts import workers
from freezeframe.testing import capture
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_schemas import values
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.run import EntryKind, build_run, readiness

pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.usefixtures("warm_python")]

_CELERY = f"""{ASK}
from celery import Celery
from kombu.transport import filesystem

beside = os.path.join("queue", str(os.getpid()))
for name in ("results", beside):
    os.makedirs(name, exist_ok=True)


class Channel(filesystem.Channel):
    def _put(self, queue, payload, **kwargs):  # Kombu's own lets the worker take the file before its message is in it
        os.makedirs(beside, exist_ok=True)
        self.__dict__["data_folder_out"] = beside
        super()._put(queue, payload, **kwargs)
        for name in os.listdir(beside):
            os.rename(os.path.join(beside, name), os.path.join("queue", name))


filesystem.Transport.Channel = Channel
app = Celery("tasks", broker="filesystem://", backend="file://" + os.path.abspath("results"))
app.conf.broker_transport_options = {{name: "queue" for name in ("data_folder_in", "data_folder_out", "control_folder")}}
app.conf.broker_transport_options["polling_interval"] = 0.05
app.conf.broker_connection_retry_on_startup = True
app.conf.task_always_eager = bool(os.environ.get("EAGER"))


@app.task
def answer(text, *, number):
    first = ask(text)
    return {{"number": number, "first": first, "second": ask("and then? " + first)}}


@app.task(bind=True, max_retries=2)
def stubborn(self, text):
    said = ask(text)
    if self.request.retries == 0:
        raise self.retry(exc=ValueError(said), countdown=0)
    return said


@app.task
def fail(text):
    raise ValueError(ask(text))


@app.task
def starts_another(text):
    said = ask(text)
    answer.apply_async((said,), {{"number": 100}}, task_id="started")
    return said


@app.task
def ping():
    return "pong"
"""
_SEND = """
import tasks

tasks.ping.delay()
for n in range(10):
    tasks.answer.delay(f"question {n}", number=n)
tasks.stubborn.delay("again"), tasks.fail.delay("fail"), tasks.starts_another.delay("start")
"""
_DRAMATIQ = f"""{ASK}
import dramatiq
from dramatiq.brokers.stub import StubBroker

broker = StubBroker()
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=1, min_backoff=1, max_backoff=2)
def answer(text, *, number):
    first = ask(text)
    if number == 1:
        raise ValueError(first)
    print(ask("and then? " + first))


@dramatiq.actor
def ping():
    print("pong")


if __name__ == "__main__":
    raise SystemExit("imported by work.py")
"""
_WORK = """
import dramatiq
import tasks

tasks.ping.send()
for number in range(4):
    tasks.answer.send(f"question {number}", number=number)
worker = dramatiq.Worker(tasks.broker, worker_threads=4, worker_timeout=10)
worker.start()
tasks.broker.join("default", timeout=200_000, fail_fast=False)
worker.join()
worker.stop()
"""
_LAMBDA = f"""{ASK}
def handler(event, context):
    if event["text"] == "nothing":
        return "pong"
    return {{"asked": context.aws_request_id, "said": ask(event["text"])}}
"""


def _python(folder: Path, *words: str) -> None:
    subprocess.run([sys.executable, *words], cwd=folder, check=True, timeout=280)


def _done(results: Path) -> int:
    """Return how many tasks have ended. A result that is being written counts as none."""
    ended = 0
    for file in results.glob("celery-task-meta-*"):
        with contextlib.suppress(ValueError):
            ended += json.loads(file.read_bytes())["status"] in {"SUCCESS", "FAILURE"}
    return ended


@pytest.fixture(scope="module")
def celery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worked]:
    """Return what two forked workers of Celery did, with the file system as broker."""
    folder = tmp_path_factory.mktemp("celery")
    with recorded(folder, _CELERY) as runs, (folder / "worker.log").open("w") as log:
        options = ["--pool", "prefork", "--concurrency", "2", "--without-gossip", "--without-mingle", "--loglevel", "warning"]
        command = [sys.executable, "-m", "celery", "--app", "tasks", "worker", *options]
        (folder / "send.py").write_text(_SEND)
        _python(
            folder, "send.py"
        )  # before there is a worker: Celery reads and writes the table of this broker's queues unguarded
        worker = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            while _done(folder / "results") < 15:
                assert worker.poll() is None, (folder / "worker.log").read_text()
                time.sleep(0.05)
        finally:
            worker.terminate()  # what is begun is finished
            worker.wait()
        yield runs()


@pytest.fixture(scope="module")
def dramatiq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worked]:
    """Return what four threads of Dramatiq did."""
    folder = tmp_path_factory.mktemp("dramatiq")
    (folder / "work.py").write_text(_WORK)
    with recorded(folder, _DRAMATIQ) as runs:
        _python(folder, "work.py")
        yield runs()


class _Runtime(ThreadingHTTPServer):
    """AWS Lambda's runtime interface: gives a handler its events, one after the other, and takes what it returns."""

    def __init__(self, events: list[dict[str, str]]) -> None:
        self.events = list(enumerate(events))
        self.answers: list[tuple[str, bytes]] = []
        self.done = Event()
        super().__init__(("127.0.0.1", 0), type("Handler", (_RuntimeHandler,), {"runtime": self}))


class _RuntimeHandler(BaseHTTPRequestHandler):
    runtime: _Runtime
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""

    def do_GET(self) -> None:
        if not self.runtime.events:
            self.runtime.done.set()
            Event().wait()  # there is no further event: the process is frozen, and ends without notice
        number, event = self.runtime.events.pop(0)
        headers = {"Lambda-Runtime-Aws-Request-Id": f"request-{number}", "Lambda-Runtime-Deadline-Ms": "9999999999999"}
        self._answer(200, json.dumps(event).encode(), {**headers, "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:x"})

    def do_POST(self) -> None:
        self.runtime.answers.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
        self._answer(202, b"", {})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Type": "application/json", "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def aws_lambda(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worked]:
    """Return what AWS's own runtime client did with a handler, until its process was killed."""
    folder = tmp_path_factory.mktemp("lambda")
    runtime = _Runtime([{"text": "one"}, {"text": "nothing"}, {"text": "two"}])
    runtime.daemon_threads = True
    Thread(target=runtime.serve_forever, args=(0.01,), daemon=True).start()
    address = {"AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{runtime.server_address[1]}", "AWS_LAMBDA_FUNCTION_NAME": "shop"}
    with recorded(folder, _LAMBDA, **address) as runs:
        process = subprocess.Popen([sys.executable, "-m", "awslambdaric", "tasks.handler"], cwd=folder)
        try:
            assert runtime.done.wait(200)
        finally:
            process.kill()
            process.wait()
            runtime.shutdown()
            runtime.server_close()
        assert [path for path, _ in runtime.answers if not path.endswith("/response")] == []
        yield runs()


# -- Celery --------------------------------------------------------------------------------------------------------------


@pytest.mark.proof
def test_each_task_is_a_run_with_its_arguments_and_its_result(celery: Worked) -> None:
    runs = celery.of("tasks.answer")
    assert sorted(celery.input(run)["kwargs"]["number"] for run in runs) == [*range(10), 100]
    for run in runs:
        given, came = celery.input(run), values.decode(run.entry.output or "")
        prompts = [json.loads(found.request.body)["messages"][0]["content"] for found in run.exchanges]
        assert prompts == [given["args"][0], f"and then? {came['first']}"]
        assert (run.entry.kind, run.entry.target, came["number"]) == (EntryKind.TASK, "tasks:answer", given["kwargs"]["number"])
        assert not run.entry.unfinished


def test_a_task_without_a_call_is_no_run(celery: Worked, dramatiq: Worked, aws_lambda: Worked) -> None:
    assert [run for run in (*celery.runs, *dramatiq.runs) if "ping" in run.entry.name] == []
    assert len(celery.runs) == 11 + 2 + 1 + 1
    assert len(aws_lambda.runs) == 2


def test_the_attempts_at_a_task_are_runs_with_one_id(celery: Worked) -> None:
    first, second = sorted(celery.of("tasks.stubborn"), key=lambda run: celery.input(run)["attempt"])
    assert first.entry.run_id == second.entry.run_id == celery.input(first)["id"]
    assert (first.status, second.status) == (RunStatus.FAILED, RunStatus.OK)
    assert replays(celery, first)
    assert replays(celery, second)


@pytest.mark.proof
@pytest.mark.parametrize("name", ["answer", "fail"])
def test_a_task_replays_without_its_worker(celery: Worked, name: str) -> None:
    run = celery.of(f"tasks.{name}")[0]
    assert replays(celery, run)
    assert run.gaps == ()
    assert readiness(run).level >= 4


def test_a_task_that_starts_another_sends_nothing_in_a_replay(celery: Worked) -> None:
    [run] = celery.of("tasks.starts_another")
    queued = set((celery.folder / "queue").iterdir())
    assert replays(celery, run)
    assert set((celery.folder / "queue").iterdir()) == queued


def test_a_changed_line_of_a_task_diverges_at_its_step(celery: Worked, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(_CELERY.replace("and then?", "and now?"))
    report = reenact(freeze(celery.of("tasks.answer")[0]), cwd=tmp_path)
    assert report.first is not None
    assert (report.first.kind, report.first.step) == (DivergenceKind.REQUEST_CHANGED, 2)


def test_an_eager_task_is_a_run(tmp_path: Path) -> None:
    (tmp_path / "eager.py").write_text("import tasks\nprint(tasks.answer.delay('now', number=1).get())\n")
    with recorded(tmp_path, _CELERY, EAGER="1") as runs:
        _python(tmp_path, "eager.py")
        worked = runs()
        [run] = worked.of("tasks.answer")
        assert replays(worked, run)


# -- Dramatiq ------------------------------------------------------------------------------------------------------------


def test_each_message_is_a_run_and_its_retry_another(dramatiq: Worked) -> None:
    runs = dramatiq.of("answer")
    assert sorted(dramatiq.input(run)["kwargs"]["number"] for run in runs) == [0, 1, 1, 2, 3]
    failed = [run for run in runs if run.status is RunStatus.FAILED]
    assert sorted(dramatiq.input(run)["attempt"] for run in failed) == [0, 1]
    assert len({run.entry.run_id for run in failed}) == 1
    assert replays(dramatiq, failed[0])
    assert replays(dramatiq, next(run for run in runs if run.status is RunStatus.OK))


# -- AWS Lambda ----------------------------------------------------------------------------------------------------------


def test_each_event_is_a_run_that_was_delivered_before_the_answer(aws_lambda: Worked) -> None:
    """The process was killed, as Lambda ends a frozen one."""
    for run, text in zip(aws_lambda.runs, ("one", "two"), strict=True):
        event, context = aws_lambda.input(run)["args"]
        assert event == {"text": text}
        assert values.decode(run.entry.output or "")["asked"] == context["aws_request_id"] == run.entry.run_id
        assert (run.entry.name, run.entry.target, run.gaps) == ("shop", "tasks:handler", ())
        assert replays(aws_lambda, run)


def test_what_a_task_of_arq_takes_from_the_workers_start_is_a_gap() -> None:
    from arq.worker import Worker

    @freezeframe.tool
    def find(user: str) -> str:
        return user

    async def answer(ctx: dict[str, Any], user: str) -> str:
        return f"{find(user)} {ctx['prefix']} {ctx['job_try']}"

    with capture() as captured:
        workers.install(lambda: None)
        try:
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            worker = Worker([answer], handle_signals=False)
            context = {"prefix": "dear", "client": object(), "redis": object(), "job_id": "1", "job_try": 1}
            (function,) = worker.functions.values()
            coroutine: Any = function.coroutine
            assert loop.run_until_complete(coroutine(context, "maria")) == "maria dear 1"
            loop.close()
        finally:
            workers.uninstall()
            asyncio.set_event_loop(None)
        run = build_run(captured.spans)
    assert [gap.text for gap in run.gaps if "context" in gap.text] == [
        "the task uses prefix of its context, which a replay does not have"
    ]
