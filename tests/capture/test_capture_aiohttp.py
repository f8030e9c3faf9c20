"""aiohttp: model calls plain, streamed, abandoned and failing; recorded and served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from capture_provider import Provider
from capture_replay import replaying

import freezeframe
from freezeframe.seams import Call
from freezeframe.testing import capture
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Completion

pytestmark = pytest.mark.long

ASK: Any = {"model": "gpt-4o", "messages": [{"role": "user", "content": "ünï"}]}


async def plain(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/chat/completions", json=ASK) as response:
        return [response.status, response.reason, response.content_type, await response.json()]


async def stream_lines(url: str) -> Any:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/chat/completions", json={**ASK, "stream": True}) as response,
    ):
        return [line async for line in response.content]


async def stream_pieces(url: str) -> Any:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/chat/completions", json={**ASK, "stream": True}) as response,
    ):
        return [piece async for piece in response.content.iter_any()]


async def abandoned(url: str) -> Any:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/chat/completions", json={**ASK, "stream": True}) as response,
    ):
        return await response.content.readline()


async def fault(url: str) -> Any:
    try:
        async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/chat/completions", json=ASK) as response:
            return [response.status, await response.read()]
    except aiohttp.ClientError as error:
        return type(error).__name__


async def concurrent(url: str) -> Any:
    async with aiohttp.ClientSession() as session:

        async def ask() -> Any:
            async with session.post(f"{url}/v1/chat/completions", json=ASK) as response:
                return await response.json()

        return await asyncio.gather(*(ask() for _ in range(4)))


CASES: list[tuple[str, Callable[[str], Awaitable[Any]], Completion]] = [
    ("", plain, Completion.COMPLETE),
    ("", stream_lines, Completion.COMPLETE),
    ("", stream_pieces, Completion.COMPLETE),
    ("", abandoned, Completion.CLOSED_EARLY),
    ("500", fault, Completion.COMPLETE),
    ("429-cut", fault, Completion.BROKEN),
    ("stream-cut", fault, Completion.BROKEN),
    ("hang-up", fault, Completion.NONE),
    ("binary", fault, Completion.COMPLETE),
    ("", concurrent, Completion.COMPLETE),
]


@pytest.mark.proof("seam http.aiohttp")
@pytest.mark.parametrize(("problem", "client", "completion"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))
async def test_a_model_call_by_aiohttp_is_recorded_and_served(
    problem: str, client: Callable[[str], Awaitable[Any]], completion: Completion, provider: Provider
) -> None:
    bare_provider_result = await client(provider.url) if problem == "" and client is not concurrent else None
    provider.faults = [problem]
    with capture() as captured:
        first = await freezeframe.run(client)(provider.url)
        exchanges = captured.exchanges
    provider.stop()
    with replaying(exchanges) as recorded:
        second = await freezeframe.run(client)(provider.url)
    assert first == second
    assert type(first) is type(second)
    assert {exchange.response.completion for exchange in exchanges} == {completion}
    assert recorded.left == []
    assert bare_provider_result is None or type(bare_provider_result) is type(first)


async def test_an_edited_request_is_looked_up_and_sent_as_edited(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:

    def live(call: Call) -> None:
        del call

    with capture() as captured:
        await freezeframe.run(plain)(provider.url)
    with replaying(captured.exchanges, edit=lambda request: request.body.replace(b"gpt-4o", b"gpt-5-longer")) as recorded:
        with pytest.raises(ReplayMiss, match="no recording"):
            await freezeframe.run(plain)(provider.url)
        assert b"gpt-5" in recorded.calls[0].request.body
        monkeypatch.setattr(recorded, "respond", live)
        provider.bodies.clear()
        await freezeframe.run(plain)(provider.url)
    assert provider.bodies == [{**ASK, "model": "gpt-5-longer"}]


async def test_a_request_that_this_aiohttp_cannot_edit_is_never_sent_unedited(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(aiohttp.ClientRequest, "update_body")
    with (
        replaying([], edit=lambda request: request.body.replace(b"gpt-4o", b"gpt-5")),
        pytest.raises(ReplayMiss, match="upgrade aiohttp"),
    ):
        await freezeframe.run(plain)(provider.url)
    assert provider.requests == []
