"""CrewAI: three roles, each with a task that builds on the one before."""

from __future__ import annotations

from typing import Any, Final

from clients.client import World, load
from clients.libraries.crewai import COUNTED, quiet_model
from clients.team import Team, says

_ROLES: Final = {"researcher": "find out the weather", "writer": "write a sentence", "editor": "shorten the sentence"}


def work(world: World) -> Any:
    model = quiet_model(world)
    crewai = load("crewai")
    members = [
        crewai.Agent(role=role, goal=goal, backstory="You are a helpful assistant", llm=model, verbose=False)
        for role, goal in _ROLES.items()
    ]
    tasks = [crewai.Task(description=f"Please {agent.goal}", expected_output="a sentence", agent=agent) for agent in members]
    return crewai.Crew(agents=members, tasks=tasks, verbose=False).kickoff().raw


TEAM: Final = Team(
    client="crewai",
    distribution="crewai",
    instrumentor="openinference-instrumentation-crewai",
    environment="crewai",
    use=work,
    script=(COUNTED, says("40 C."), COUNTED, says("It is hot in Berlin."), COUNTED, says("Hot.")),
    agents=("researcher", "researcher", "writer", "writer", "editor", "editor"),
)
