"""Calls that a run gave up, and the time that a replay shows: none of it depends on how quick the machine is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from answered_here import answering
from tests.support.races import (
    GIVEN_UP,
    THREAD_TIMEOUT_S,
    TIMEOUT_S,
    Program,
    Provider,
    World,
    ask,
    record,
    replay,
)

import freezeframe
from freezeframe.testing import capture
from freezeframe_replay.engine import pace
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

WORK_NS = 50_000_000
"""Of a processor. Beside rivals it takes seconds."""

# -- calls that were given up, and are not ------------------------------------------------------------------------------


async def waits_on_where_it_gave_up(world: World) -> Any:
    async with world.aclient() as client:
        if world.changed:
            return await ask(client, "slow")
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(ask(client, "slow"), TIMEOUT_S)
        return await ask(client, "fallback")


async def waits_beside_a_heartbeat(world: World) -> Any:
    async def beat() -> None:
        while True:
            await asyncio.sleep(5)

    heart = asyncio.create_task(beat())
    try:
        return await waits_on_where_it_gave_up(world)
    finally:
        heart.cancel()


def joins_the_thread_that_it_abandoned(world: World) -> Any:
    thread = threading.Thread(target=world.ask, args=("slow",), kwargs={"timeout": 60}, daemon=True)
    thread.start()
    thread.join(None if world.changed else THREAD_TIMEOUT_S)
    return world.ask("fallback")


@pytest.mark.proof("code REPLAY-109")
@pytest.mark.parametrize("program", [waits_on_where_it_gave_up, waits_beside_a_heartbeat, joins_the_thread_that_it_abandoned])
def test_a_call_that_is_no_longer_given_up_is_named_and_does_not_hang(program: Program) -> None:
    fixture, outcome, url = record(program, GIVEN_UP)
    report, again = replay(program, fixture, url)
    assert (report.divergences, again) == ((), outcome)
    report, _ = replay(program, fixture, url, changed=True)
    first = report.first
    assert first is not None
    assert (first.kind, first.step) == (DivergenceKind.STILL_WAITED, 1)


async def a_longer_timeout(world: World) -> Any:
    async with world.aclient() as client:
        try:
            return await asyncio.wait_for(ask(client, "slow"), 600 if world.changed else TIMEOUT_S)
        except TimeoutError:
            return await ask(client, "fallback")


def test_a_call_that_is_given_up_later_is_given_up_without_the_wait() -> None:
    fixture, outcome, url = record(a_longer_timeout, GIVEN_UP)
    report, again = replay(a_longer_timeout, fixture, url, changed=True)
    assert verdict(report) is Verdict.IDENTICAL
    assert again == outcome


async def works_before_it_gives_up(world: World) -> Any:
    async with world.aclient() as client:
        task = asyncio.create_task(ask(client, "slow"))
        await asyncio.wait([task], timeout=TIMEOUT_S)
        sum(range(10_000_000))
        task.cancel()
        return await ask(client, "fallback")


def test_a_forked_process_that_works_is_not_taken_for_one_that_rests() -> None:
    fixture, outcome, url = record(works_before_it_gives_up, GIVEN_UP)
    child = os.fork()
    if not child:
        status = 1
        try:
            report, again = replay(works_before_it_gives_up, fixture, url)
            status = 0 if verdict(report) is Verdict.IDENTICAL and again == outcome else 3
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.proof
def test_a_run_that_was_cancelled_from_outside_is_cancelled_again() -> None:
    async def asks(world: World) -> Any:
        async with world.aclient() as client:
            return await ask(client, "slow")

    @freezeframe.run
    async def agent(url: str) -> Any:
        return await asks(World(url=url))

    async def client_goes_away(url: str) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(agent(url), TIMEOUT_S)

    with Provider(GIVEN_UP) as provider, capture() as captured:
        asyncio.run(client_goes_away(provider.url))
        fixture = freeze(build_run(captured.spans))
    session = ReplaySession(fixture)
    with answering(session), pytest.raises(asyncio.CancelledError):
        asyncio.run(agent(provider.url))
    assert verdict(session.report()) is Verdict.IDENTICAL


# -- time and order -----------------------------------------------------------------------------------------------------


async def spins_until_a_deadline(world: World) -> Any:
    async with world.aclient() as client:
        said = await ask(client, "A")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 0.2
        while loop.time() < deadline:
            await asyncio.sleep(0)
        return [said, await ask(client, "B")]


def test_a_program_that_spins_until_a_deadline_reaches_it() -> None:
    fixture, outcome, url = record(spins_until_a_deadline, {})
    report, again = replay(spins_until_a_deadline, fixture, url)
    assert (report.divergences, again) == ((), outcome)


def works_beside_rivals() -> None:
    """Work on one processor with a small share of it: this thread's priority is low, and theirs is not."""
    processor = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processor})
    rivals = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        os.setpriority(os.PRIO_PROCESS, 0, 15)  # on Linux, of the thread
        until_ns = time.thread_time_ns() + WORK_NS
        while time.thread_time_ns() < until_ns:
            sum(range(1000))
    finally:
        for rival in rivals:
            rival.kill()
            rival.wait()


async def waits_a_second_for_an_answer_beside_work(world: World) -> Any:
    async with world.aclient() as client:
        work = asyncio.get_running_loop().run_in_executor(None, works_beside_rivals)
        try:
            said = await asyncio.wait_for(ask(client, "A"), 1)
        except TimeoutError:
            said = "nothing"
        await work
        return [said, await ask(client, "B")]


@pytest.mark.skipif(sys.platform != "linux", reason="priorities of threads, and what the system says of them")
def test_time_in_which_a_program_gets_no_processor_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_BUSY_NS", 4 * WORK_NS)
    fixture, outcome, url = record(waits_a_second_for_an_answer_beside_work, {})
    report, again = replay(waits_a_second_for_an_answer_beside_work, fixture, url)
    assert (report.divergences, again) == ((), outcome)


def test_a_task_that_blocks_its_loop_is_answered_beside_timers_that_are_due() -> None:
    async def program(world: World) -> Any:
        async with world.aclient() as client:
            timer = asyncio.create_task(asyncio.sleep(0.001))
            other = asyncio.create_task(ask(client, "B"))
            await asyncio.sleep(0)
            blocking = world.ask(world.last("A"))
            await timer
            return [blocking, await other]

    fixture, outcome, url = record(program, {})
    for _ in range(5):
        assert replay(program, fixture, url)[1] == outcome


def test_workers_that_share_a_queue_may_take_each_others_items() -> None:
    def program(world: World) -> Any:
        items: queue.Queue[int | None] = queue.Queue()
        for item in (*range(6), None, None):
            items.put(item)
        answers: dict[int, str] = {}

        def work() -> None:
            while (item := items.get()) is not None:
                answers[item] = world.ask(f"item {item}")

        workers = [threading.Thread(target=work) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return [world.ask(world.last("all done")), sorted(answers.items())]

    fixture, outcome, url = record(program, {})
    for _ in range(20):
        report, again = replay(program, fixture, url)
        assert (report.divergences, again) == ((), outcome)
    assert verdict(replay(program, fixture, url, changed=True)[0]) is not Verdict.IDENTICAL
