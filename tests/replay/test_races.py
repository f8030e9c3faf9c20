"""Races, timeouts and cancellations: the run's winner wins each replay, and a call that the run gave up is given up again.

Recorded with the real SDK against a provider on loopback that answers by rule: a prompt is answered once others have come
in, or never. So the order of events is the test's, and no test sleeps.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import queue
import random
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, as_completed, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import openai
import pytest

import freezeframe
from freezeframe import seams
from freezeframe.seams import _port, serve, stop_serving
from freezeframe.testing import capture
from freezeframe_replay.engine import pace
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.divergence import DivergenceKind, Report
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]

NEVER = "never"
TIMEOUT_S = 2.0
"""Of tasks: long enough for the request to be on its way on a busy machine. A replay skips it."""
THREAD_TIMEOUT_S = 0.5
"""Of threads: a replay waits for it."""


class Provider:
    """Answers each prompt with random words, once the prompts that its rule names have come in."""

    def __init__(self, rules: Mapping[str, tuple[str, ...]]) -> None:
        self._rules = rules
        self._came: list[str] = []
        self._changed = threading.Condition()
        self._closed = False
        handler = type("Handler", (_Handler,), {"provider": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Provider:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def let(self, prompt: str) -> bool:
        """Wait until `prompt` may be answered; False if it never may."""
        with self._changed:
            self._came.append(prompt)
            self._changed.notify_all()
            wanted = self._rules.get(prompt, ())
            self._changed.wait_for(lambda: self._closed or all(any(c.startswith(w) for c in self._came) for w in wanted))
            return not self._closed


class _Handler(BaseHTTPRequestHandler):
    provider: Provider
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = asked["messages"][-1]["content"]
        if asked.get("stream"):
            return self._stream(prompt)
        if not self.provider.let(prompt):
            return None
        message = {"role": "assistant", "content": f"{prompt}: {random.SystemRandom().random()}"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = json.dumps({"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}).encode()
        with contextlib.suppress(OSError):  # the client may be gone
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def _stream(self, prompt: str) -> None:
        with contextlib.suppress(OSError):
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for text in (f"{random.SystemRandom().random()}", "more"):
                choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
                event = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}
                data = f"data: {json.dumps(event)}\n\n".encode()
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                self.wfile.flush()
                if not self.provider.let(prompt):
                    return
            self.wfile.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


@dataclass(slots=True, kw_only=True)
class World:
    """What a program meets: the provider's address, and whether its last prompt differs from the recorded one."""

    url: str
    changed: bool = False
    clients: list[Any] = field(default_factory=list[Any])

    def last(self, text: str) -> str:
        return f"{text}!" if self.changed else text

    def client(self, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(
            base_url=f"{self.url}/v1",
            api_key="sk-test",
            max_retries=0,
            http_client=openai.DefaultHttpxClient(verify=False),
            **options,
        )

    def aclient(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(
            base_url=f"{self.url}/v1",
            api_key="sk-test",
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(verify=False),
        )

    def ask(self, prompt: str, **options: Any) -> str:
        answer = self.client(**options).chat.completions.create(model="m", messages=[{"role": "user", "content": prompt}])
        return answer.choices[0].message.content or ""


async def ask(client: openai.AsyncOpenAI, prompt: str) -> str:
    answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": prompt}])
    return answer.choices[0].message.content or ""


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
    threading.Thread(target=lambda: answers.put(world.ask("slow", timeout=60)), daemon=True).start()
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


Program = Callable[[World], Any]

B_FIRST = {"A": ("winner",), "B": ("A", "B")}
BOTH = {"A": ("A", "B"), "B": ("winner",)}
ROUND = {"C": ("A", "B", "C"), "A": ("after 1",), "B": ("after 2",)}
GIVEN_UP = {"slow": (NEVER,)}

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


def _call(program: Program, world: World) -> Any:
    if inspect.iscoroutinefunction(program):

        @freezeframe.run(name=program.__name__)
        async def agent() -> Any:
            return await program(world)

        return asyncio.run(agent())
    return freezeframe.run(name=program.__name__)(lambda: program(world))()


def record(program: Program, rules: Mapping[str, tuple[str, ...]]) -> tuple[Fixture, Any, str]:
    """Run the program once against a separate provider, which is gone afterwards."""
    with Provider(rules) as provider, capture() as captured:
        outcome = _call(program, World(url=provider.url))
        recorder = _port.recorder()
        assert recorder is not None
        recorder.finish_all()  # like the end of a process
        spans = captured.spans
    return freeze(build_run(spans)), outcome, provider.url


@contextlib.contextmanager
def serving(session: ReplaySession) -> Generator[None]:
    serve(session)
    try:
        yield
    finally:
        stop_serving()
        seams.uninstall()


def replay(program: Program, fixture: Fixture, url: str, *, changed: bool = False) -> tuple[Report, Any]:
    """Run the program again, answered from the fixture."""
    session = ReplaySession(fixture)
    outcome: Any = None
    with serving(session), contextlib.suppress(ReplayMiss, BaseExceptionGroup):
        outcome = _call(program, World(url=url, changed=changed))
    return session.report(), outcome


@pytest.mark.parametrize("times", [3, pytest.param(50, marks=pytest.mark.soak)])
@every_program
def test_the_race_ends_as_it_did_every_time(program: Program, rules: Mapping[str, tuple[str, ...]], times: int) -> None:
    fixture, outcome, url = record(program, rules)
    for _ in range(times):
        report, again = replay(program, fixture, url)
        assert report.divergences == ()
        assert again == outcome
        assert len(report.served) == report.steps > 0


@every_program
def test_another_last_prompt_is_never_identical(program: Program, rules: Mapping[str, tuple[str, ...]]) -> None:
    fixture, _, url = record(program, rules)
    for _ in range(3):
        report, _ = replay(program, fixture, url, changed=True)
        assert verdict(report) is not Verdict.IDENTICAL
        assert report.first is not None
        assert report.first.kind is DivergenceKind.REQUEST_CHANGED


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
    with serving(session), pytest.raises(asyncio.CancelledError):
        asyncio.run(agent(provider.url))
    assert verdict(session.report()) is Verdict.IDENTICAL


# -- time and order -----------------------------------------------------------------------------------------------------


def test_a_lane_reads_the_time_of_its_own_answer_and_not_of_one_that_came_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_BUSY_NS", 10**15)  # on a busy machine the program may seem to spin, and then time passes
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

    with serving(ReplaySession(fixture, on_time=lambda to_ns: now_ns.__setitem__(0, to_ns))):
        _call(reads_the_clock, World(url=url))
    assert read["B"] < ends["A"] <= read["A"] + 1_000_000_000
    assert read["B"] < read["A"]


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
