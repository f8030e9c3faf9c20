"""Scenarios in which replays are known to break, with the real SDKs: each re-enacted exactly, and one change in each named.

Recorded against a provider that never gives the same answer twice, replayed with the provider gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import random
import threading
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx2
import openai
import pytest
import requests
from answered_here import answering
from capture_provider import Provider
from races import async_client, sync_client

import freezeframe
from freezeframe.testing import capture
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.divergence import DivergenceKind, Report
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Lane
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import Verdict, verdict


@dataclass(slots=True)
class World:
    """What a scenario's code meets: the provider's address, a changed mind or not, and the marks that side effects leave."""

    url: str
    changed: bool = False
    touched: list[str] = field(default_factory=list[str])

    def openai(self, retries: int = 0) -> openai.OpenAI:
        return sync_client(self.url, max_retries=retries)

    def aopenai(self) -> openai.AsyncOpenAI:
        return async_client(self.url)

    def ask(self, prompt: str, retries: int = 0) -> str:
        client = self.openai(retries)
        answer = client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": prompt}])
        return answer.choices[0].message.content or ""

    async def aask(self, prompt: str, client: openai.AsyncOpenAI) -> str:
        answer = await client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": prompt}])
        return answer.choices[0].message.content or ""


Scenario = Callable[[World], Any]

TOOLS: Any = [{"type": "function", "function": {"name": "ship", "parameters": {"type": "object", "properties": {}}}}]


def sync_tool_loop(world: World) -> Any:
    @freezeframe.tool
    def ship(order_id: str) -> dict[str, Any]:
        world.touched.append(order_id)
        return {"shipped": order_id, "at": random.random()}

    messages: list[Any] = [{"role": "system", "content": "be brief" if not world.changed else "be verbose"}]
    client = world.openai()
    while True:
        said = client.chat.completions.create(model="gpt-4o", messages=messages, tools=TOOLS).choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        if not said.tool_calls:
            return said.content
        for call in said.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": str(ship(order_id="AC-1"))})


def three_distinct_async_calls(world: World) -> Any:
    async def main() -> list[str]:
        async with world.aopenai() as client:
            last = "c" if not world.changed else "d"
            return await asyncio.gather(*(world.aask(prompt, client) for prompt in ("a", "b", last)))

    return asyncio.run(main())


def three_identical_async_calls(world: World) -> Any:
    async def main() -> list[str]:
        async with world.aopenai() as client:
            count = 3 if not world.changed else 4
            return await asyncio.gather(*(world.aask("same", client) for _ in range(count)))

    return asyncio.run(main())


def three_identical_threads(world: World) -> Any:
    answers: dict[int, str] = {}

    def ask(i: int) -> None:
        answers[i] = world.ask("same" if not (world.changed and i == 0) else "other")

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [answers.get(i) for i in range(3)]


def pool_and_to_thread(world: World) -> Any:
    async def main() -> list[str]:
        return [await asyncio.to_thread(world.ask, "one") for _ in range(2)]

    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(world.ask, "same") for _ in range(4)]
        pooled = [future.result() for future in futures]
    return [pooled, asyncio.run(main()), world.ask("last" if not world.changed else "end")]


def race_of_tools(world: World) -> Any:
    @freezeframe.tool
    async def look(place: str) -> str:
        await asyncio.sleep(random.uniform(0.001, 0.02))
        return f"{place}: {random.random()}"

    async def main() -> list[Any]:
        async with world.aopenai() as client:
            await world.aask("ready?", client)
            tasks = [asyncio.create_task(look(place)) for place in "ABC"]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            first = sorted(task.result() for task in done)
            answer = await world.aask(f"winner {first}" + ("!" if world.changed else ""), client)
        return [first, answer, [await task for task in tasks]]

    return asyncio.run(main())


def sync_stream(world: World) -> Any:
    stream = world.openai().chat.completions.create(
        model="gpt-4o", messages=[{"role": "user", "content": "hi" if not world.changed else "ho"}], stream=True
    )
    return [chunk.choices[0].delta.content for chunk in stream]


def interleaved_async_streams(world: World) -> Any:
    async def main() -> Any:
        seen: list[tuple[str, Any]] = []

        async def read(prompt: str, client: openai.AsyncOpenAI) -> None:
            stream = await client.chat.completions.create(
                model="gpt-4o", messages=[{"role": "user", "content": prompt}], stream=True
            )
            async for chunk in stream:
                seen.append((prompt, chunk.choices[0].delta.content))

        async with world.aopenai() as client:
            await asyncio.gather(*(read(prompt, client) for prompt in ("x", "y", "z" if not world.changed else "w")))
        return {prompt: [text for name, text in seen if name == prompt] for prompt in "xyz"}

    return asyncio.run(main())


def stream_closed_early(world: World) -> Any:
    with world.openai().chat.completions.create(
        model="gpt-4o", messages=[{"role": "user", "content": "long"}], stream=True
    ) as stream:
        taken = [next(iter(stream)).choices[0].delta.content]
        if world.changed:
            taken += [chunk.choices[0].delta.content for chunk in stream]
    return taken


def response_never_read(world: World) -> Any:
    client = world.openai()
    with client.chat.completions.with_streaming_response.create(
        model="gpt-4o", messages=[{"role": "user", "content": "unread"}]
    ) as response:
        status = response.status_code
    return [status, world.ask("next" if not world.changed else "else")]


def rate_limited_with_half_a_body(world: World) -> Any:
    try:
        world.ask("limited" if not world.changed else "unlimited")
    except openai.APIError as error:
        return [type(error).__name__, str(error)]
    return "no error"


def connection_refused_by_class(world: World) -> Any:
    with pytest.raises(openai.APIConnectionError) as caught:
        world.ask("gone" if not world.changed else "back")
    return [type(caught.value).__name__, type(caught.value.__cause__).__name__]


def retry_after_a_500(world: World) -> Any:
    return world.ask("again" if not world.changed else "once", retries=2)


def stream_that_dies_midway(world: World) -> Any:
    got: list[Any] = []
    stream = world.openai().chat.completions.create(
        model="gpt-4o", messages=[{"role": "user", "content": "die" if not world.changed else "live"}], stream=True
    )
    try:
        for chunk in stream:
            got.append(chunk.choices[0].delta.content)
    except Exception as error:
        got.append(type(error).__name__)
    return got


def retriever_and_embeddings(world: World) -> Any:
    @freezeframe.retriever
    def search(query: str) -> list[dict[str, Any]]:
        vector = world.openai().embeddings.create(model="text-embedding-3-small", input=query, encoding_format="float")
        return [{"id": "doc-1", "score": vector.data[0].embedding[1], "content": "returns within 30 days"}]

    direct = world.openai().embeddings.create(model="text-embedding-3-small", input="q", encoding_format="float")
    chunks = search("returns?")
    return [direct.data[0].embedding, chunks, world.ask(f"{chunks}" + ("!" if world.changed else ""))]


def helpers_and_raw_responses(world: World) -> Any:
    client = world.openai()
    raw = client.chat.completions.with_raw_response.create(model="gpt-4o", messages=[{"role": "user", "content": "raw"}])
    with client.chat.completions.stream(model="gpt-4o", messages=[{"role": "user", "content": "helper"}]) as stream:
        final = stream.get_final_completion().choices[0].message.content
    return [raw.headers.get("content-type"), raw.parse().id, final, world.ask("end" if not world.changed else "fin")]


def anthropic_plain_and_streamed(world: World) -> Any:
    client = anthropic.Anthropic(base_url=world.url, api_key="x", max_retries=0)
    messages: Any = [{"role": "user", "content": "sum it up" if not world.changed else "sum it down"}]
    plain = client.messages.create(model="claude-test", max_tokens=9, messages=messages)
    with client.messages.stream(model="claude-test", max_tokens=9, messages=messages) as stream:
        return [plain.id, list(stream.text_stream)]


def tool_that_uses_requests(world: World) -> Any:
    @freezeframe.tool
    def price(sku: str) -> Any:
        world.touched.append(sku)
        return requests.get(f"{world.url}/prices/{sku}", timeout=300).json()

    return [price("A"), price("A"), world.ask("done" if not world.changed else "over")]


def tool_that_raises(world: World) -> Any:
    @freezeframe.tool
    def refund(order: str) -> None:
        world.touched.append(order)
        raise ValueError(f"no such order: {order}", 404)

    with pytest.raises(ValueError) as caught:
        refund("AC-9" if not world.changed else "AC-8")
    return list(caught.value.args)


def generator_tools(world: World) -> Any:
    @freezeframe.tool
    def rows(count: int) -> Any:
        for index in range(count):
            world.touched.append(str(index))
            yield {"row": index, "value": random.random()}

    @freezeframe.tool
    async def arows(count: int) -> AsyncIterator[float]:
        for index in range(count):
            yield index + random.random()

    async def collect() -> list[Any]:
        return [item async for item in arows(2)]

    return [list(rows(3 if not world.changed else 4)), asyncio.run(collect())]


def requests_cut_in_a_429(world: World) -> Any:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "limited" if not world.changed else "unlimited"}]}
    try:
        return requests.post(f"{world.url}/v1/chat/completions", json=body, timeout=300).text
    except requests.RequestException as error:
        return type(error).__name__


def timeout_by_class(world: World) -> Any:
    client = world.openai().with_options(timeout=0.05)
    with pytest.raises(openai.APITimeoutError) as caught:
        client.chat.completions.create(
            model="gpt-4o", messages=[{"role": "user", "content": "slow" if not world.changed else "swift"}]
        )
    return [type(caught.value).__name__, type(caught.value.__cause__).__name__]


def retry_after_a_429(world: World) -> Any:
    return world.ask("again" if not world.changed else "once", retries=2)


def event_stream_that_stays_open(world: World) -> Any:
    async def main() -> list[Any]:
        heard: list[str] = []
        both = asyncio.Event()

        async def listen() -> None:
            async with httpx2.AsyncClient(verify=False) as client, client.stream("GET", f"{world.url}/events") as response:
                async for line in response.aiter_lines():
                    heard.extend([line] if line else [])
                    if len(heard) == 2:
                        both.set()

        listener = asyncio.create_task(listen())
        await both.wait()
        async with world.aopenai() as client:
            answers = [await world.aask(prompt, client) for prompt in ("one", "two" if not world.changed else "three")]
        still_open = not listener.done()
        listener.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listener
        return [heard, answers, still_open]

    return asyncio.run(main())


def responses_api(world: World) -> Any:
    client = world.openai()
    first = client.responses.create(model="gpt-4o", input="hello", store=False)
    second = client.responses.create(model="gpt-4o", input=f"{first.output_text}{'!' if world.changed else ''}", store=False)
    return [first.id, second.output_text]


def clock_and_uuid_in_the_prompt(world: World) -> Any:
    number = uuid.uuid4()
    now = dt.datetime.now(dt.UTC).isoformat()
    said = world.ask(f"It is {now}. Request {number}{'!' if world.changed else ''}.")
    return [said, str(number), world.ask(f"Again, request {number.hex[:8]}.")]


pytestmark = pytest.mark.long


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Faults that the provider commits, and what the scenario's change must be called, at which step."""

    step: int | None
    """The step's number; if threads race for it, that of the first step of `lane` in the recording."""
    lane: Lane | None = None
    kind: DivergenceKind = DivergenceKind.REQUEST_CHANGED
    faults: tuple[str, ...] = ()
    relaxed: bool = False
    """Whether times of the clock in requests may be what keeps a step from being found exactly."""


