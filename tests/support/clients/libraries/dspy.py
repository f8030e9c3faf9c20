"""DSPy: its LM by itself, and a ReAct agent with a tool, over LiteLLM."""

from __future__ import annotations

from typing import Any, Final

from clients.client import MARKED, NO_TEAM, TRACEBACK, Client, Column, Trials, World, failures, load, marked, trial
from clients.libraries import openai
from clients.provider import OVERLOADED
from clients.team import says


def lm(world: World, retries: int = 0) -> Any:
    base = f"{world.url(openai.HOST)}/v1"
    return load("dspy").LM("openai/gpt-4o", api_base=base, api_key="sk-none", cache=False, num_retries=retries)


def ask(world: World) -> Any:
    return lm(world)(messages=list(openai.QUESTION))


async def ask_async(world: World) -> Any:
    return await lm(world).acall(messages=list(openai.QUESTION))


def retry(world: World) -> Any:
    return lm(world, retries=2)(messages=list(openai.QUESTION))


def react(world: World) -> Any:
    dspy = load("dspy")
    with dspy.context(lm=lm(world)):
        found = dspy.ReAct("question -> answer", tools=[marked(world)], max_iters=2)(question=openai.QUESTION[0]["content"])
    return [found.answer, found.trajectory]


def _fields(**fields: str) -> str:
    return "\n\n".join([*(f"[[ ## {name} ## ]]\n{text}" for name, text in fields.items()), "[[ ## completed ## ]]"])


_REACT: Final = (
    says(_fields(next_thought="Ask.", next_tool_name="weather", next_tool_args='{"location": "Florence, Italy"}')),
    says(_fields(next_thought="Known.", next_tool_name="finish", next_tool_args="{}")),
    says(_fields(reasoning="It was told.", answer="40 C")),
)
"""Made up: no recording has DSPy's fields."""
TRIALS: Final[Trials] = {
    Column.SYNC: (trial(ask, openai.SIMPLE),),
    Column.ASYNC: (trial(ask_async, openai.SIMPLE),),
    Column.STREAM: "DSPy streams an answer's fields, which no recording has",
    Column.TOOLS: (trial(react, *_REACT),),
    Column.ERRORS: failures(trial(ask, openai.SIMPLE), trial(ask, openai.SIMPLE), openai.WRONG_KEY),
    Column.RETRY: (trial(retry, OVERLOADED, openai.SIMPLE),),
    Column.ABANDONED: "DSPy streams an answer's fields, which no recording has",
}
CLIENT: Final = Client("dspy", "dspy", "frameworks", ("dspy",), trials=TRIALS, structure=NO_TEAM, note=f"{MARKED}; {TRACEBACK}")
