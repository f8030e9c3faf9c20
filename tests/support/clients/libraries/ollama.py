"""The ollama SDK."""

from __future__ import annotations

from typing import Any, Final

from clients.client import Client, World, function_tool, load, trial, usual_trials
from clients.provider import recorded

HOST: Final = "ollama"
SIMPLE, STREAM, NO_MODEL = recorded("c7d1536e07da1631", "463abe510aaf21cb", "e8bff7b8e432291d")
TOOL: Final = recorded("3b930b6f9dbb61ce", "c7d1536e07da1631")

ASK: Final[dict[str, Any]] = {
    "model": "qwen3.6:latest",
    "messages": [{"role": "user", "content": "Why is the sky blue? ünï"}],
    "options": {"seed": 42},
}
WEATHER: Final = function_tool("get_current_weather", "Get the current weather in a city.", "city")


def chat(world: World) -> Any:
    return load("ollama").Client(host=world.url(HOST)).chat(**ASK).model_dump()


async def chat_async(world: World) -> Any:
    return (await load("ollama").AsyncClient(host=world.url(HOST)).chat(**ASK)).model_dump()


def stream(world: World) -> Any:
    return [part.model_dump() for part in load("ollama").Client(host=world.url(HOST)).chat(**ASK, stream=True)]


async def stream_async(world: World) -> Any:
    parts = await load("ollama").AsyncClient(host=world.url(HOST)).chat(**ASK, stream=True)
    return [part.model_dump() async for part in parts]


def use_tools(world: World) -> Any:
    client, messages = load("ollama").Client(host=world.url(HOST)), list(ASK["messages"])
    while True:
        answer = client.chat(**{**ASK, "messages": messages}, tools=[WEATHER]).message
        messages.append(answer.model_dump(exclude_none=True))
        for call in answer.tool_calls or ():
            found = world.tool(call.function.name)(**call.function.arguments)
            messages.append({"role": "tool", "tool_name": call.function.name, "content": found})
        if not answer.tool_calls:
            return messages


def abandon(world: World) -> Any:
    parts = load("ollama").Client(host=world.url(HOST)).chat(**ASK, stream=True)
    first = next(parts).model_dump()
    parts.close()
    return first


TRIALS: Final = usual_trials(
    (chat, chat_async),
    (stream, stream_async),
    ("the ollama SDK does not retry", abandon),
    (SIMPLE, STREAM, NO_MODEL),
    trial(use_tools, *TOOL),
)
CLIENT: Final = Client("ollama", "ollama", "sdks", ("ollama",), trials=TRIALS)