SCENARIOS: dict[Scenario, Case] = {
    sync_tool_loop: Case(step=1),
    three_distinct_async_calls: Case(step=3),
    three_identical_async_calls: Case(step=None, kind=DivergenceKind.EXTRA_CALL),
    three_identical_threads: Case(step=None, lane=(0,)),
    pool_and_to_thread: Case(step=7),
    race_of_tools: Case(step=5),
    sync_stream: Case(step=1),
    interleaved_async_streams: Case(step=3),
    response_never_read: Case(step=2),
    rate_limited_with_half_a_body: Case(step=1, faults=("429-cut",)),
    requests_cut_in_a_429: Case(step=1, faults=("429-cut",)),
    connection_refused_by_class: Case(step=1, faults=("hang-up",)),
    timeout_by_class: Case(step=1, faults=("late",)),
    retry_after_a_500: Case(step=1, faults=("500",)),
    retry_after_a_429: Case(step=1, faults=("429",)),
    stream_that_dies_midway: Case(step=1, faults=("stream-cut",)),
    event_stream_that_stays_open: Case(step=3),
    retriever_and_embeddings: Case(step=4),
    helpers_and_raw_responses: Case(step=3),
    responses_api: Case(step=2),
    clock_and_uuid_in_the_prompt: Case(step=1, relaxed=True),
    anthropic_plain_and_streamed: Case(step=1),
    tool_that_uses_requests: Case(step=5),
    tool_that_raises: Case(step=1),
    generator_tools: Case(step=1),
}

