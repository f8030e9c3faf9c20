"""The same agent as a LangGraph graph, with LangChain's client for the model."""

import json
from typing import cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from summary import summarise
from tools import MODEL, SCHEMAS, SYSTEM_PROMPT, TOOLS, file_note, tell_model

import freezeframe


@freezeframe.run
def answer_with_graph(message: str) -> str:
    """Answer a customer's message with a graph: ask the model, call its tools, narrow their results, repeat."""
    model = ChatOpenAI(model=MODEL, temperature=0.2, seed=7).bind_tools([dict(schema) for schema in SCHEMAS])

    def ask(state: MessagesState) -> dict[str, list[AnyMessage]]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("tools", ToolNode([StructuredTool.from_function(tool) for tool in TOOLS.values()]))
    graph.add_node("narrow", narrow)
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", tools_condition)
    graph.add_edge("tools", "narrow")
    graph.add_edge("narrow", "ask")
    opening: list[AnyMessage] = [SystemMessage(SYSTEM_PROMPT), HumanMessage(message)]
    final = graph.compile().invoke({"messages": opening})
    reply = cast("list[AnyMessage]", final["messages"])[-1].text
    file_note(summarise(message, reply))
    return reply


def narrow(state: MessagesState) -> dict[str, list[AnyMessage]]:
    """Replace the newest tool results with their summaries for the model."""
    message = next(m for m in reversed(state["messages"]) if isinstance(m, AIMessage))
    replacements: list[AnyMessage] = []
    for call in message.tool_calls:
        result = next(m for m in state["messages"] if isinstance(m, ToolMessage) and m.tool_call_id == call["id"])
        content = tell_model(call["name"], call["args"], json.loads(result.text))
        replacements.append(result.model_copy(update={"content": content}))  # the same id: it replaces the old one
    return {"messages": replacements}
