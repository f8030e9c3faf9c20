"""Scenarios that need time, another process or their own server: each re-enacted, and one change in each named."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from answered_here import record, replay
from capture_provider import Provider
from mcp import StdioServerParameters
from mcp.client.session import ClientSession
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

import freezeframe
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_replay.experiments.fork import Edit, Target, fork
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]


REAL_TIME = ReplayPolicy(real_time=True)


# -- time ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_a_stream_keeps_its_times_when_asked_to(asynchronous: bool) -> None:
    """Sleeping never ends early, so that the gaps' lower bound holds on any machine."""
    with Provider() as provider:
        provider.faults.append("slow-stream")
        url = provider.url
        gaps: list[float] = []
        body: Any = {"model": "gpt-4o", "messages": [{"role": "user", "content": "slowly"}], "stream": True}

        def note(last: list[float]) -> None:
            gaps.append(time.perf_counter() - last[0])
            last[0] = time.perf_counter()

        def sync_agent() -> None:
            last = [time.perf_counter()]
            client = openai.OpenAI(base_url=f"{url}/v1", api_key="x", http_client=httpx2.Client(verify=False))
            for _ in client.chat.completions.create(**body):
                note(last)

        async def main() -> None:
            last = [time.perf_counter()]
            client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", http_client=httpx2.AsyncClient(verify=False))
            async for _ in await client.chat.completions.create(**body):
                note(last)

        agent = (lambda: asyncio.run(main())) if asynchronous else sync_agent
        fixture, _ = record(agent)
    offsets = [chunk.offset_ns / 1e9 for chunk in fixture.steps[0].exchange.response.chunks]
    recorded = [after - before for before, after in itertools.pairwise(offsets)]
    gaps.clear()
    report, _ = replay(agent, ReplaySession(fixture, policy=REAL_TIME), real_time=True)
    assert verdict(report) is Verdict.IDENTICAL
    assert len(gaps) == len(recorded) + 1 or len(gaps) == len(recorded)
    assert sum(gaps) >= 0.8 * sum(recorded)
    (step,) = fixture.steps
    response = step.exchange.response
    of_days = tuple(replace(chunk, offset_ns=chunk.offset_ns * 10**7) for chunk in response.chunks)
    exchange = replace(step.exchange, response=replace(response, chunks=of_days))
    report, _ = replay(agent, ReplaySession(replace(fixture, steps=(replace(step, exchange=exchange),))))
    assert verdict(report) is Verdict.IDENTICAL  # and the test got here: it did not wait for days


def test_a_race_of_tools_is_won_by_the_same_one_in_real_time() -> None:
    import random

    @freezeframe.tool
    async def look(place: str) -> str:
        await asyncio.sleep(waits[place])
        return f"{place}: {random.random()}"

    # apart by more than a busy machine is late
    waits = dict(zip("ABC", random.sample([0.01, 0.3, 0.6], 3), strict=True))

    async def main() -> Any:
        tasks = [asyncio.create_task(look(place)) for place in "ABC"]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return [sorted(task.result() for task in done), [await task for task in tasks]]

    fixture, outcome = record(lambda: asyncio.run(main()))
    for _ in range(3):
        report, again = replay(lambda: asyncio.run(main()), ReplaySession(fixture, policy=REAL_TIME), real_time=True)
        assert verdict(report) is Verdict.IDENTICAL
        assert again[1] == outcome[1]


FROZEN_TIME = """
import asyncio, datetime, time
import pydantic
import freezeframe
freezeframe.instrument()

class Note(pydantic.BaseModel):
    text: str
    at: datetime.datetime = pydantic.Field(default_factory=datetime.datetime.now)
    day: datetime.date = pydantic.Field(default_factory=datetime.date.today)

@freezeframe.tool
async def look(place):
    await asyncio.sleep(0.01)
    return place.upper()

@freezeframe.run
async def answer(place):
    async with asyncio.timeout(90):
        seen = await asyncio.wait_for(look(place), timeout=300)
    await asyncio.sleep(0.02)
    note = Note(text=seen)
    again = Note.model_validate_json(note.model_dump_json())
    assert again == note and isinstance(again.at, datetime.datetime)
    return [note.text, note.day.isoformat(), note.at.strftime("%Y-%m-%d"), time.strftime("%Z")]

if __name__ == "__main__":
    asyncio.run(answer("lyon"))
"""


