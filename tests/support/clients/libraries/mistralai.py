"""The mistralai SDK."""

from __future__ import annotations

import json
from typing import Any, Final

from clients.client import Client, World, function_tool, load, trial, usual_trials
from clients.provider import OVERLOADED, recorded

HOST: Final = "api.mistral.ai"
SIMPLE, STREAM = recorded("fd8d10c6a9867ce9", "4ea6984fa430dfd7")
TOOL: Final = recorded("a5cd13d6993ea742", "231b75185ae67306")

ASK: Final[dict[str, Any]] = {
    "model": "mistral-large-latest",
    "messages": [{"role": "user", "content": "What's the weather in NYC? ünï"}],
}
WEATHER: Final = function_tool("get_weather", "Get the current weather for a location.")


def _client(world: World, *, retrying: bool = False) -> Any:
    retries = load("mistralai.client.utils")
    backoff = retries.BackoffStrategy(initial_interval=1, max_interval=10, exponent=1.5, max_elapsed_time=5000)
    config = {"retry_config": retries.RetryConfig("backoff", backoff, True)} if retrying else {}
    return load("mistralai.client").Mistral(server_url=world.url(HOST), api_key="none", **config)


def complete(world: World) -> Any:
    return _client(world).chat.complete(**ASK).model_dump()


async def complete_async(world: World) -> Any:
    async with _client(world) as client:
        return (await client.chat.complete_async(**ASK)).model_dump()


def stream(world: World) -> Any:
    with _client(world).chat.stream(**ASK) as events:
        return [event.model_dump() for event in events]


async def stream_async(world: World) -> Any:
    async with _client(world) as client, await client.chat.stream_async(**ASK) as events:
        return [event.model_dump() async for event in events]


def use_tools(world: World) -> Any:
    client, messages = _client(world), list(ASK["messages"])
    while True:
        answer = client.chat.complete(**{**ASK, "messages": messages}, tools=[WEATHER]).choices[0].message
        messages.append(answer.model_dump())
        for call in answer.tool_calls or ():
            found = world.tool(call.function.name)(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "name": call.function.name, "content": found})
        if not answer.tool_calls:
            return messages


def retry(world: World) -> Any:
    return _client(world, retrying=True).chat.complete(**ASK).model_dump()


def abandon(world: World) -> Any:
    with _client(world).chat.stream(**ASK) as events:
        return next(iter(events)).model_dump()


TRIALS: Final = usual_trials(
    (complete, complete_async), (stream, stream_async), (retry, abandon), (SIMPLE, STREAM, OVERLOADED), trial(use_tools, *TOOL)
)
CLIENT: Final = Client("mistralai", "mistralai", "sdks", ("mistralai",), trials=TRIALS)
