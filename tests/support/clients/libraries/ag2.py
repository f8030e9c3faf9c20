"""AG2: an agent with a tool, over the openai SDK."""

from __future__ import annotations

from typing import Any, Final

from clients.client import MARKED, NO_TEAM, TRACEBACK, Client, Column, Trials, World, failures, load, marked, trial
from clients.libraries import openai
from clients.provider import OVERLOADED


def agent(world: World, retries: int = 0, *, streaming: bool = False) -> Any:
    config = load("ag2.config").OpenAIConfig(
        model="gpt-4o",
        base_url=f"{world.url(openai.HOST)}/v1",
        api_key="sk-none",
        max_retries=retries,
        streaming=streaming,
    )
    return load("ag2").Agent("forecaster", prompt="You are a helpful assistant", config=config, tools=[marked(world)])


async def ask(world: World) -> Any:
    return (await agent(world).ask(openai.QUESTION[0]["content"])).body


async def stream(world: World) -> Any:
    return (await agent(world, streaming=True).ask(openai.QUESTION[0]["content"])).body


async def retry(world: World) -> Any:
    return (await agent(world, retries=2).ask(openai.QUESTION[0]["content"])).body


TRIALS: Final[Trials] = {
    Column.SYNC: "AG2 has no sync agents",
    Column.ASYNC: (trial(ask, openai.SIMPLE),),
    Column.STREAM: (trial(stream, openai.STREAM),),
    Column.TOOLS: (
        trial(ask, *openai.TOOL),
        trial(stream, *openai.TOOL_STREAM),
    ),
    Column.ERRORS: failures(trial(ask, openai.SIMPLE), trial(stream, openai.STREAM), openai.WRONG_KEY),
    Column.RETRY: (trial(retry, OVERLOADED, openai.SIMPLE),),
    Column.ABANDONED: "AG2 reads a stream to its end before it gives anything back",
}
CLIENT: Final = Client(
    "ag2", "ag2", "frameworks", ("ag2[openai]",), trials=TRIALS, structure=NO_TEAM, note=f"{MARKED}; {TRACEBACK}"
)
