"""Everything that makes a replay wobble, in one run: the same outcome a hundred times in a row."""

from __future__ import annotations

import asyncio
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import openai
import pytest
from answered_here import answering
from capture_provider import Provider

import freezeframe
from freezeframe.testing import capture
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.run import build_run

pytestmark = pytest.mark.long  # imports the SDK

MESSAGES: Any = [{"role": "user", "content": "same"}]


@freezeframe.tool
async def look(place: str) -> str:
    await asyncio.sleep(random.Random().uniform(0.001, 0.03))
    return f"{place}: {random.Random().random()}"


@freezeframe.tool
def weigh(item: int) -> float:
    time.sleep(random.Random().uniform(0.001, 0.01))
    return random.Random().random()


def storm(url: str) -> Any:
    """Fifty equal questions at once, retries among them; tools that end in any order; a pool; a stream left in the middle."""

    async def main() -> Any:
        client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", http_client=httpx2.AsyncClient(verify=False))
        async with client:

            async def ask() -> str:
                said = await client.chat.completions.create(model="gpt-4o", messages=MESSAGES)
                return said.choices[0].message.content or ""

            answers = await asyncio.gather(*(ask() for _ in range(50)))
            tasks = [asyncio.create_task(look(place)) for place in "ABCDEFGH"]
            order = [await finished for finished in asyncio.as_completed(tasks)]
            stream = await client.chat.completions.create(model="gpt-4o", messages=MESSAGES, stream=True)
            first = await anext(aiter(stream))
            await stream.close()
            weights = await asyncio.gather(*(asyncio.to_thread(weigh, 1) for _ in range(8)))
        return [answers, order, first.choices[0].delta.content, weights]

    with ThreadPoolExecutor(4) as pool:
        pooled = [future.result() for future in [pool.submit(weigh, 1) for _ in range(12)]]
    return [asyncio.run(main()), pooled]


def check(times: int) -> None:
    with Provider() as provider, capture() as captured:
        provider.faults.extend(["500", "", "429", "500"])
        outcome = freezeframe.run(name="storm")(storm)(provider.url)
        fixture = freeze(build_run(captured.spans))
    assert len(set(outcome[0][0])) == 50
    for turn in range(times):
        session = ReplaySession(fixture)
        with answering(session):
            again = freezeframe.run(name="storm")(storm)(provider.url)
        report = session.report()
        assert report.divergences == (), turn
        assert again == outcome, turn
        assert {item.how for item in report.served} == {"exact"}


def test_a_storm_of_calls_replays_exactly() -> None:
    check(3)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_storm_of_calls_replays_exactly_a_hundred_times_in_a_row() -> None:
    check(100)
