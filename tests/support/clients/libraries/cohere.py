"""The cohere SDK: chat, version 2 of its API."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from clients.client import Client, Column, Trials, World, converse, function_tool, load, outcome_of, trial
from clients.provider import OVERLOADED, cut, recorded

HOST: Final = "api.cohere.com"
SIMPLE, STREAM, NO_MODEL = recorded("c71a5f4d5e806773", "67fd46af210e1e99", "4dbe76563c00123c")
TOOL: Final = recorded("d255e7f7ee1679b5", "2897efba6d9125ea")
"""Asks for ``get_time`` and ``get_weather`` at once."""

ASK: Final[dict[str, Any]] = {
    "model": "command-r",
    "messages": [{"role": "user", "content": "What is the weather and current time in Tokyo? ünï"}],
}
TOOLS: Final = [function_tool(name, name) for name in ("get_weather", "get_time")]


def _client(world: World) -> Any:
    return load("cohere").ClientV2(base_url=world.url(HOST), api_key="none")


ONCE: Final = {"request_options": {"max_retries": 0}}


def chat(world: World) -> Any:
    return _client(world).chat(**ASK, **ONCE).model_dump()


async def chat_async(world: World) -> Any:
    async with load("cohere").AsyncClientV2(base_url=world.url(HOST), api_key="none") as client:
        return (await client.chat(**ASK, **ONCE)).model_dump()


def stream(world: World) -> Any:
    return [event.model_dump() for event in _client(world).chat_stream(**ASK, **ONCE)]


async def stream_async(world: World) -> Any:
    async with load("cohere").AsyncClientV2(base_url=world.url(HOST), api_key="none") as client:
        return [event.model_dump() async for event in client.chat_stream(**ASK, **ONCE)]


def use_tools(world: World) -> Any:
    ask = partial(_client(world).chat, **ASK, tools=TOOLS, **ONCE)
    return converse(world, list(ASK["messages"]), lambda messages: ask(messages=messages).message)


def chat_or_fail(world: World) -> Any:
    """Return how it failed; the text of the SDK's errors holds the response headers, among them the date."""
    try:
        return chat(world)
    except Exception as error:
        return [type(error).__name__, getattr(error, "status_code", None), repr(getattr(error, "body", error))]


def stream_or_fail(world: World) -> Any:
    return outcome_of(lambda: stream(world))


def retry(world: World) -> Any:
    return _client(world).chat(**ASK, request_options={"max_retries": 2}).model_dump()


def abandon(world: World) -> Any:
    events = _client(world).chat_stream(**ASK, **ONCE)
    first = next(events).model_dump()
    events.close()
    return first


TRIALS: Final[Trials] = {
    Column.SYNC: (trial(chat, SIMPLE),),
    Column.ASYNC: (trial(chat_async, SIMPLE),),
    Column.STREAM: (trial(stream, STREAM), trial(stream_async, STREAM)),
    Column.TOOLS: (trial(use_tools, *TOOL),),
    Column.ERRORS: (
        trial(chat_or_fail, NO_MODEL),
        trial(chat_or_fail, cut(SIMPLE)),
        trial(stream_or_fail, cut(STREAM)),
    ),
    Column.RETRY: (trial(retry, OVERLOADED, SIMPLE),),
    Column.ABANDONED: (trial(abandon, STREAM),),
}
CLIENT: Final = Client("cohere", "cohere", "sdks", ("cohere",), trials=TRIALS)
