"""LangGraph: two agents and a subgraph, one after the other in a graph."""

from __future__ import annotations

from typing import Any, Final

from clients.client import World, load
from clients.libraries import openai
from clients.team import Team, calls, says


def work(world: World) -> Any:
    graphs, make_agent = load("langgraph.graph"), load("langchain.agents").create_agent
    weather = load("langchain_core.tools").tool(world.weather)
    model = load("langchain_openai").ChatOpenAI(
        model="gpt-4o", base_url=f"{world.url(openai.HOST)}/v1", api_key="sk-none", max_retries=0
    )

    def judge(state: Any) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    review = graphs.StateGraph(graphs.MessagesState)
    review.add_node("judge", judge)
    review.add_edge(graphs.START, "judge")

    team = graphs.StateGraph(graphs.MessagesState)
    team.add_node("researcher", make_agent(model, [weather], name="researcher", system_prompt="Look it up."))
    team.add_node("writer", make_agent(model, [], name="writer", system_prompt="Write it down."))
    team.add_node("review", review.compile())
    team.add_edge(graphs.START, "researcher")
    team.add_edge("researcher", "writer")
    team.add_edge("writer", "review")
    question = load("langchain_core.messages").HumanMessage(content=openai.QUESTION[0]["content"], id="m1")
    state = team.compile().invoke({"messages": [question]})
    return [(message.type, message.content) for message in state["messages"]]


TEAM: Final = Team(
    client="langgraph",
    distribution="langgraph",
    instrumentor="openinference-instrumentation-langchain",
    environment="agents",
    requires=("langchain", "langchain-openai"),
    use=work,
    script=(calls("weather", location="Berlin"), says("40 C in Berlin."), says("It is hot in Berlin."), says("Good.")),
    agents=("researcher", "researcher", "writer", "review"),
)
