"""Model calls to a private gateway, without a version in the path: recorded and served, and nothing else with them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import aiohttp
import httpx
import openai
import pytest
import requests
from capture_provider import Provider
from capture_replay import replaying

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.run import build_run

pytestmark = pytest.mark.long


def by_openai(url: str) -> Any:
    with openai.OpenAI(base_url=url, api_key="x", max_retries=0) as client:
        return [
            client.embeddings.create(model="m", input=["a"]).data[0].embedding,
            client.responses.create(model="m", input="a").id,
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}]).id,
            client.audio.transcriptions.create(model="m", file=("a.wav", io.BytesIO(b"sound"))).model_dump(),
        ]


async def by_async_openai(url: str) -> Any:
    async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
        return [
            (await client.embeddings.create(model="m", input=["a"])).data[0].embedding,
            (await client.responses.create(model="m", input="a")).id,
            (await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}])).id,
            (await client.audio.transcriptions.create(model="m", file=("a.wav", io.BytesIO(b"sound")))).model_dump(),
        ]


def by_requests(url: str) -> Any:
    ask: list[tuple[str, Any]] = [
        ("embeddings", {"json": {"model": "m", "input": "a"}}),
        ("responses", {"json": {"model": "m", "input": "a"}}),
        ("chat/completions", {"json": {"model": "m", "messages": [{"role": "user", "content": "a"}]}}),
        ("audio/transcriptions", {"data": {"model": "m"}, "files": {"file": ("a.wav", b"sound")}}),
    ]
    return [requests.post(f"{url}/{path}", timeout=300, **body).json() for path, body in ask]


async def by_aiohttp(url: str) -> Any:
    form = aiohttp.FormData({"model": "m"})
    form.add_field("file", b"sound", filename="a.wav")
    ask: list[tuple[str, Any]] = [
        ("embeddings", {"json": {"model": "m", "input": "a"}}),
        ("responses", {"json": {"model": "m", "input": "a"}}),
        ("chat/completions", {"json": {"model": "m", "messages": [{"role": "user", "content": "a"}]}}),
        ("audio/transcriptions", {"data": form}),
    ]
    async with aiohttp.ClientSession() as session:
        return [await (await session.post(f"{url}/{path}", **body)).json() for path, body in ask]


async def finished(result: Any) -> Any:
    return await result if hasattr(result, "__await__") else result


@pytest.mark.parametrize("client", [by_openai, by_async_openai, by_requests, by_aiohttp], ids=lambda client: client.__name__)
async def test_a_model_call_at_a_gateway_without_a_version_is_recorded_and_served(
    client: Callable[[str], Any], provider: Provider
) -> None:
    with capture() as captured:
        live = await finished(freezeframe.run(name="client")(client)(f"{provider.url}/gateway"))
        exchanges = captured.exchanges
        run = build_run(captured.spans)
    provider.stop()
    assert {gap.kind for gap in run.gaps} <= {GapKind.ENTRY_UNREACHABLE}  # which a function in a test is
    assert [(exchange.kind, exchange.dialect) for exchange in exchanges] == [
        (Kind.MODEL, dialect) for dialect in ("openai.embeddings", "openai.responses", "openai.chat", "generic")
    ]
    assert b"sound" in exchanges[3].request.body
    with replaying(exchanges) as recorded:
        assert await finished(freezeframe.run(name="client")(client)(f"{provider.url}/gateway")) == live
    assert recorded.left == []


def test_a_request_of_another_service_on_such_a_path_is_no_model_call_and_is_named(provider: Provider) -> None:
    def agent(url: str) -> None:
        httpx.post(f"{url}/embeddings", json={"id": "doc-1", "model": "m", "input": "a", "embedding": [0.1]})
        httpx.post(f"{url}/responses", json={"survey": 7, "responses": [{"answer": "yes"}]})

    with capture() as captured:
        freezeframe.run(agent)(provider.url)
        run = build_run(captured.spans)
    assert run.exchanges == ()
    (gap,) = (gap for gap in run.gaps if gap.kind is GapKind.HTTP_UNRECORDED)
    assert str(gap).startswith("2 HTTP calls to 127.0.0.1 were not recorded")
