"""google-genai: the Gemini API, by httpx and, async, by aiohttp if that is installed."""

from __future__ import annotations

from typing import Any, Final

from clients.client import Client, World, load, trial, usual_trials
from clients.provider import recorded

HOST: Final = "generativelanguage.googleapis.com"
SIMPLE, STREAM, NO_MODEL = recorded("9018cac63d185e3d", "e111552f82ed3b89", "cdbfbed801889e44")
TOOL: Final = recorded("96d9bd5febf5f1ee", "02c6a54a137b4000")
TOOL_STREAM: Final = recorded("145a2649cdefce9b", "7165cb7ab59ee539")

MODEL: Final = "gemini-2.5-flash"
QUESTION: Final = "What's the weather in Florence, Italy? ünï"


def _client(world: World, attempts: int = 1) -> Any:
    types = load("google.genai.types")
    options = types.HttpOptions(
        base_url=world.url(HOST), retry_options=types.HttpRetryOptions(attempts=attempts, initial_delay=0.01, jitter=0)
    )
    client = load("google.genai").Client(api_key="none", http_options=options)
    world.keep(client)  # it closes its connections when it is dropped, even if its `models` are in use
    return client


def generate(world: World) -> Any:
    return _answer_values(_client(world).models.generate_content(model=MODEL, contents=QUESTION))


def _answer_values(answer: Any) -> Any:
    return answer.model_dump(exclude={"sdk_http_response"})


async def generate_async(world: World) -> Any:
    async with _client(world).aio as client:
        return _answer_values(await client.models.generate_content(model=MODEL, contents=QUESTION))


def stream(world: World) -> Any:
    return [_answer_values(chunk) for chunk in _client(world).models.generate_content_stream(model=MODEL, contents=QUESTION)]


async def stream_async(world: World) -> Any:
    async with _client(world).aio as client:
        chunks = await client.models.generate_content_stream(model=MODEL, contents=QUESTION)
        return [_answer_values(chunk) async for chunk in chunks]


def use_tools(world: World) -> Any:
    """Let the SDK call the function by itself."""
    config = load("google.genai.types").GenerateContentConfig(tools=[_tool(world)])
    answer = _client(world).models.generate_content(model=MODEL, contents=QUESTION, config=config)
    return [_answer_values(answer), len(answer.automatic_function_calling_history)]


def _tool(world: World) -> Any:
    work = world.tool("weather")

    def weather(location: str) -> str:
        """Get weather information for a location."""
        return work(location=location)

    return weather


def retry(world: World) -> Any:
    return _answer_values(_client(world, attempts=2).models.generate_content(model=MODEL, contents=QUESTION))


def abandon(world: World) -> Any:
    chunks = _client(world).models.generate_content_stream(model=MODEL, contents=QUESTION)
    first = _answer_values(next(chunks))
    chunks.close()
    return first


TRIALS: Final = usual_trials(
    (generate, generate_async), (stream, stream_async), (retry, abandon), (SIMPLE, STREAM, NO_MODEL), trial(use_tools, *TOOL)
)
CLIENT: Final = Client("google-genai", "google-genai", "sdks", ("google-genai", "aiohttp"), trials=TRIALS)
