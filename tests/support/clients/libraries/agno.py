"""Agno: an agent with a tool, over the openai SDK."""

from __future__ import annotations

from typing import Any, Final

from clients.client import MARKED, NO_TEAM, Client, World, load, marked, trial, usual_trials, with_broken_tool
from clients.libraries import openai


def agent(world: World, retries: int = 0) -> Any:
    model = load("agno.models.openai").OpenAIChat(
        id="gpt-4o", base_url=f"{world.url(openai.HOST)}/v1", api_key="sk-none", max_retries=retries
    )
    instructions = "You are a helpful assistant"
    return load("agno.agent").Agent(
        name="forecaster", model=model, tools=[marked(world)], instructions=instructions, telemetry=False
    )


def _question() -> str:
    return openai.QUESTION[0]["content"]


def run(world: World) -> Any:
    return agent(world).run(_question()).content


async def run_async(world: World) -> Any:
    return (await agent(world).arun(_question())).content


def stream(world: World) -> Any:
    return [event.content for event in agent(world).run(_question(), stream=True)]


async def stream_async(world: World) -> Any:
    return [event.content async for event in agent(world).arun(_question(), stream=True)]


def retry(world: World) -> Any:
    return agent(world, retries=2).run(_question()).content


def abandon(world: World) -> Any:
    events = agent(world).run(_question(), stream=True)
    first = next(event.content for event in events if event.content)
    events.close()
    return first


TRIALS: Final = usual_trials(
    (run, run_async),
    (stream, stream_async),
    (retry, abandon),
    (openai.SIMPLE, openai.STREAM, openai.WRONG_KEY),
    trial(run, *openai.TOOL),
    trial(stream, *openai.TOOL_STREAM),
    trial(with_broken_tool(run), *openai.TOOL),
)
CLIENT: Final = Client("agno", "agno", "frameworks", ("agno", "openai"), trials=TRIALS, structure=NO_TEAM, note=MARKED)
