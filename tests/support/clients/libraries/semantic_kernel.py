"""Semantic Kernel: an agent with a plugin's function, over the openai SDK."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any, Final

from clients.client import MARKED, NO_TEAM, Client, Column, Trials, World, failures, load, marked, trial, with_broken_tool
from clients.libraries import openai
from clients.provider import OVERLOADED


def agent(world: World, retries: int = 0) -> Any:
    service = load("semantic_kernel.connectors.ai.open_ai").OpenAIChatCompletion(
        ai_model_id="gpt-4o",
        async_client=load("openai").AsyncOpenAI(
            base_url=f"{world.url(openai.HOST)}/v1", api_key="sk-none", max_retries=retries
        ),
    )
    kernel = load("semantic_kernel").Kernel()
    function = load("semantic_kernel.functions").kernel_function(marked(world), name="weather")
    kernel.add_function(plugin_name="sky", function_name="weather", function=function)
    return load("semantic_kernel.agents").ChatCompletionAgent(
        service=service, kernel=kernel, name="forecaster", instructions="You are a helpful assistant"
    )


async def ask(world: World) -> Any:
    return str(await agent(world).get_response(messages=openai.QUESTION[0]["content"]))


async def stream(world: World) -> Any:
    parts = agent(world).invoke_stream(messages=openai.QUESTION[0]["content"])
    return [str(part) async for part in parts]


async def retry(world: World) -> Any:
    return str(await agent(world, retries=2).get_response(messages=openai.QUESTION[0]["content"]))


async def abandon(world: World) -> Any:
    async with aclosing(agent(world).invoke_stream(messages=openai.QUESTION[0]["content"])) as parts:
        async for part in parts:
            if str(part):
                return str(part)
    return None


TRIALS: Final[Trials] = {
    Column.SYNC: "Semantic Kernel has no sync agents",
    Column.ASYNC: (trial(ask, openai.SIMPLE),),
    Column.STREAM: (trial(stream, openai.STREAM),),
    Column.TOOLS: (
        trial(ask, *openai.TOOL),
        trial(stream, *openai.TOOL_STREAM),
        trial(with_broken_tool(ask), *openai.TOOL),
    ),
    Column.ERRORS: failures(trial(ask, openai.SIMPLE), trial(stream, openai.STREAM), openai.WRONG_KEY),
    Column.RETRY: (trial(retry, OVERLOADED, openai.SIMPLE),),
    Column.ABANDONED: (trial(abandon, openai.STREAM),),
}
CLIENT: Final = Client(
    "semantic-kernel", "semantic-kernel", "microsoft", ("semantic-kernel",), trials=TRIALS, structure=NO_TEAM, note=MARKED
)
