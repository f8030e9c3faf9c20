"""uvloop in place of asyncio's own event loop: tasks and executors keep run, parent and lane; recorded and served."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from capture_provider import Provider
from capture_replay import replaying

import freezeframe
from freezeframe.testing import capture

uvloop: Any = pytest.importorskip("uvloop")
openai: Any = pytest.importorskip("openai")


@freezeframe.tool
async def roll(name: str) -> float:
    """A tool that never gives the same answer twice, and never at the same speed."""
    await asyncio.sleep(random.random() / 200)
    return random.random()


@freezeframe.tool
def roll_in_thread(name: str) -> float:
    return random.random()


def test_a_run_on_uvloop_is_recorded_and_served() -> None:
    @freezeframe.run
    async def agent(url: str) -> Any:
        loop = asyncio.get_running_loop()
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
            asked = [client.chat.completions.create(model="gpt-4o", messages=[]) for _ in range(3)]
            answers = await asyncio.gather(*asked)
            rolled = await asyncio.gather(*(roll("same") for _ in range(5)))
            threaded = await asyncio.gather(*(loop.run_in_executor(None, roll_in_thread, "same") for _ in range(3)))
            stream = await client.chat.completions.create(model="gpt-4o", messages=[], stream=True)
            chunks = [chunk.model_dump() async for chunk in stream]
        return [type(loop).__module__, [answer.model_dump() for answer in answers], rolled, threaded, chunks]

    with Provider() as provider:
        with capture() as captured:
            first = uvloop.run(agent(provider.url))
            exchanges, spans = captured.exchanges, captured.spans
        provider.stop()
        with replaying(exchanges) as recorded:
            again = uvloop.run(agent(provider.url))
    assert first[0] == "uvloop"
    assert again == first
    assert recorded.left == []
    (root,) = [span for span in spans if not span.parent_span_id]
    assert {span.parent_span_id for span in spans if span is not root} == {root.span_id}
