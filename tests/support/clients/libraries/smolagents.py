"""smolagents: a tool-calling agent and a code agent, over the openai SDK."""

from __future__ import annotations

from typing import Any, Final

from clients.client import Client, Column, Trials, World, failures, load, trial, with_broken_tool
from clients.libraries import openai
from clients.provider import OVERLOADED


def _model(world: World, retries: int = 0) -> Any:
    return load("smolagents").OpenAIModel(
        "gpt-4o",
        api_base=f"{world.url(openai.HOST)}/v1",
        api_key="sk-none",
        retry=False,
        client_kwargs={"max_retries": retries},
    )


def _agent(world: World, retries: int = 0) -> Any:
    smolagents = load("smolagents")

    class Weather(smolagents.Tool):
        name = "weather"
        description = "Get weather information for a location"
        inputs: Any = {"location": {"type": "string", "description": "the city"}}  # noqa: RUF012 - the library's way
        output_type = "string"

        def forward(self, location: str) -> str:
            return world.weather(location)

    return smolagents.ToolCallingAgent(tools=[Weather()], model=_model(world, retries), verbosity_level=0, max_steps=2)


def ask(world: World) -> Any:
    answer = _model(world).generate([load("smolagents").ChatMessage(role="user", content=_question())])
    return answer.content


def _question() -> str:
    return openai.QUESTION[0]["content"]


def stream(world: World) -> Any:
    message = load("smolagents").ChatMessage(role="user", content=_question())
    return [delta.content for delta in _model(world).generate_stream([message])]


def use_tools(world: World) -> Any:
    agent = _agent(world)
    answer = agent.run(_question())
    return [answer, [getattr(step, "observations", None) for step in agent.memory.steps]]


def retry(world: World) -> Any:
    message = load("smolagents").ChatMessage(role="user", content=_question())
    return _model(world, retries=2).generate([message]).content


def abandon(world: World) -> Any:
    message = load("smolagents").ChatMessage(role="user", content=_question())
    deltas = _model(world).generate_stream([message])
    first = next(deltas).content
    deltas.close()
    return first


TRIALS: Final[Trials] = {
    Column.SYNC: (trial(ask, openai.SIMPLE),),
    Column.ASYNC: "smolagents has no async agents",
    Column.STREAM: (trial(stream, openai.STREAM),),
    Column.TOOLS: (
        trial(use_tools, *openai.TOOL, openai.TOOL[1]),
        trial(with_broken_tool(use_tools), *openai.TOOL, openai.TOOL[1]),
    ),
    Column.ERRORS: failures(trial(ask, openai.SIMPLE), trial(stream, openai.STREAM), openai.WRONG_KEY),
    Column.RETRY: (trial(retry, OVERLOADED, openai.SIMPLE),),
    Column.ABANDONED: (trial(abandon, openai.STREAM),),
}
CLIENT: Final = Client(
    "smolagents",
    "smolagents",
    "sdks",
    ("smolagents[openai]",),
    trials=TRIALS,
    structure="its instrumentor is started, but no team was tried",
)
