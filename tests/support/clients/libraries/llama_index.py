"""LlamaIndex: an LLM by itself, and an agent with a function tool."""

from __future__ import annotations

from typing import Any, Final

from clients.client import Client, World, load, trial, usual_trials, with_broken_tool
from clients.libraries import openai


def _llm(world: World, retries: int = 0) -> Any:
    return load("llama_index.llms.openai").OpenAI(
        model="gpt-4o", api_base=f"{world.url(openai.HOST)}/v1", api_key="sk-none", max_retries=retries
    )


def _question() -> str:
    return openai.QUESTION[0]["content"]


def _messages() -> Any:
    return [load("llama_index.core.llms").ChatMessage(role="user", content=_question())]


def chat(world: World) -> Any:
    return _llm(world).chat(_messages()).message.model_dump()


async def chat_async(world: World) -> Any:
    return (await _llm(world).achat(_messages())).message.model_dump()


def stream(world: World) -> Any:
    return [part.delta for part in _llm(world).stream_chat(_messages())]


async def stream_async(world: World) -> Any:
    return [part.delta async for part in await _llm(world).astream_chat(_messages())]


async def use_tools(world: World) -> Any:
    tool = load("llama_index.core.tools").FunctionTool.from_defaults(world.weather)
    agent = load("llama_index.core.agent.workflow").FunctionAgent(
        tools=[tool], llm=_llm(world), system_prompt="You are a helpful assistant", streaming=False
    )
    result = await agent.run(user_msg=_question())
    return [str(result), [(call.tool_name, call.tool_kwargs, call.tool_output.content) for call in result.tool_calls]]


def retry(world: World) -> Any:
    return _llm(world, retries=3).chat(_messages()).message.model_dump()


def abandon(world: World) -> Any:
    parts = _llm(world).stream_chat(_messages())
    first = next(parts).delta
    parts.close()
    return first


TRIALS: Final = usual_trials(
    (chat, chat_async),
    (stream, stream_async),
    (retry, abandon),
    (openai.SIMPLE, openai.STREAM, openai.WRONG_KEY),
    trial(use_tools, *openai.TOOL),
    trial(with_broken_tool(use_tools), *openai.TOOL),
)
CLIENT: Final = Client(
    "llama-index",
    "llama-index-core",
    "sdks",
    ("llama-index-core", "llama-index-llms-openai"),
    trials=TRIALS,
    structure="its instrumentor is started, but no team was tried",
)
