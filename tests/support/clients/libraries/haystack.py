"""Haystack: an agent with a tool, over the openai SDK."""

from __future__ import annotations

from typing import Any, Final

from clients.client import MARKED, NO_TEAM, Client, World, load, marked, trial, usual_trials, with_broken_tool
from clients.libraries import openai


def agent(world: World, retries: int = 0, streaming_callback: Any = None) -> Any:
    generator = load("haystack.components.generators.chat").OpenAIChatGenerator(
        model="gpt-4o",
        api_base_url=f"{world.url(openai.HOST)}/v1",
        api_key=load("haystack.utils").Secret.from_token("sk-none"),
        max_retries=retries,
        streaming_callback=streaming_callback,
    )
    tools = [load("haystack.tools").create_tool_from_function(marked(world), name="weather")]
    return load("haystack.components.agents").Agent(
        chat_generator=generator,
        tools=tools,
        system_prompt="You are a helpful assistant",
        raise_on_tool_invocation_failure=True,
    )


def _question() -> Any:
    return [load("haystack.dataclasses").ChatMessage.from_user(openai.QUESTION[0]["content"])]


def run(world: World) -> Any:
    return agent(world).run(messages=_question())["last_message"].text


async def run_async(world: World) -> Any:
    return (await agent(world).run_async(messages=_question()))["last_message"].text


def stream(world: World) -> Any:
    chunks: list[Any] = []
    agent(world, streaming_callback=chunks.append).run(messages=_question())
    return [chunk.content for chunk in chunks]


def retry(world: World) -> Any:
    return agent(world, retries=2).run(messages=_question())["last_message"].text


def abandon(world: World) -> Any:
    def stop(chunk: Any) -> None:
        if chunk.content:
            raise StopIteration(chunk.content)

    try:
        return agent(world, streaming_callback=stop).run(messages=_question())
    except Exception as error:
        return str(error.__cause__ or error)


TRIALS: Final = usual_trials(
    (run, run_async),
    (stream,),
    (retry, abandon),
    (openai.SIMPLE, openai.STREAM, openai.WRONG_KEY),
    trial(run, *openai.TOOL),
    trial(stream, *openai.TOOL_STREAM),
    trial(with_broken_tool(run), *openai.TOOL),
)
CLIENT: Final = Client(
    "haystack", "haystack-ai", "frameworks", ("haystack-ai", "openai"), trials=TRIALS, structure=NO_TEAM, note=MARKED
)
