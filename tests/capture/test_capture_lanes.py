"""Lanes and parents: tasks, threads and executors keep the run, the right parent, and a lane that a replay finds again."""

from __future__ import annotations

import asyncio
import contextvars
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import anyio.to_thread
import pytest
from capture_provider import Provider
from capture_replay import replaying

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas.exchange import format_lane
from freezeframe_schemas.run import build_run


@freezeframe.tool
def roll(name: str) -> float:
    """A tool that never gives the same answer twice, and never at the same speed."""
    time.sleep(random.random() / 200)
    return random.random()


@freezeframe.tool
async def roll_async(name: str) -> float:
    await asyncio.sleep(random.random() / 200)
    return random.random()


@freezeframe.run
def in_threads() -> Any:
    results: dict[int, float] = {}

    def work(number: int) -> None:
        results[number] = roll("same")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[number] for number in range(6)]


@freezeframe.run
def in_threads_of_its_own() -> Any:
    """Subclasses that override `run`, and timers."""

    class Worker(threading.Thread):
        result = 0.0

        def run(self) -> None:
            self.result = roll("same")

    workers = [Worker() for _ in range(4)]
    for worker in workers:
        worker.start()
    late: list[float] = []
    timer = threading.Timer(0.0, lambda: late.append(roll("same")))
    timer.start()
    for thread in [*workers, timer]:
        thread.join()
    return [*(worker.result for worker in workers), *late]


@freezeframe.run
def in_a_pool() -> Any:
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(roll, ["same"] * 8))


@freezeframe.run
def in_a_pool_with_contexts() -> Any:
    """The way LangChain does it."""
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(partial(contextvars.copy_context().run, partial(roll, "same"))) for _ in range(6)]
        return [future.result() for future in futures]


@freezeframe.run
def in_pools_of_a_pool_with_contexts() -> Any:
    """As LangGraph calls tools: each node in a worker, its tools in another pool, every one in a context copied beforehand."""

    def in_copies(work: Callable[[str], Any]) -> Any:
        contexts = [contextvars.copy_context() for _ in range(3)]
        with ThreadPoolExecutor(3) as pool:
            return [future.result() for future in [pool.submit(in_next, contexts, work) for _ in range(3)]]

    def in_next(contexts: list[contextvars.Context], work: Callable[[str], Any]) -> Any:
        return contexts.pop().run(work, "same")

    return in_copies(lambda _: in_copies(roll))


@freezeframe.run
async def in_tasks() -> Any:
    return await asyncio.gather(*(roll_async("same") for _ in range(6)))


@freezeframe.run
async def in_a_task_group() -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(roll_async("same")) for _ in range(4)]
    return [task.result() for task in tasks]


@freezeframe.run
async def to_threads() -> Any:
    return await asyncio.gather(*(asyncio.to_thread(roll, "same") for _ in range(5)))


@freezeframe.run
async def in_an_executor() -> Any:
    loop = asyncio.get_running_loop()
    return await asyncio.gather(*(loop.run_in_executor(None, roll, "same") for _ in range(5)))


@freezeframe.run
async def nested_tasks() -> Any:
    async def pair() -> Any:
        return await asyncio.gather(roll_async("same"), roll_async("same"))

    return await asyncio.gather(pair(), pair())


SHAPES: list[Callable[[], Any]] = [
    in_threads,
    in_threads_of_its_own,
    in_a_pool,
    in_a_pool_with_contexts,
    in_pools_of_a_pool_with_contexts,
    in_tasks,
    in_a_task_group,
    to_threads,
    in_an_executor,
    nested_tasks,
]


def call(shape: Callable[[], Any]) -> Any:
    result = shape()
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_identical_concurrent_calls_get_each_its_own_answer(shape: Callable[[], Any]) -> None:
    with capture() as captured:
        first = call(shape)
        run = build_run(captured.spans)
    with replaying(run.exchanges) as recorded:
        second = call(shape)
    assert first == second
    assert recorded.left == []
    assert len({exchange.lane for exchange in run.exchanges}) == len(run.exchanges)
    assert run.gaps == ()


@pytest.mark.long
@freezeframe.run
async def in_a_worker_and_then_in_a_task() -> Any:
    """As Starlette answers: a dependency in a thread, the pieces in a task."""
    await anyio.to_thread.run_sync(len, "")
    return await asyncio.create_task(roll_async("same"))


def test_a_worker_thread_of_anyio_takes_no_lane_whether_it_is_new_or_not() -> None:
    async def twice() -> None:
        await in_a_worker_and_then_in_a_task()
        await in_a_worker_and_then_in_a_task()

    with capture() as captured:
        asyncio.run(twice())
        first, second = captured.exchanges
    assert first.lane == second.lane


def test_a_connection_made_while_recording_does_not_shift_the_lanes(provider: Provider) -> None:
    """asyncio resolves names in an executor and connects in tasks; a replay does neither."""
    import openai  # here: it takes a second, and the other tests do not need it

    @freezeframe.run
    async def agent() -> Any:
        async with openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="x", max_retries=0) as client:

            async def ask() -> Any:
                answer = await client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "same"}])
                return answer.choices[0].message.content

            first = await ask()
            return [first, *await asyncio.gather(*(ask() for _ in range(4)))]

    with capture() as captured:
        first = asyncio.run(agent())
        exchanges = captured.exchanges
    provider.stop()
    with replaying(exchanges):
        assert asyncio.run(agent()) == first
    assert sorted(format_lane(exchange.lane) for exchange in exchanges)[0] == ""


class Client:
    """Closes itself in a task when it is collected, as the asynchronous clients of OpenAI and Anthropic do."""

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        asyncio.get_running_loop().create_task(asyncio.sleep(0))


@pytest.mark.parametrize("first", [True, False])
def test_what_is_collected_while_a_run_goes_on_shifts_no_lane(first: bool) -> None:
    """The collector decides when that is, and asyncio then finds a task that the program did not make."""

    @freezeframe.run
    async def agent(collects: bool) -> Any:
        if collects:
            Client()
        return await asyncio.gather(*(roll_async("same") for _ in range(4)))

    with capture() as captured:
        rolled = asyncio.run(agent(first))
        exchanges = captured.exchanges
    with replaying(exchanges) as recorded:
        assert asyncio.run(agent(not first)) == rolled
    assert recorded.left == []


def test_a_thread_of_the_application_sees_none_of_our_context_variables_change() -> None:
    mine: contextvars.ContextVar[str] = contextvars.ContextVar("mine", default="default")

    @freezeframe.run
    def agent() -> str:
        mine.set("set in the parent")
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(mine.get).result()

    with capture():
        assert agent() == "default"
