"""Google ADK: an agent with a function tool which writes to the session's state."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any, Final

from clients.client import Client, Column, Trials, World, load, trial, with_broken_tool
from clients.libraries import google_genai
from clients.provider import OVERLOADED, cut


def _runner(world: World) -> Any:
    adk = load("google.adk.agents")
    types = load("google.genai.types")
    context_class = load("google.adk.tools.tool_context").ToolContext

    def weather(location: str, tool_context: Any) -> dict[str, str]:
        """Get weather information for a location.

        Args:
            location: the city
        """
        found = world.weather(location)
        tool_context.state["last_city"] = location
        return {"weather": found}

    weather.__annotations__["tool_context"] = context_class
    model = load("google.adk.models.google_llm").Gemini(
        model="gemini-2.5-flash",
        base_url=world.url(google_genai.HOST),
        retry_options=types.HttpRetryOptions(attempts=2, initial_delay=0.01, jitter=0),
    )
    agent = adk.LlmAgent(
        name="forecaster", model=model, instruction="You are a helpful assistant. Last city: {last_city?}", tools=[weather]
    )
    return load("google.adk.runners").InMemoryRunner(agent=agent, app_name="forecast")


async def _session(runner: Any) -> Any:
    return await runner.session_service.create_session(app_name="forecast", user_id="u1", session_id="s1")


def _content() -> Any:
    types = load("google.genai.types")
    return types.Content(role="user", parts=[types.Part(text=google_genai.QUESTION)])


async def _run(world: World, *, streaming: bool = False, stop_early: bool = False) -> Any:
    load("os").environ.setdefault("GOOGLE_API_KEY", "none")
    config = load("google.adk.agents.run_config")
    runner = _runner(world)
    await _session(runner)
    mode = config.StreamingMode.SSE if streaming else config.StreamingMode.NONE
    received: list[Any] = []
    async with aclosing(
        runner.run_async(
            user_id="u1", session_id="s1", new_message=_content(), run_config=config.RunConfig(streaming_mode=mode)
        )
    ) as events:
        async for event in events:
            received.append(
                [part.model_dump(exclude={"function_call": {"id"}, "function_response": {"id"}}) for part in _parts(event)]
            )
            if stop_early:
                return received
    session = await runner.session_service.get_session(app_name="forecast", user_id="u1", session_id="s1")
    return [received, session.state]


def _parts(event: Any) -> Any:
    return (event.content.parts or ()) if event.content else ()


async def run(world: World) -> Any:
    return await _run(world)


def run_sync(world: World) -> Any:
    load("os").environ.setdefault("GOOGLE_API_KEY", "none")
    runner = _runner(world)
    load("asyncio").run(_session(runner))
    events = runner.run(user_id="u1", session_id="s1", new_message=_content())
    return [part.text for event in events for part in _parts(event)]


async def stream(world: World) -> Any:
    return await _run(world, streaming=True)


async def run_or_fail(world: World) -> Any:
    try:
        return await _run(world)
    except Exception as error:
        return [type(error).__name__, str(error)]


async def stream_or_fail(world: World) -> Any:
    try:
        return await _run(world, streaming=True)
    except Exception as error:
        return [type(error).__name__, str(error)]


async def abandon(world: World) -> Any:
    return await _run(world, streaming=True, stop_early=True)


TRIALS: Final[Trials] = {
    Column.SYNC: (trial(run_sync, google_genai.SIMPLE),),
    Column.ASYNC: (trial(run, google_genai.SIMPLE),),
    Column.STREAM: (trial(stream, google_genai.STREAM),),
    Column.TOOLS: (
        trial(run, *google_genai.TOOL),
        trial(stream, *google_genai.TOOL_STREAM),
        trial(with_broken_tool(run), *google_genai.TOOL),
    ),
    Column.ERRORS: (
        trial(run_or_fail, google_genai.NO_MODEL),
        trial(run_or_fail, cut(google_genai.SIMPLE)),
        trial(stream_or_fail, cut(google_genai.STREAM)),
    ),
    Column.RETRY: (trial(run, OVERLOADED, google_genai.SIMPLE),),
    Column.ABANDONED: (trial(abandon, google_genai.STREAM),),
}
CLIENT: Final = Client(
    "google-adk",
    "google-adk",
    "adk",
    ("google-adk",),
    trials=TRIALS,
    structure="its instrumentor is started, but no team was tried",
)
