"""One exchange for each call, in its place in the tree, whatever else has a hand in it: stacked HTTP clients, instrumentors."""

from __future__ import annotations

from typing import Any

import aiohttp
import httpx2
import openai
from capture_provider import Provider
from capture_replay import replaying

import freezeframe
from freezeframe.testing import capture


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """httpx over aiohttp, as LiteLLM has it."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        async with (
            aiohttp.ClientSession() as session,
            session.request(request.method, str(request.url), data=request.content, headers=dict(request.headers)) as answer,
        ):
            return httpx2.Response(answer.status, headers=dict(answer.headers), content=await answer.read())


async def test_a_client_on_top_of_another_is_recorded_once_and_served_once(provider: Provider) -> None:
    @freezeframe.run
    async def ask() -> Any:
        http = httpx2.AsyncClient(transport=AiohttpTransport())
        async with openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="x", max_retries=0, http_client=http) as client:
            return (await client.chat.completions.create(model="gpt-4o", messages=[])).model_dump()

    with capture() as captured:
        first = await ask()
        exchanges = captured.exchanges
    provider.stop()
    assert [exchange.seam for exchange in exchanges] == ["httpx2"]
    with replaying(exchanges) as recorded:
        assert await ask() == first
    assert recorded.left == []