every_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)


def record(scenario: Scenario, faults: Iterable[str] = ()) -> tuple[Fixture, Any, World]:
    """Run the scenario once against a separate provider, which is gone afterwards."""
    with Provider() as provider, capture(record_hosts=("127.0.0.1",)) as captured:
        provider.faults.extend(faults)
        world = World(url=provider.url)
        outcome = freezeframe.run(name=scenario.__name__)(lambda: scenario(world))()
        spans = captured.spans
    return freeze(build_run(spans)), outcome, world


def replay(scenario: Scenario, fixture: Fixture, url: str, *, changed: bool = False) -> tuple[Report, Any, World]:
    """Run the scenario again, answered from the fixture."""
    session = ReplaySession(fixture)
    world = World(url=url, changed=changed)
    outcome: Any = None
    with answering(session), contextlib.suppress(ReplayMiss):
        outcome = freezeframe.run(name=scenario.__name__)(lambda: scenario(world))()
    return session.report(), outcome, world


@pytest.mark.parametrize("times", [2, pytest.param(50, marks=pytest.mark.soak)])
@every_scenario
def test_the_scenario_is_re_enacted_exactly_every_time(scenario: Scenario, times: int) -> None:
    case = SCENARIOS[scenario]
    fixture, outcome, world = record(scenario, case.faults)
    for _ in range(times):
        if scenario is clock_and_uuid_in_the_prompt:  # nothing moves this process's clock: what it reads must stay near
            fixture, outcome, world = record(scenario, case.faults)
        report, again, replayed = replay(scenario, fixture, world.url)
        assert report.divergences == ()
        assert again == outcome
        assert replayed.touched == []
        assert len(report.served) == report.steps > 0
        assert {item.how for item in report.served} <= ({"exact", "relaxed"} if case.relaxed else {"exact"})


