"""pydantic-ai: an agent with a tool, over the openai SDK."""

from __future__ import annotations

from typing import Any, Final

from clients.client import Client, World, load, trial, usual_trials, with_broken_tool
from clients.libraries import openai


def _agent(world: World, retries: int = 0) -> Any:
    client = load("openai").AsyncOpenAI(base_url=f"{world.url(openai.HOST)}/v1", api_key="sk-none", max_retries=retries)
    provider = load("pydantic_ai.providers.openai").OpenAIProvider(openai_client=client)
    model = load("pydantic_ai.models.openai").OpenAIChatModel("gpt-4o", provider=provider)
    agent = load("pydantic_ai").Agent(model, instructions="You are a helpful assistant")
    agent.tool_plain(world.weather)
    return agent


def _question() -> str:
    return openai.QUESTION[0]["content"]


def _answer_values(result: Any) -> Any:
    return [result.output, [part.part_kind for message in result.all_messages() for part in message.parts]]


def run_sync(world: World) -> Any:
    return _answer_values(_agent(world).run_sync(_question()))


async def run(world: World) -> Any:
    return _answer_values(await _agent(world).run(_question()))


async def stream(world: World) -> Any:
    async with _agent(world).run_stream(_question()) as result:
        return [text async for text in result.stream_text(delta=True, debounce_by=None)]


def retry(world: World) -> Any:
    return _answer_values(_agent(world, retries=2).run_sync(_question()))


async def abandon(world: World) -> Any:
    async with _agent(world).run_stream(_question()) as result:
        async for text in result.stream_text(delta=True, debounce_by=None):
            return text
    return None


TRIALS: Final = usual_trials(
    (run_sync, run),
    (stream,),
    (retry, abandon),
    (openai.SIMPLE, openai.STREAM, openai.WRONG_KEY),
    trial(run_sync, *openai.TOOL),
    trial(stream, *openai.TOOL_STREAM),
    trial(with_broken_tool(run), *openai.TOOL),
)
CLIENT: Final = Client(
    "pydantic-ai",
    "pydantic-ai-slim",
    trials=TRIALS,
    structure="no instrumentor of it is started: OpenInference has a span processor",
)
