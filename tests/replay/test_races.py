"""Races, timeouts and cancellations: the run's winner wins each replay, and a call that the run gave up is given up again.

Recorded with the real SDK against a provider on loopback that answers by rule: a prompt is answered once others have come
in, or never. So the order of events is the test's, and no test sleeps.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, as_completed, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

import anyio
import openai
import pytest
from answered_here import answering
from tests.support.races import (
    B_FIRST,
    GIVEN_UP,
    NEVER,
    THREAD_TIMEOUT_S,
    TIMEOUT_S,
    Program,
    World,
    ask,
    call,
    record,
    replay,
)

import freezeframe
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = pytest.mark.long


# -- tasks --------------------------------------------------------------------------------------------------------------


async def wait_for_then_a_fallback(world: World) -> Any:
    async with world.aclient() as client:
        try:
            return await asyncio.wait_for(ask(client, "slow"), TIMEOUT_S)
        except TimeoutError:
            return await ask(client, world.last("fallback"))


async def timeout_block_then_a_fallback(world: World) -> Any:
    async with world.aclient() as client:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await ask(client, "slow")
        except TimeoutError:
            return await ask(client, world.last("fallback"))


async def three_timeouts_then_an_answer(world: World) -> Any:
    seen: list[str] = []
    async with world.aclient() as client:
        for attempt in ("slow", "slow", "slow", world.last("quick")):
            try:
                seen.append(await asyncio.wait_for(ask(client, attempt), TIMEOUT_S))
            except TimeoutError:
                seen.append("timed out")
    return seen


async def first_wins_and_the_loser_is_cancelled(world: World) -> Any:
    async with world.aclient() as client:
        tasks = [asyncio.create_task(ask(client, prompt)) for prompt in ("A", "B")]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        first = sorted(task.result() for task in done)
        return await ask(client, world.last(f"winner {first}"))


async def first_wins_and_the_loser_goes_on(world: World) -> Any:
    async with world.aclient() as client:
        tasks = [asyncio.create_task(ask(client, prompt)) for prompt in ("A", "B")]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        first = sorted(task.result() for task in done)
        said = await ask(client, world.last(f"winner {first}"))
        return [said, await asyncio.gather(*tasks)]


async def tasks_as_they_are_completed(world: World) -> Any:
    async with world.aclient() as client:
        seen: list[str] = []
        for next_one in asyncio.as_completed([ask(client, prompt) for prompt in ("A", "B", "C")]):
            seen.append(await next_one)
            await ask(client, world.last(f"after {len(seen)}"))
        return seen


async def a_sibling_fails_in_a_task_group(world: World) -> Any:
    async with world.aclient() as client:

        async def fails() -> None:
            raise ValueError(await ask(client, "B"))

        text = ""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(ask(client, "A"))
                group.create_task(fails())
        except* ValueError as errors:
            text = str(errors.exceptions[0])
        return await ask(client, world.last(f"winner {text}"))


async def anyio_takes_the_first_and_cancels_the_scope(world: World) -> Any:
    async with world.aclient() as client:
        first: list[str] = []

        async def race(prompt: str, scope: anyio.CancelScope) -> None:
            first.append(await ask(client, prompt))
            scope.cancel()

        async with anyio.create_task_group() as group:
            for prompt in ("A", "B"):
                group.start_soon(race, prompt, group.cancel_scope)
        return await ask(client, world.last(f"winner {first}"))


async def anyio_moves_on_after_a_while(world: World) -> Any:
    async with world.aclient() as client:
        with anyio.move_on_after(TIMEOUT_S):
            return await ask(client, "slow")
        return await ask(client, world.last("fallback"))


async def a_hedged_request(world: World) -> Any:
    async with world.aclient() as client:
        tasks = [asyncio.create_task(ask(client, "A"))]
        done, _ = await asyncio.wait(tasks, timeout=TIMEOUT_S)
        if not done:
            tasks.append(asyncio.create_task(ask(client, "B")))
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        return await ask(client, world.last(f"winner {sorted(task.result() for task in done)}"))


async def a_stream_cut_off_by_a_timeout(world: World) -> Any:
    seen: list[str | None] = []
    async with world.aclient() as client:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT_S):
                stream = await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "slow"}], stream=True
                )
                async for chunk in stream:
                    seen.append(chunk.choices[0].delta.content)
        return await ask(client, world.last(f"got {seen}"))


async def a_tool_given_up(world: World) -> Any:
    never = asyncio.Event()

    @freezeframe.tool
    async def look_up(name: str) -> str:
        await never.wait()
        return name

    async with world.aclient() as client:
        try:
            found = await asyncio.wait_for(look_up("x"), TIMEOUT_S)
        except TimeoutError:
            found = "nothing"
        return await ask(client, world.last(f"found {found}"))


async def a_thread_behind_a_task_is_left(world: World) -> Any:
    """The task is cancelled, its thread is not: its answer comes later."""
    async with world.aclient() as client:
        try:
            return await asyncio.wait_for(asyncio.to_thread(world.ask, "A"), TIMEOUT_S)
        except TimeoutError:
            return await ask(client, world.last("winner none"))


def _racers() -> list[asyncio.Task[str]]:
    """Start two calls of a tool: B answers, and A some turns of the loop later. Nothing is asked in between."""
    answered = asyncio.Event()

    @freezeframe.tool
    async def look_up(name: str) -> str:
        if name == "A":
            await answered.wait()
            for _ in range(9):
                await asyncio.sleep(0)
        answered.set()
        return name

    return [asyncio.create_task(look_up(name)) for name in ("A", "B")]


async def how_many_tasks_are_found_done(world: World) -> Any:
    async with world.aclient() as client:
        tasks = _racers()
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        first = [task.result() for task in tasks if task in done]
        await asyncio.gather(*tasks)
        return [first, await ask(client, world.last(f"found {first}"))]


async def _takes_turns(task: asyncio.Task[str], turns: int) -> str:
    result = await task
    for _ in range(turns):
        await asyncio.sleep(0)
    return result


async def tasks_that_differ_by_turns_as_they_are_completed(world: World) -> Any:
    async with world.aclient() as client:
        slow, quick = _racers()
        items = [_takes_turns(slow, 0), _takes_turns(quick, 5)]
        seen = [await item for item in asyncio.as_completed(items)]
        return [seen, await ask(client, world.last(f"found {seen}"))]


async def tasks_that_differ_by_turns_as_they_are_completed_themselves(world: World) -> Any:
    """What `asyncio.as_completed` gives in ``async for``, from Python 3.13 on."""
    async with world.aclient() as client:
        slow, quick = _racers()
        tasks = [asyncio.ensure_future(_takes_turns(slow, 0)), asyncio.ensure_future(_takes_turns(quick, 5))]
        seen = [tasks.index(task) async for task in asyncio.as_completed(tasks)]  # type: ignore[attr-defined, unused-ignore]
        return [seen, await ask(client, world.last(f"found {seen}"))]


# -- threads ------------------------------------------------------------------------------------------------------------


def futures_that_had_ended_as_completed(world: World) -> Any:
    """Python gives them in the order of their addresses."""
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(str, number) for number in range(8)]
        wait(futures)
        seen = [future.result() for future in as_completed(futures)]
        return [seen, world.ask(world.last(f"found {seen}"))]


def threads_first_completed(world: World) -> Any:
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(world.ask, prompt) for prompt in ("A", "B")]
        done, _ = wait(futures, return_when=FIRST_COMPLETED)
        first = sorted(future.result() for future in done)
        said = world.ask(world.last(f"winner {first}"))
        return [said, *(future.result() for future in futures)]


def threads_as_completed(world: World) -> Any:
    with ThreadPoolExecutor(3) as pool:
        seen: list[str] = []
        for future in as_completed([pool.submit(world.ask, prompt) for prompt in ("A", "B", "C")]):
            seen.append(future.result())
            world.ask(world.last(f"after {len(seen)}"))
        return seen


def threads_and_a_queue(world: World) -> Any:
    answers: queue.Queue[str] = queue.Queue()

    def put(prompt: str) -> None:
        answers.put(world.ask(prompt))

    threads = [threading.Thread(target=put, args=(prompt,)) for prompt in ("A", "B")]
    for thread in threads:
        thread.start()
    said = world.ask(world.last(f"winner {answers.get()}"))
    for thread in threads:
        thread.join()
    return said


def a_client_timeout(world: World) -> Any:
    try:
        return world.ask("slow", timeout=THREAD_TIMEOUT_S)
    except openai.APITimeoutError:
        return world.ask(world.last("fallback"))


def a_result_that_is_not_waited_for(world: World) -> Any:
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(world.ask, "A")
        try:
            said = future.result(timeout=THREAD_TIMEOUT_S)
        except FutureTimeoutError:
            said = "nothing"
        return [world.ask(world.last(f"winner {said}")), future.result()]


def an_abandoned_thread(world: World) -> Any:
    answers: queue.Queue[str] = queue.Queue()
    threading.Thread(target=lambda: answers.put(world.ask("slow", timeout=300)), daemon=True).start()
    try:
        said = answers.get(timeout=THREAD_TIMEOUT_S)
    except queue.Empty:
        said = "nothing"
    return world.ask(world.last(f"found {said}"))


def tasks_in_threads(world: World) -> Any:
    """Two event loops, one in each thread, race."""

    def run(prompt: str) -> str:
        async def main() -> str:
            async with world.aclient() as client:
                return await ask(client, prompt)

        return asyncio.run(main())

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(run, prompt) for prompt in ("A", "B")]
        done, _ = wait(futures, return_when=FIRST_COMPLETED)
        first = sorted(future.result() for future in done)
        return [world.ask(world.last(f"winner {first}")), *(future.result() for future in futures)]


BOTH = {"A": ("A", "B"), "B": ("winner",)}
ROUND = {"C": ("A", "B", "C"), "A": ("after 1",), "B": ("after 2",)}

PROGRAMS: list[tuple[Program, Mapping[str, tuple[str, ...]]]] = [
    (wait_for_then_a_fallback, GIVEN_UP),
    (timeout_block_then_a_fallback, GIVEN_UP),
    (three_timeouts_then_an_answer, GIVEN_UP),
    (first_wins_and_the_loser_is_cancelled, {"A": (NEVER,), "B": ("A", "B")}),
    (first_wins_and_the_loser_is_cancelled, {"B": (NEVER,), "A": ("A", "B")}),
    (first_wins_and_the_loser_goes_on, B_FIRST),
    (first_wins_and_the_loser_goes_on, BOTH),
    (tasks_as_they_are_completed, ROUND),
    (a_sibling_fails_in_a_task_group, {"A": (NEVER,), "B": ("A", "B")}),
    (anyio_takes_the_first_and_cancels_the_scope, {"A": (NEVER,), "B": ("A", "B")}),
    (anyio_moves_on_after_a_while, GIVEN_UP),
    (a_hedged_request, {"A": (NEVER,)}),
    (a_stream_cut_off_by_a_timeout, GIVEN_UP),
    (a_tool_given_up, {}),
    (a_thread_behind_a_task_is_left, {"A": ("winner",)}),
    (how_many_tasks_are_found_done, {}),
    (tasks_that_differ_by_turns_as_they_are_completed, {}),
    *([(tasks_that_differ_by_turns_as_they_are_completed_themselves, {})] if sys.version_info >= (3, 13) else []),
    (futures_that_had_ended_as_completed, {}),
    (threads_first_completed, B_FIRST),
    (threads_first_completed, BOTH),
    (threads_as_completed, ROUND),
    (threads_and_a_queue, B_FIRST),
    (threads_and_a_queue, BOTH),
    (a_client_timeout, GIVEN_UP),
    (a_result_that_is_not_waited_for, {"A": ("winner",)}),
    (an_abandoned_thread, GIVEN_UP),
    (tasks_in_threads, B_FIRST),
]

every_program = pytest.mark.parametrize(
    ("program", "rules"),
    [pytest.param(program, rules, id=f"{program.__name__}-{number}") for number, (program, rules) in enumerate(PROGRAMS)],
)


# A thread that the program abandoned outlives the run. Once nothing else can happen, the replay lets it go with a miss.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("times", [2, pytest.param(50, marks=pytest.mark.soak)])
@every_program
def test_the_race_ends_as_it_did_every_time_and_another_last_prompt_is_never_identical(
    program: Program, rules: Mapping[str, tuple[str, ...]], times: int
) -> None:
    fixture, outcome, url = record(program, rules)
    for _ in range(times):
        report, again = replay(program, fixture, url)
        assert report.divergences == ()
        assert again == outcome
        assert len(report.served) == report.steps > 0
    report, _ = replay(program, fixture, url, changed=True)
    assert verdict(report) is not Verdict.IDENTICAL
    assert report.first is not None
    assert report.first.kind is DivergenceKind.REQUEST_CHANGED


@pytest.mark.proof
def test_a_lane_reads_the_time_of_its_own_answer_and_not_of_one_that_came_later() -> None:
    fixture, _, url = record(first_wins_and_the_loser_goes_on, B_FIRST)
    ends = {
        json.loads(step.exchange.request.body)["messages"][0]["content"]: step.exchange.end_time_unix_nano
        for step in fixture.steps
    }
    now_ns = [0]
    read: dict[str, int] = {}

    async def reads_the_clock(world: World) -> None:
        async def read_after(prompt: str) -> None:
            await ask(client, prompt)
            read[prompt] = now_ns[0]

        async with world.aclient() as client:
            tasks = [asyncio.create_task(read_after(prompt)) for prompt in ("A", "B")]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await ask(client, next(prompt for prompt in ends if prompt.startswith("winner")))
            await asyncio.gather(*tasks)

    with answering(ReplaySession(fixture, on_time=lambda to_ns: now_ns.__setitem__(0, to_ns))):
        call(reads_the_clock, World(url=url))
    assert read["B"] < ends["A"] <= read["A"] + 1_000_000_000
    assert read["B"] < read["A"]
