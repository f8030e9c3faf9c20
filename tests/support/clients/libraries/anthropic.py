"""The anthropic SDK: messages, plain and streamed."""

from __future__ import annotations

from typing import Any, Final

from clients.client import Client, World, load, trial, usual_trials
from clients.provider import recorded

HOST: Final = "api.anthropic.com"
SIMPLE, STREAM, BAD_REQUEST = recorded("9b3e6ec30dfcec7c", "87e9c720e0b42b5c", "564c06a0abc623b0")
TOOL: Final = recorded("737c974b3b62bf7e", "544db10e943c3db5")

ASK: Final[dict[str, Any]] = {
    "model": "claude-sonnet-4-20250514",
    "max_tokens": 400,
    "messages": [{"role": "user", "content": "What's the weather in Florence, Italy? ünï"}],
}
WEATHER: Final[dict[str, Any]] = {
    "name": "weather",
    "description": "Get weather information for a location",
    "input_schema": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
}


def _client(world: World, retries: int = 0) -> Any:
    return load("anthropic").Anthropic(base_url=world.url(HOST), api_key="sk-ant-none", max_retries=retries)


def _async_client(world: World) -> Any:
    return load("anthropic").AsyncAnthropic(base_url=world.url(HOST), api_key="sk-ant-none", max_retries=0)


def create(world: World) -> Any:
    return _client(world).messages.create(**ASK).model_dump()


async def create_async(world: World) -> Any:
    async with _async_client(world) as client:
        return (await client.messages.create(**ASK)).model_dump()


def stream(world: World) -> Any:
    with _client(world).messages.stream(**ASK) as stream:
        return [*stream.text_stream, stream.get_final_message().model_dump()]


async def stream_async(world: World) -> Any:
    async with _async_client(world) as client:
        return [event.model_dump() async for event in await client.messages.create(**ASK, stream=True)]


def use_tools(world: World) -> Any:
    client, messages = _client(world), list(ASK["messages"])
    while True:
        answer = client.messages.create(**{**ASK, "messages": messages, "tools": [WEATHER]})
        messages.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return messages
        found = [
            {"type": "tool_result", "tool_use_id": call.id, "content": world.tool(call.name)(**call.input)} for call in calls
        ]
        messages.append({"role": "user", "content": found})


def retry(world: World) -> Any:
    return _client(world, retries=2).messages.create(**ASK).model_dump()


def abandon(world: World) -> Any:
    with _client(world).messages.stream(**ASK) as stream:
        return next(iter(stream.text_stream))


TRIALS: Final = usual_trials(
    (create, create_async), (stream, stream_async), (retry, abandon), (SIMPLE, STREAM, BAD_REQUEST), trial(use_tools, *TOOL)
)
CLIENT: Final = Client("anthropic", "anthropic", trials=TRIALS)