@pytest.mark.proof("verdict diverged", "code REPLAY-101", "code REPLAY-102", "code REPLAY-104")
@every_scenario
def test_one_change_in_the_code_is_named_by_its_kind_at_its_step(scenario: Scenario) -> None:
    case = SCENARIOS[scenario]
    fixture, _, world = record(scenario, case.faults)
    report, _, replayed = replay(scenario, fixture, world.url, changed=True)
    first = report.first
    assert first is not None
    by_lane = {step.exchange.lane: step.number for step in reversed(fixture.steps)}
    assert (first.kind, first.step) == (case.kind, case.step if case.lane is None else by_lane[case.lane])
    assert verdict(report) is not Verdict.IDENTICAL
    assert replayed.touched == []


def test_a_stream_read_further_than_recorded_is_a_miss() -> None:
    fixture, outcome, world = record(stream_closed_early)
    report, again, _ = replay(stream_closed_early, fixture, world.url)
    assert verdict(report) is Verdict.IDENTICAL
    assert again == outcome
    with pytest.raises(ReplayMiss, match="closed the stream"):
        _read_on(fixture, world)


def _read_on(fixture: Fixture, world: World) -> None:
    with answering(ReplaySession(fixture)):
        stream_closed_early(World(url=world.url, changed=True))