def test_asyncio_timeouts_and_pydantic_work_under_the_recorded_time(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(FROZEN_TIME)
    environ = {**os.environ, "FREEZEFRAME_FILE": "spans.jsonl", "TZ": "Asia/Tokyo"}
    subprocess.run([sys.executable, "agent.py"], cwd=tmp_path, env=environ, timeout=300, check=True)
    fixture = freeze(load_run_of_file(tmp_path / "spans.jsonl"))
    moved = fork(fixture, [Edit(target=Target.CLOCK, value="2031-05-06T12:00:00Z")])
    assert verdict(reenact(fixture, cwd=tmp_path)) is Verdict.IDENTICAL
    outcome = reenact(moved, cwd=tmp_path).outcome
    assert outcome == '["LYON", "2031-05-06", "2031-05-06", "JST"]'
    (tmp_path / "agent.py").write_text(FROZEN_TIME.replace("wait_for(look(place)", "wait_for(look(place + '!')"))
    first = reenact(fixture, cwd=tmp_path).first
    assert first is not None
    assert (first.kind, first.step) == (DivergenceKind.REQUEST_CHANGED, 1)


# -- a tool's result ----------------------------------------------------------------------------------------------------


def test_a_changed_tool_result_is_named_at_the_call_that_is_told_of_it_and_not_inside_of_the_tool() -> None:
    with Provider() as provider:
        url = provider.url

        def ask(text: str) -> str:
            client = openai.OpenAI(base_url=f"{url}/v1", api_key="x", http_client=httpx2.Client(verify=False))
            answer = client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": text}])
            return answer.choices[0].message.content or ""

        @freezeframe.tool
        def look(place: str) -> str:
            return f"{ask(f'What of {place}?')} in {place}"

        def agent() -> str:
            return ask(f"Say: {look('Lyon')}")

        fixture, _ = record(agent)
    assert [step.inside for step in fixture.steps] == [None, 1, None]
    report, _ = replay(agent, ReplaySession(fork(fixture, [Edit(target=Target.RESULT, step=1, value="nothing in Lyon")])))
    assert [(item.kind, item.step) for item in report.divergences] == [(DivergenceKind.REQUEST_CHANGED, 3)]


# -- MCP ----------------------------------------------------------------------------------------------------------------

SERVER = """
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("shop")
calls = []

@server.tool()
def get_order(order_id: str) -> str:
    \"\"\"Look an order up.\"\"\"
    calls.append(order_id)
    return f"{order_id}: {len(calls)}"

if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    import socket, uvicorn
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(config).run(sockets=[listener])
"""


async def orders(session: ClientSession, order: str) -> Any:
    await session.initialize()
    tools = await session.list_tools()
    found = [await session.call_tool("get_order", {"order_id": name}) for name in ("AC-1", order)]
    return [[tool.name for tool in tools.tools], [item.model_dump() for item in found]]


def check_mcp(agent: Callable[[str], Any], stop_server: Callable[[], None]) -> None:
    fixture, outcome = record(lambda: asyncio.run(agent("AC-1")))
    stop_server()
    assert {step.exchange.kind for step in fixture.askable} == {Kind.MCP}
    calls = [step.number for step in fixture.askable if step.exchange.name == "tools/call"]
    for _ in range(3):
        report, again = replay(lambda: asyncio.run(agent("AC-1")), ReplaySession(fixture))
        assert verdict(report) is Verdict.IDENTICAL, report
        assert again == outcome
    report, _ = replay(lambda: asyncio.run(agent("AC-2")), ReplaySession(fixture))
    first = report.first
    assert first is not None
    assert (first.kind, first.step) == (DivergenceKind.REQUEST_CHANGED, calls[1])


@pytest.mark.proof
def test_an_mcp_server_over_stdio_is_absent_in_the_replay(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    parameters = StdioServerParameters(command=sys.executable, args=[str(script), "stdio"])

    async def agent(order: str) -> Any:
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
            return await orders(session, order)

    check_mcp(agent, script.unlink)


@contextlib.contextmanager
def http_server(script: Path) -> Generator[tuple[str, Callable[[], None]]]:
    server = subprocess.Popen([sys.executable, str(script), "http"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None

    def stop() -> None:
        server.kill()
        server.wait()

    with server:
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}/mcp", stop
        finally:
            stop()


def test_an_mcp_server_over_http_is_absent_in_the_replay(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    with http_server(script) as (url, stop):

        async def agent(order: str) -> Any:
            async with streamable_http_client(url) as streams, ClientSession(streams[0], streams[1]) as session:
                return await orders(session, order)

        check_mcp(agent, stop)


# -- another version of the SDK -----------------------------------------------------------------------------------------

TWO_VERSIONS = """
import os, sys
import openai
import freezeframe
freezeframe.instrument()

@freezeframe.tool
def version():
    return openai.__version__

@freezeframe.run
def answer(question):
    client = openai.OpenAI(api_key="x")
    messages = [{"role": "user", "content": question}]
    said = client.chat.completions.create(model="gpt-4o", messages=messages, temperature=0.5).choices[0].message.content
    messages.append({"role": "user", "content": said})
    stream = client.chat.completions.create(model="gpt-4o", messages=messages, stream=True)
    return [version(), said, "".join(chunk.choices[0].delta.content or "" for chunk in stream)]

if __name__ == "__main__":
    print(answer(sys.argv[1]), openai.__version__)
"""


def python_with_openai_2() -> Path | None:
    """Return the interpreter of an environment of the client table that has openai 2."""
    environments = Path(__file__).parents[2] / ".venv-clients"
    found = next(environments.glob("*/lib/python*/site-packages/openai-2.*.dist-info"), None)
    return None if found is None else found.parents[3] / "bin" / "python"


def test_one_fixture_replays_under_openai_2_and_3(tmp_path: Path) -> None:
    other = python_with_openai_2()
    if other is None:
        pytest.skip("needs an environment of `make test-clients` with openai 2")
    (tmp_path / "agent.py").write_text(TWO_VERSIONS)
    with Provider() as provider:
        environ = {**os.environ, "FREEZEFRAME_FILE": "spans.jsonl", "OPENAI_BASE_URL": f"{provider.url}/v1"}
        subprocess.run([sys.executable, "agent.py", "hello"], cwd=tmp_path, env=environ, timeout=300, check=True)
    fixture = freeze(load_run_of_file(tmp_path / "spans.jsonl"))
    assert verdict(reenact(fixture, cwd=tmp_path)) is Verdict.IDENTICAL
    report = reenact(fixture, [str(other), "agent.py", "hello"], cwd=tmp_path)
    assert verdict(report) is Verdict.IDENTICAL, report
    (tmp_path / "agent.py").write_text(TWO_VERSIONS.replace("temperature=0.5", "temperature=0.7"))
    first = reenact(fixture, [str(other), "agent.py", "hello"], cwd=tmp_path).first
    assert first is not None
    assert (first.kind, first.step, first.path) == (DivergenceKind.REQUEST_CHANGED, 1, "$.body.temperature")
