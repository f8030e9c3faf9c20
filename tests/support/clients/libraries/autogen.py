"""AutoGen: an assistant with a tool, over the openai SDK."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any, Final

from clients.client import MARKED, NO_TEAM, Client, Column, Trials, World, failures, load, marked, trial, with_broken_tool
from clients.libraries import openai
from clients.provider import OVERLOADED


def agent(world: World, retries: int = 0, *, streaming: bool = False) -> Any:
    model = load("autogen_ext.models.openai").OpenAIChatCompletionClient(
        model="gpt-4o", base_url=f"{world.url(openai.HOST)}/v1", api_key="sk-none", max_retries=retries
    )
    return load("autogen_agentchat.agents").AssistantAgent(
        "forecaster", model_client=model, tools=[marked(world)], reflect_on_tool_use=True, model_client_stream=streaming
    )


def _texts(result: Any) -> Any:
    return [(message.type, str(message.content)) for message in result.messages]


async def run(world: World) -> Any:
    return _texts(await agent(world).run(task=openai.QUESTION[0]["content"]))


async def stream(world: World) -> Any:
    events = agent(world, streaming=True).run_stream(task=openai.QUESTION[0]["content"])
    return [event.type async for event in events if hasattr(event, "type")]


async def retry(world: World) -> Any:
    return _texts(await agent(world, retries=2).run(task=openai.QUESTION[0]["content"]))


async def abandon(world: World) -> Any:
    async with aclosing(agent(world, streaming=True).run_stream(task=openai.QUESTION[0]["content"])) as events:
        async for event in events:
            if getattr(event, "type", "") == "ModelClientStreamingChunkEvent":
                return event.content
    return None


TRIALS: Final[Trials] = {
    Column.SYNC: "AutoGen has no sync agents",
    Column.ASYNC: (trial(run, openai.SIMPLE),),
    Column.STREAM: (trial(stream, openai.STREAM),),
    Column.TOOLS: (
        trial(run, *openai.TOOL),
        trial(stream, *openai.TOOL_STREAM),
        trial(with_broken_tool(run), *openai.TOOL),
    ),
    Column.ERRORS: failures(trial(run, openai.SIMPLE), trial(stream, openai.STREAM), openai.WRONG_KEY),
    Column.RETRY: (trial(retry, OVERLOADED, openai.SIMPLE),),
    Column.ABANDONED: (trial(abandon, openai.STREAM),),
}
CLIENT: Final = Client(
    "autogen",
    "autogen-agentchat",
    "microsoft",
    ("autogen-agentchat", "autogen-ext[openai]"),
    trials=TRIALS,
    structure=NO_TEAM,
    note=MARKED,
)
