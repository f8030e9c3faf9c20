"""LangGraph: a graph with a tool node over langchain-openai."""

from __future__ import annotations

from typing import Any, Final

from clients.client import Client, World, load, trial, usual_trials, with_broken_tool
from clients.libraries import openai


def _graph(world: World, retries: int = 0) -> Any:
    graphs, prebuilt = load("langgraph.graph"), load("langgraph.prebuilt")
    weather = load("langchain_core.tools").tool(world.weather)
    model = load("langchain_openai").ChatOpenAI(
        model="gpt-4o", base_url=f"{world.url(openai.HOST)}/v1", api_key="sk-none", max_retries=retries
    )
    model = model.bind_tools([weather])

    def think(state: Any) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    async def think_async(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = graphs.StateGraph(graphs.MessagesState)
    graph.add_node("think", load("langchain_core.runnables").RunnableLambda(think, think_async))
    graph.add_node("tools", prebuilt.ToolNode([weather]))
    graph.add_edge(graphs.START, "think")
    graph.add_conditional_edges("think", prebuilt.tools_condition, {"tools": "tools", graphs.END: graphs.END})
    graph.add_edge("tools", "think")
    return graph.compile()


def _question() -> Any:
    content = openai.QUESTION[0]["content"]
    return {"messages": [load("langchain_core.messages").HumanMessage(content=content, id="m1")]}


def _answer_values(state: Any) -> Any:
    return [(message.type, message.content, getattr(message, "tool_calls", None)) for message in state["messages"]]


def invoke(world: World) -> Any:
    return _answer_values(_graph(world).invoke(_question()))


async def invoke_async(world: World) -> Any:
    return _answer_values(await _graph(world).ainvoke(_question()))


def stream(world: World) -> Any:
    return [chunk.content for chunk, _ in _graph(world).stream(_question(), stream_mode="messages")]


async def stream_async(world: World) -> Any:
    return [chunk.content async for chunk, _ in _graph(world).astream(_question(), stream_mode="messages")]


def retry(world: World) -> Any:
    return _answer_values(_graph(world, retries=2).invoke(_question()))


def abandon(world: World) -> Any:
    chunks = _graph(world).stream(_question(), stream_mode="messages")
    first = next(chunks)[0].content
    chunks.close()
    return first


TRIALS: Final = usual_trials(
    (invoke, invoke_async),
    (stream, stream_async),
    (retry, abandon),
    (openai.SIMPLE, openai.STREAM, openai.WRONG_KEY),
    trial(invoke, *openai.TOOL),
    trial(invoke_async, *openai.TOOL),
    trial(stream, *openai.TOOL_STREAM),
    trial(with_broken_tool(invoke), *openai.TOOL),
)
CLIENT: Final = Client("langgraph", "langgraph", trials=TRIALS)
