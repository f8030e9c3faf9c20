"""Strands: an agent with a decorated tool that sets the agent's state, over the openai SDK."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any, Final

from clients.client import Client, Column, Trials, World, load, outcome_of, trial, with_broken_tool
from clients.libraries import openai
from clients.provider import OVERLOADED, cut


def _agent(world: World, retries: int = 0) -> Any:
    strands = load("strands")

    def weather(location: str, tool_context: Any) -> str:
        """Get weather information for a location.

        Args:
            location: the city
        """
        found = world.weather(location)
        tool_context.agent.state.set("last_city", location)
        return found

    model = load("strands.models.openai").OpenAIModel(
        client_args={"base_url": f"{world.url(openai.HOST)}/v1", "api_key": "sk-none", "max_retries": retries},
        model_id="gpt-4o",
    )
    return strands.Agent(
        model=model,
        tools=[strands.tool(context=True)(weather)],
        system_prompt="You are a helpful assistant",
        callback_handler=None,
        retry_strategy=None,
    )


def _question() -> str:
    return openai.QUESTION[0]["content"]


def _answer_values(agent: Any, result: Any) -> Any:
    return [str(result), [message["content"] for message in agent.messages], agent.state.get()]


def ask(world: World) -> Any:
    agent = _agent(world)
    return _answer_values(agent, agent(_question()))


async def ask_async(world: World) -> Any:
    agent = _agent(world)
    return _answer_values(agent, await agent.invoke_async(_question()))


async def stream(world: World) -> Any:
    return [event["data"] async for event in _agent(world).stream_async(_question()) if "data" in event]


def ask_or_fail(world: World) -> Any:
    return outcome_of(lambda: ask(world))


def retry(world: World) -> Any:
    agent = _agent(world, retries=2)
    return _answer_values(agent, agent(_question()))


async def abandon(world: World) -> Any:
    async with aclosing(_agent(world).stream_async(_question())) as events:
        async for event in events:
            if "data" in event:
                return event["data"]
    return None


TRIALS: Final[Trials] = {
    Column.SYNC: (trial(ask, openai.STREAM),),
    Column.ASYNC: (trial(ask_async, openai.STREAM),),
    Column.STREAM: (trial(stream, openai.STREAM),),
    Column.TOOLS: (trial(ask, *openai.TOOL_STREAM), trial(with_broken_tool(ask), *openai.TOOL_STREAM)),
    Column.ERRORS: (trial(ask_or_fail, openai.WRONG_KEY), trial(ask_or_fail, cut(openai.STREAM))),
    Column.RETRY: (trial(retry, OVERLOADED, openai.STREAM),),
    Column.ABANDONED: (trial(abandon, openai.STREAM),),
}
CLIENT: Final = Client(
    "strands",
    "strands-agents",
    "strands",
    ("strands-agents[openai]",),
    trials=TRIALS,
    structure="no instrumentor of it is started: OpenInference has a span processor",
    note="Strands asks its models for streams only.",
)
