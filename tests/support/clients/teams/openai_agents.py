"""openai-agents: one that hands over to another, which has a tool and hands over again."""

from __future__ import annotations

from typing import Any, Final

from clients.client import World, load
from clients.libraries import openai
from clients.team import Team, calls, says


async def work(world: World) -> Any:
    agents = load("agents")
    client = load("openai").AsyncOpenAI(base_url=f"{world.url(openai.HOST)}/v1", api_key="sk-none", max_retries=0)
    model = agents.OpenAIChatCompletionsModel(model="gpt-4o", openai_client=client)
    weather = agents.function_tool(world.weather)
    writer = agents.Agent(name="writer", instructions="Write it down.", model=model)
    forecaster = agents.Agent(name="forecaster", instructions="Look it up.", model=model, tools=[weather], handoffs=[writer])
    triage = agents.Agent(name="triage", instructions="Hand over.", model=model, handoffs=[forecaster])
    result = await agents.Runner.run(triage, openai.QUESTION[0]["content"])
    return [result.final_output, result.last_agent.name, [item.type for item in result.new_items]]


TEAM: Final = Team(
    client="openai-agents",
    distribution="openai-agents",
    instrumentor="openinference-instrumentation-openai-agents",
    environment="agents",
    use=work,
    script=(
        calls("transfer_to_forecaster"),
        calls("weather", location="Berlin"),
        calls("transfer_to_writer"),
        says("It is hot in Berlin."),
    ),
    agents=("triage", "forecaster", "forecaster", "writer"),
)
