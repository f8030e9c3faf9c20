"""The openai SDK: chat completions, on its sync and its async client; and the bytes that frameworks on top of it are given."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from clients.client import Client, World, converse, function_tool, load, trial, usual_trials
from clients.provider import recorded

HOST: Final = "api.openai.com"
(SIMPLE,) = recorded("2e11503d9bd7f0db")
(STREAM,) = recorded("df75bb69a2c84064")
TOOL: Final = recorded("2106647716796bd8", "345bb8e0c34173e1")
"""Asks for ``weather(location="Florence, Italy")``, then says what it is."""
TOOL_STREAM: Final = recorded("67bcf0cb25202ede", "8e7d4c1de5432de1")
(WRONG_KEY,) = recorded("a8260c60b8e073d8")

QUESTION: Final[list[dict[str, Any]]] = [{"role": "user", "content": "What's the weather in Florence, Italy? ünï"}]
WEATHER: Final = function_tool("weather", "Get weather information for a location")


def _client(world: World, retries: int = 0) -> Any:
    return load("openai").OpenAI(base_url=f"{world.url(HOST)}/v1", api_key="sk-none", max_retries=retries)


def complete(world: World) -> Any:
    return _client(world).chat.completions.create(model="gpt-4o", messages=QUESTION, seed=7).model_dump()


async def complete_async(world: World) -> Any:
    async with load("openai").AsyncOpenAI(base_url=f"{world.url(HOST)}/v1", api_key="sk-none", max_retries=0) as client:
        return (await client.chat.completions.create(model="gpt-4o", messages=QUESTION)).model_dump()


def stream(world: World) -> Any:
    return [
        chunk.model_dump() for chunk in _client(world).chat.completions.create(model="gpt-4o", messages=QUESTION, stream=True)
    ]


async def stream_async(world: World) -> Any:
    async with load("openai").AsyncOpenAI(base_url=f"{world.url(HOST)}/v1", api_key="sk-none", max_retries=0) as client:
        chunks = await client.chat.completions.create(model="gpt-4o", messages=QUESTION, stream=True)
        return [chunk.model_dump() async for chunk in chunks]


def use_tools(world: World) -> Any:
    ask = partial(_client(world).chat.completions.create, model="gpt-4o", tools=[WEATHER])
    return converse(world, list(QUESTION), lambda messages: ask(messages=messages).choices[0].message)


def retry(world: World) -> Any:
    return _client(world, retries=2).chat.completions.create(model="gpt-4o", messages=QUESTION).model_dump()


def abandon(world: World) -> Any:
    chunks = _client(world).chat.completions.create(model="gpt-4o", messages=QUESTION, stream=True)
    first = next(iter(chunks)).model_dump()
    chunks.close()
    return first


TRIALS: Final = usual_trials(
    (complete, complete_async), (stream, stream_async), (retry, abandon), (SIMPLE, STREAM, WRONG_KEY), trial(use_tools, *TOOL)
)
CLIENT: Final = Client("openai", "openai", trials=TRIALS)
