"""Activities of Temporal: each attempt that calls a model is a run, the workflow's are a session, and each replays by itself.

Temporal's worker and its core, in a process of their own, poll a server of the tests (`fake_temporal`) over a socket.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from fake_temporal import temporal_server
from recorded_tasks import Worked, recorded, replays

from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.run import EntryKind

pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.usefixtures("warm_python")]

_TASKS = """
import asyncio, os
import freezeframe

freezeframe.instrument()

import httpx
from concurrent.futures import ThreadPoolExecutor
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

URL = os.environ["PROVIDER_BASE_URL"] + "/v1/chat/completions"


def asked(prompt):
    return {"model": "m", "messages": [{"role": "user", "content": prompt}]}


@activity.defn
async def later(text):
    activity.heartbeat("half")
    async with httpx.AsyncClient(timeout=200) as client:
        answer = await client.post(URL, json=asked(text))
    said = answer.json()["choices"][0]["message"]["content"]
    if activity.info().attempt == 1:
        raise ValueError(said)
    return f"{said} of {activity.info().workflow_id}"


@activity.defn
def ping():
    return "pong"


def ask(text):
    return httpx.post(URL, json=asked(text), timeout=200).json()["choices"][0]["message"]["content"]


class Shop:
    def __init__(self, name):
        self.name = name

    @activity.defn
    def sell(self, text):
        return self.name + ask(text)

    @activity.defn
    def give(self, text):
        return self.name + ask(text)


shop = Shop("here: ")


async def main():
    client = await Client.connect(os.environ["TEMPORAL_ENDPOINT"])
    activities = [later, ping, shop.sell, Shop("nowhere: ").give]
    with ThreadPoolExecutor(4) as threads:
        await Worker(client, task_queue="q", activities=activities, activity_executor=threads).run()


if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worked]:
    folder = tmp_path_factory.mktemp("temporal")
    with temporal_server() as temporal, recorded(folder, _TASKS, TEMPORAL_ENDPOINT=f"127.0.0.1:{temporal.port}") as runs:
        worker = subprocess.Popen([sys.executable, "-m", "tasks"], cwd=folder)
        try:
            for number in range(20):
                temporal.schedule("later", f"question {number}", workflow=f"chat-{number}")
            for name in ("sell", "give"):
                temporal.schedule(name, "one", workflow="chat-0")
            temporal.schedule("ping", workflow="chat-0")
            for _ in range(20 * 2 + 3):
                temporal.ended.get(timeout=200)
        finally:
            worker.terminate()
            worker.wait()
        yield runs()


def test_each_attempt_at_an_activity_is_a_run_that_has_the_id_of_the_others(worked: Worked) -> None:
    runs = worked.of("later")
    assert len(worked.runs) == 20 * 2 + 2  # and none of ping
    for number in range(20):
        first, second = (run for run in runs if f'"question {number}"' in (run.entry.input or ""))
        assert first.entry.run_id == second.entry.run_id == f"chat-{number}-run/1"
        assert first.entry.session == second.entry.session == f"chat-{number}"
        assert {first.status, second.status} == {RunStatus.FAILED, RunStatus.OK}
        assert {worked.input(run)["attempt"] for run in (first, second)} == {0, 1}
        assert first.entry.kind is EntryKind.TASK
        for run in (first, second):
            assert [f"question {number}".encode() in exchange.request.body for exchange in run.exchanges] == [True]


def test_an_activity_replays_without_its_worker(worked: Worked) -> None:
    first, second = (run for run in worked.of("later") if '"question 7"' in (run.entry.input or ""))
    assert first.gaps == second.gaps == ()
    assert replays(worked, first)
    assert replays(worked, second)


def test_an_activity_of_an_object_replays_if_a_global_is_that_object(worked: Worked) -> None:
    [sell], [give] = worked.of("sell"), worked.of("give")
    assert (sell.entry.target, sell.gaps) == ("tasks:shop.sell", ())
    assert replays(worked, sell)
    assert [gap.kind for gap in give.gaps] == [GapKind.ENTRY_UNREACHABLE]
