"""The groq SDK."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from clients.client import Client, World, converse, load, trial, usual_trials
from clients.libraries.openai import QUESTION, WEATHER, WRONG_KEY
from clients.provider import recorded

HOST: Final = "api.groq.com"
SIMPLE, STREAM = recorded("0d2158072afefa9a", "145b8201bcefdfb3")
TOOL: Final = recorded("0e6e19f23a9a4fb4", "52ba077f5feaad23")

ASK: Final[dict[str, Any]] = {"model": "moonshotai/kimi-k2", "messages": QUESTION}


def _client(world: World, retries: int = 0) -> Any:
    return load("groq").Groq(base_url=world.url(HOST), api_key="gsk-none", max_retries=retries)


def complete(world: World) -> Any:
    return _client(world).chat.completions.create(**ASK).model_dump()


async def complete_async(world: World) -> Any:
    async with load("groq").AsyncGroq(base_url=world.url(HOST), api_key="gsk-none", max_retries=0) as client:
        return (await client.chat.completions.create(**ASK)).model_dump()


def stream(world: World) -> Any:
    return [chunk.model_dump() for chunk in _client(world).chat.completions.create(**ASK, stream=True)]


async def stream_async(world: World) -> Any:
    async with load("groq").AsyncGroq(base_url=world.url(HOST), api_key="gsk-none", max_retries=0) as client:
        return [chunk.model_dump() async for chunk in await client.chat.completions.create(**ASK, stream=True)]


def use_tools(world: World) -> Any:
    ask = partial(_client(world).chat.completions.create, **ASK, tools=[WEATHER])
    return converse(world, list(QUESTION), lambda messages: ask(messages=messages).choices[0].message)


def retry(world: World) -> Any:
    return _client(world, retries=2).chat.completions.create(**ASK).model_dump()


def abandon(world: World) -> Any:
    chunks = _client(world).chat.completions.create(**ASK, stream=True)
    first = next(iter(chunks)).model_dump()
    chunks.close()
    return first


TRIALS: Final = usual_trials(
    (complete, complete_async), (stream, stream_async), (retry, abandon), (SIMPLE, STREAM, WRONG_KEY), trial(use_tools, *TOOL)
)
CLIENT: Final = Client("groq", "groq", "sdks", ("groq",), trials=TRIALS)
