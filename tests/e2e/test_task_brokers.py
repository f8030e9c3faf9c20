"""What a framework asks of a database for a task, to send a message or keep a result, is neither step nor gap of its run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from database_servers import redis_server
from recorded_tasks import ASK, recorded, replays

from freezeframe_schemas.run import EntryKind

pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.usefixtures("warm_python")]

_CELERY = f"""{ASK}
from celery import Celery

app = Celery("tasks", broker="memory://", backend="db+sqlite:///" + os.path.abspath("results.db"))


class Around(app.Task):
    def before_start(self, task_id, args, kwargs):
        self.place = ask("where?")

    def on_retry(self, exc, task_id, args, kwargs, einfo):
        ask("again")

    def on_failure(self, exc, task_id, args, kwargs, einfo):
        ask(f"it failed: {{exc}}")

    def on_success(self, result, task_id, args, kwargs):
        raise ValueError(ask(f"it is {{result}}"))  # which Celery only logs

    def after_return(self, status, retval, task_id, args, kwargs, einfo):
        ask(f"{{status}} is over")


@app.task(base=Around)
def answer(text):
    if text == "fail":
        raise ValueError(ask(text))
    return ask(text)


@app.task(bind=True, base=Around, max_retries=1)
def starts_another(self, text):
    self.update_state(state="AT", meta=self.place)
    answer.delay(ask(text))
    if self.request.retries == 0:
        raise self.retry(countdown=0)
"""
_WORK_CELERY = """
import tasks
from celery.contrib.testing.worker import start_worker

with start_worker(tasks.app, pool="threads", concurrency=1, perform_ping_check=False):
    tasks.starts_another.delay("first").get(timeout=200)
    tasks.answer.delay("fail").get(timeout=200, propagate=False)
"""
_RQ = f"""{ASK}
import redis, rq

queue = rq.Queue(connection=redis.Redis(port=int(os.environ["REDIS_PORT"])))


def answer(text):
    return ask(text)


def starts_another(text):
    queue.enqueue(answer, ask(text))
"""
_WORK_RQ = """
import rq, tasks

tasks.queue.enqueue(tasks.starts_another, "first")
rq.Worker([tasks.queue], connection=tasks.queue.connection).work(burst=True, logging_level="ERROR")
"""
_DRAMATIQ = f"""{ASK}
import dramatiq
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware.asyncio import AsyncIO

broker = StubBroker()
broker.add_middleware(AsyncIO())
dramatiq.set_broker(broker)


@dramatiq.actor
async def answer(text):
    async with httpx.AsyncClient(timeout=200) as client:
        asked = {{"model": "m", "messages": [{{"role": "user", "content": text}}]}}
        await client.post(os.environ["PROVIDER_BASE_URL"] + "/v1/chat/completions", json=asked)
"""
_WORK_DRAMATIQ = """
import dramatiq, tasks

tasks.answer.send("first")
worker = dramatiq.Worker(tasks.broker, worker_threads=1, worker_timeout=10)
worker.start()
tasks.broker.join("default", timeout=200_000)
worker.stop()
"""


def test_an_asynchronous_actor_replays_without_the_loop_of_its_worker(tmp_path: Path) -> None:
    with recorded(tmp_path, _DRAMATIQ) as read:
        subprocess.run([sys.executable, "-c", _WORK_DRAMATIQ], cwd=tmp_path, check=True, capture_output=True)
        worked = read()
        (run,) = worked.of("answer")
        assert run.gaps == ()
        assert replays(worked, run)


@pytest.mark.parametrize(("framework", "records"), [("celery", "1"), ("rq", "1"), ("rq", "")])
def test_what_the_framework_asks_of_a_database_is_not_part_of_the_run(framework: str, records: str, tmp_path: Path) -> None:
    source, work = {"celery": (_CELERY, _WORK_CELERY), "rq": (_RQ, _WORK_RQ)}[framework]
    with (
        redis_server(wanted=framework == "rq") as port,
        recorded(tmp_path, source, FREEZEFRAME_RECORD_DATABASES=records, REDIS_PORT=port) as read,
    ):
        (tmp_path / "work.py").write_text(work)  # a replay calls a function of RQ's if the program's code queues it
        subprocess.run([sys.executable, "work.py"], cwd=tmp_path, check=True, capture_output=True)
        worked = read()
        runs = [run for run in worked.runs if run.entry.kind is EntryKind.TASK]
        assert {run.entry.name for run in runs} == {"tasks.answer", "tasks.starts_another"}
        for run in runs:
            assert {exchange.kind.value for exchange in run.exchanges} == {"model"}
            # before it, in it, after it, and, if it is not tried again, when it has returned
            assert len(run.exchanges) in ({3, 4} if framework == "celery" else {1})
            assert run.gaps == ()
            assert replays(worked, run)
