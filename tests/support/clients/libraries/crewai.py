"""CrewAI: a crew of one agent with a tool, over the openai SDK; and its LLM by itself."""

from __future__ import annotations

import os
from typing import Any, Final

from clients.client import Client, Column, Trials, World, failures, load, trial, with_broken_tool
from clients.libraries import openai
from clients.provider import OVERLOADED, Turn

from freezeframe_schemas.gaps import GapKind

COUNTED: Final = Turn(
    status=200,
    body=b'{"object": "response.input_tokens", "input_tokens": 61}',
    headers=(("content-type", "application/json"),),
)
"""CrewAI has the provider count the tokens of each prompt and each tool result before it asks."""

_QUIET: Final = {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "OTEL_SDK_DISABLED": ""}


def quiet_model(world: World, *, retries: int = 0, stream: bool = False) -> Any:
    os.environ.update(_QUIET)
    return load("crewai").LLM(
        model="openai/gpt-4o", base_url=f"{world.url(openai.HOST)}/v1", api_key="sk-none", max_retries=retries, stream=stream
    )


def _crew(world: World) -> Any:
    llm = quiet_model(world)
    crewai = load("crewai")
    weather = load("crewai.tools").tool("weather")(world.weather)
    agent = crewai.Agent(
        role="forecaster",
        goal="tell the weather",
        backstory="You are a helpful assistant",
        llm=llm,
        tools=[weather],
        verbose=False,
    )
    task = crewai.Task(description=_question(), expected_output="a sentence", agent=agent)
    return crewai.Crew(agents=[agent], tasks=[task], verbose=False)


def _question() -> str:
    return openai.QUESTION[0]["content"]


def kickoff(world: World) -> Any:
    return _crew(world).kickoff().raw


async def kickoff_async(world: World) -> Any:
    return (await _crew(world).kickoff_async()).raw


def call(world: World) -> Any:
    return quiet_model(world).call(_question())


def stream(world: World) -> Any:
    return quiet_model(world, stream=True).call(_question())


def retry(world: World) -> Any:
    return quiet_model(world, retries=2).call(_question())


_OWN_STORE: Final = frozenset({GapKind.DATABASE})
TRIALS: Final[Trials] = {
    Column.SYNC: (trial(kickoff, COUNTED, openai.SIMPLE, gaps=_OWN_STORE),),
    Column.ASYNC: (trial(kickoff_async, COUNTED, openai.SIMPLE, gaps=_OWN_STORE),),
    Column.STREAM: (trial(stream, openai.STREAM),),
    Column.TOOLS: (
        trial(kickoff, COUNTED, openai.TOOL[0], COUNTED, COUNTED, openai.TOOL[1], gaps=_OWN_STORE),
        trial(with_broken_tool(kickoff), COUNTED, openai.TOOL[0], COUNTED, COUNTED, openai.TOOL[1], gaps=_OWN_STORE),
    ),
    Column.ERRORS: failures(trial(call, openai.SIMPLE), trial(stream, openai.STREAM), openai.WRONG_KEY),
    Column.RETRY: (trial(retry, OVERLOADED, openai.SIMPLE),),
    Column.ABANDONED: "CrewAI reads a stream to its end before it gives anything back",
}
_NOTE: Final = (
    "a crew keeps the outputs of its tasks in a database in the user's folder, which is a gap of each run (`record_databases`)"
)
CLIENT: Final = Client("crewai", "crewai", "crewai", ("crewai",), trials=TRIALS, note=_NOTE)
