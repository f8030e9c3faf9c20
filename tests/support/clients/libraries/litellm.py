"""LiteLLM: OpenAI through the openai SDK, Anthropic through its own HTTP client (httpx, async over aiohttp)."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Final

from clients.client import Client, Column, Trials, World, converse, failures, load, trial
from clients.libraries import anthropic, openai
from clients.provider import OVERLOADED


def _ask(world: World) -> dict[str, Any]:
    return {
        "model": "openai/gpt-4o",
        "api_base": f"{world.url(openai.HOST)}/v1",
        "api_key": "sk-none",
        "messages": list(openai.QUESTION),
        "num_retries": 0,
        "max_retries": 0,
    }


def _ask_anthropic(world: World) -> dict[str, Any]:
    model = "anthropic/claude-sonnet-4-20250514"
    return {**_ask(world), "model": model, "api_base": world.url(anthropic.HOST), "api_key": "sk-ant-none", "max_tokens": 400}


def _litellm() -> Any:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else its import asks the network for prices
    litellm = load("litellm")
    litellm.in_memory_llm_clients_cache.flush_cache()  # its HTTP clients belong to the event loop in which they were made
    litellm.suppress_debug_info = True
    return litellm


def _answer_values(answer: Any) -> Any:
    """Return the answer without the id and the time that LiteLLM invents for providers that give none."""
    answer_dict = answer.model_dump()
    return {name: value for name, value in answer_dict.items() if name not in ("id", "created")}


def complete(world: World) -> Any:
    return _answer_values(_litellm().completion(**_ask(world)))


def complete_by_anthropic(world: World) -> Any:
    return _answer_values(_litellm().completion(**_ask_anthropic(world)))


async def complete_async(world: World) -> Any:
    return _answer_values(await _litellm().acompletion(**_ask(world)))


async def complete_by_anthropic_async(world: World) -> Any:
    return _answer_values(await _litellm().acompletion(**_ask_anthropic(world)))


def stream(world: World) -> Any:
    return [_answer_values(chunk) for chunk in _litellm().completion(**_ask(world), stream=True)]


async def stream_async(world: World) -> Any:
    return [_answer_values(chunk) async for chunk in await _litellm().acompletion(**_ask(world), stream=True)]


async def stream_by_anthropic_async(world: World) -> Any:
    return [_answer_values(chunk) async for chunk in await _litellm().acompletion(**_ask_anthropic(world), stream=True)]


def use_tools(world: World) -> Any:
    ask = partial(_litellm().completion, **_ask(world), tools=[openai.WEATHER])
    return converse(world, list(openai.QUESTION), lambda messages: ask(messages=messages).choices[0].message)


def retry(world: World) -> Any:
    return _answer_values(_litellm().completion(**{**_ask(world), "num_retries": 2}))


def abandon(world: World) -> Any:
    chunks = _litellm().completion(**_ask(world), stream=True)
    return _answer_values(next(chunks))


TRIALS: Final[Trials] = {
    Column.SYNC: (trial(complete, openai.SIMPLE), trial(complete_by_anthropic, anthropic.SIMPLE)),
    Column.ASYNC: (trial(complete_async, openai.SIMPLE), trial(complete_by_anthropic_async, anthropic.SIMPLE)),
    Column.STREAM: (
        trial(stream, openai.STREAM),
        trial(stream_async, openai.STREAM),
        trial(stream_by_anthropic_async, anthropic.STREAM),
    ),
    Column.TOOLS: (trial(use_tools, *openai.TOOL),),
    Column.ERRORS: failures(trial(complete, openai.SIMPLE), trial(stream, openai.STREAM), openai.WRONG_KEY),
    Column.RETRY: (trial(retry, OVERLOADED, openai.SIMPLE),),
    Column.ABANDONED: (trial(abandon, openai.STREAM),),
}
CLIENT: Final = Client(
    "litellm", "litellm", "sdks", ("litellm", "mcp"), trials=TRIALS
)  # which it imports as soon as a call has tools
