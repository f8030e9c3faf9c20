"""Instructor: answers as pydantic models, over the openai SDK."""

from __future__ import annotations

from typing import Any, Final

from clients.client import Client, Column, Trials, World, failures, load, trial
from clients.libraries import openai
from clients.provider import OVERLOADED


def _client(world: World, kind: str = "OpenAI", retries: int = 0) -> Any:
    sdk = getattr(load("openai"), kind)
    return load("instructor").from_openai(sdk(base_url=f"{world.url(openai.HOST)}/v1", api_key="sk-none", max_retries=retries))


def _ask(**more: Any) -> dict[str, Any]:
    pydantic = load("pydantic")
    weather = pydantic.create_model("weather", location=(str, ...))
    return {"model": "gpt-4o", "messages": list(openai.QUESTION), "response_model": weather, "max_retries": 1, **more}


def create(world: World) -> Any:
    return _client(world).chat.completions.create(**_ask()).model_dump()


async def create_async(world: World) -> Any:
    return (await _client(world, "AsyncOpenAI").chat.completions.create(**_ask())).model_dump()


def stream(world: World) -> Any:
    return [part.model_dump() for part in _client(world).chat.completions.create_partial(**_ask())]


async def stream_async(world: World) -> Any:
    parts = _client(world, "AsyncOpenAI").chat.completions.create_partial(**_ask())
    return [part.model_dump() async for part in parts]


def retry(world: World) -> Any:
    return _client(world, retries=2).chat.completions.create(**_ask()).model_dump()


def abandon(world: World) -> Any:
    parts = _client(world).chat.completions.create_partial(**_ask())
    first = next(iter(parts)).model_dump()
    del parts
    return first


_WHOLE, _STREAM = openai.TOOL[0], openai.TOOL_STREAM[0]
TRIALS: Final[Trials] = {
    Column.SYNC: (trial(create, _WHOLE),),
    Column.ASYNC: (trial(create_async, _WHOLE),),
    Column.STREAM: (trial(stream, _STREAM), trial(stream_async, _STREAM)),
    Column.TOOLS: "Instructor calls no tools: a model's call is the answer",
    Column.ERRORS: failures(trial(create, _WHOLE), trial(stream, _STREAM), openai.WRONG_KEY),
    Column.RETRY: (trial(retry, OVERLOADED, _WHOLE),),
    Column.ABANDONED: (trial(abandon, _STREAM),),
}
CLIENT: Final = Client("instructor", "instructor", "frameworks", ("instructor", "openai"), trials=TRIALS)
