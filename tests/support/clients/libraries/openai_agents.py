"""openai-agents: an agent with a function tool."""

from __future__ import annotations

from typing import Any, Final

from clients.client import Client, World, load, trial, usual_trials, with_broken_tool
from clients.libraries import openai


def _agent(world: World, retries: int = 0) -> Any:
    agents = load("agents")
    agents.set_tracing_disabled(True)
    client = load("openai").AsyncOpenAI(base_url=f"{world.url(openai.HOST)}/v1", api_key="sk-none", max_retries=retries)
    model = agents.OpenAIChatCompletionsModel(model="gpt-4o", openai_client=client)
    weather = agents.function_tool(world.weather)
    return agents.Agent(name="forecaster", instructions="You are a helpful assistant", model=model, tools=[weather])


def _question() -> str:
    return openai.QUESTION[0]["content"]


def _answer_values(result: Any) -> Any:
    return [result.final_output, [item.type for item in result.new_items]]


def run_sync(world: World) -> Any:
    return _answer_values(load("agents").Runner.run_sync(_agent(world), _question()))


async def run(world: World) -> Any:
    return _answer_values(await load("agents").Runner.run(_agent(world), _question()))


async def stream(world: World) -> Any:
    result = load("agents").Runner.run_streamed(_agent(world), _question())
    events = [event.type async for event in result.stream_events()]
    return [events, _answer_values(result)]


async def retry(world: World) -> Any:
    return _answer_values(await load("agents").Runner.run(_agent(world, retries=2), _question()))


async def abandon(world: World) -> Any:
    result = load("agents").Runner.run_streamed(_agent(world), _question())
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            result.cancel()
            return event.data.delta
    return None


TRIALS: Final = usual_trials(
    (run_sync, run),
    (stream,),
    (retry, abandon),
    (openai.SIMPLE, openai.STREAM, openai.WRONG_KEY),
    trial(run, *openai.TOOL),
    trial(stream, *openai.TOOL_STREAM),
    trial(with_broken_tool(run), *openai.TOOL),
)
CLIENT: Final = Client("openai-agents", "openai-agents", trials=TRIALS)