@pytest.mark.proof("code REPLAY-103")
def test_a_call_less_is_named() -> None:
    def two_calls(world: World) -> Any:
        return [world.ask("one"), None if world.changed else world.ask("two")]

    fixture, _, world = record(two_calls)
    report, _, _ = replay(two_calls, fixture, world.url, changed=True)
    assert DivergenceKind.MISSING_CALL in {item.kind for item in report.divergences}


@pytest.mark.proof
def test_a_swallowed_miss_still_fails_the_replay() -> None:
    def careless(world: World) -> Any:
        try:
            return world.ask("asked" if not world.changed else "changed")
        except Exception:
            return "never mind"

    fixture, _, world = record(careless)
    report, outcome, _ = replay(careless, fixture, world.url, changed=True)
    assert outcome is None
    assert [item.kind for item in report.divergences] == [DivergenceKind.REQUEST_CHANGED]


@pytest.mark.proof
@pytest.mark.parametrize("count", [50])
def test_fifty_identical_concurrent_calls_each_get_their_own_answer(count: int) -> None:
    def many(world: World) -> Any:
        async def main() -> list[str]:
            async with world.aopenai() as client:
                return await asyncio.gather(*(world.aask("same", client) for _ in range(count)))

        return asyncio.run(main())

    fixture, outcome, world = record(many)
    assert len(set(outcome)) == count
    for _ in range(2):
        report, again, _ = replay(many, fixture, world.url)
        assert verdict(report) is Verdict.IDENTICAL
        assert again == outcome


def test_as_completed_in_a_pool_gives_each_future_its_own_answer() -> None:
    def completed(world: World) -> Any:
        with ThreadPoolExecutor(4) as pool:
            futures = {pool.submit(world.ask, "same"): index for index in range(6)}
            return sorted((futures[future], future.result()) for future in as_completed(futures))

    fixture, outcome, world = record(completed)
    for _ in range(10):
        report, again, _ = replay(completed, fixture, world.url)
        assert verdict(report) is Verdict.IDENTICAL
        assert again == outcome


@pytest.mark.proof
def test_a_client_without_a_seam_is_stopped_and_named(tmp_path: Any) -> None:
    """In a separate process: the fence stays up until the process ends."""
    import subprocess
    import sys

    program = tmp_path / "program.py"
    program.write_text(
        "from freezeframe_replay.process.isolate import fence_sockets\n"
        "import socket, urllib.request\n"
        "tried = []\n"
        "def on_try(address):\n"
        "    tried.append(address)\n"
        "    return ConnectionRefusedError(address)\n"
        "fence_sockets(on_try)\n"
        "for reach in (\n"
        "    lambda: urllib.request.urlopen('http://127.0.0.1:9/x', timeout=2),\n"
        "    lambda: socket.socket().connect(('127.0.0.1', 8)),\n"
        "    lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 7)),\n"
        "):\n"
        "    try:\n"
        "        reach()\n"
        "    except OSError:\n"
        "        continue\n"
        "print(*tried)\n"
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == ["127.0.0.1:9", "127.0.0.1:8", "127.0.0.1:7"], done.stderr
    assert urllib.request is not None
