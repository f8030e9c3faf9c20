"""Frameworks: a tool loop of each, recorded and run again with the provider gone and the tools untouched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import requests
from agents import Agent, FunctionTool, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from capture_provider import Provider
from capture_replay import replaying, spans_of_replayed
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openai import AsyncOpenAI

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas import genai, values
from freezeframe_schemas.exchange import Completion, Kind
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.run import build_run

pytestmark = pytest.mark.long  # imports every framework

CALLS: list[str] = []

set_tracing_disabled(True)


class Chunks(BaseRetriever):
    """A retriever that never gives the same answer twice."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        CALLS.append("retrieve")
        return [Document(id=f"chunk-{len(CALLS)}", page_content=f"about {query}", metadata={"score": 0.5})]


@tool
def get_order(order_id: str) -> str:
    """Look an order up."""
    CALLS.append("get_order")
    found = Chunks().invoke("inside")
    return f"{order_id}: {len(CALLS)} {found[0].page_content}"


def langgraph_agent(url: str) -> Any:
    model = ChatOpenAI(model="gpt-4o", base_url=f"{url}/v1", api_key="x", max_retries=0).bind_tools([get_order])  # pyright: ignore[reportArgumentType] - a plain string is accepted

    def think(state: MessagesState) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode([get_order]))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition, {"tools": "tools", END: END})
    graph.add_edge("tools", "think")
    documents = Chunks().invoke("shoes")
    answer = graph.compile().invoke({"messages": [HumanMessage(content="Where is AC-1?", id="m1")]})
    return [documents, [(message.type, message.content) for message in answer["messages"]]]


@function_tool
def lookup_order(order_id: str) -> dict[str, Any]:
    """Look an order up."""
    CALLS.append("lookup_order")
    return {"id": order_id, "n": len(CALLS)}


async def _by_hand(context: Any, arguments: str) -> str:
    CALLS.append("by_hand")
    return f"{arguments} {len(CALLS)}"


def make_tool_by_hand() -> FunctionTool:
    schema = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
    return FunctionTool(name="by_hand", description="d", params_json_schema=schema, on_invoke_tool=_by_hand)


def _agents_run(url: str, tools: list[Any]) -> Any:
    async def run() -> Any:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
            model = OpenAIChatCompletionsModel(model="gpt-4o", openai_client=client)
            agent = Agent(name="orders", instructions="Help.", model=model, tools=tools)
            result = await Runner.run(agent, "Where is AC-1?")
            return [result.final_output, [item.type for item in result.new_items]]

    return asyncio.run(run())


def openai_agents_agent(url: str) -> Any:
    return _agents_run(url, [lookup_order])


def openai_agents_tool_by_hand(url: str) -> Any:
    return _agents_run(url, [make_tool_by_hand()])


@freezeframe.tool
def fetch_price(url: str, path: str) -> Any:
    CALLS.append("fetch_price")
    response = requests.get(f"{url}{path}", timeout=300)
    return [response.status_code, response.json()]


def requests_in_a_tool(url: str) -> Any:
    return fetch_price(url, "/price?api_key=secret")


AGENTS: list[Callable[[str], Any]] = [langgraph_agent, openai_agents_agent, openai_agents_tool_by_hand, requests_in_a_tool]


@pytest.mark.proof("seam frameworks.langchain", "seam frameworks.openai_agents")
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.__name__)
def test_an_agent_runs_again_from_its_recording_with_no_tool_called(agent: Callable[[str], Any], provider: Provider) -> None:
    run = freezeframe.run(agent)
    with capture() as captured:
        first = run(provider.url)
        recorded_run = build_run(captured.spans)
    provider.stop()
    calls = list(CALLS)
    with replaying(recorded_run.exchanges) as recorded:
        second = run(provider.url)
    assert first == second
    assert calls == CALLS
    assert recorded.left == []
    # `run` is in no module, and the tools append to a list
    assert {gap.kind for gap in recorded_run.gaps} == {GapKind.ENTRY_UNREACHABLE, GapKind.TOOL_CHANGES}


def test_the_tools_of_langgraph_have_the_models_call_id(provider: Provider) -> None:
    with capture() as captured:
        freezeframe.run(langgraph_agent)(provider.url)
        exchanges = captured.exchanges
    call = next(exchange for exchange in exchanges if exchange.name == "get_order")
    assert call.call_id == "call_of_1"
    assert values.decode(call.request.body.decode()) == {"args": [], "kwargs": {"order_id": "AC-1"}}


@pytest.mark.proof
def test_a_retriever_gives_its_chunks_with_their_ids(provider: Provider) -> None:
    with capture() as captured:
        Chunks().invoke("shoes")
        span = next(span for span in captured.spans if span.text(genai.EXCHANGE_KIND) == Kind.RETRIEVAL.value)
    assert span.text(genai.RETRIEVAL_QUERY) == "shoes"
    assert '"content": "about shoes"' in (span.text(genai.RETRIEVAL_DOCUMENTS) or "")


@pytest.mark.proof
def test_a_vector_store_gives_scores_and_is_not_searched_in_a_replay() -> None:
    class Embedder(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [[float(len(text)), 1.0] for text in texts]

        def embed_query(self, text: str) -> list[float]:
            CALLS.append("embed")
            return [float(len(text)), 1.0 + len(CALLS)]

    class Later(InMemoryVectorStore):
        """A store whose class is made after the seam."""

        def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
            return super().similarity_search_with_score(query, k, **kwargs)

    @freezeframe.run
    def search() -> Any:
        stores = [
            cls.from_texts(["shoes", "boots and more"], Embedder(), ids=["c1", "c2"]) for cls in (InMemoryVectorStore, Later)
        ]
        return [
            [
                store.similarity_search_with_score("shoes", k=1),
                store.similarity_search("boots"),
                store.as_retriever().invoke("x"),
            ]
            for store in stores
        ]

    spans = spans_of_replayed(search, CALLS)
    scored = next(span for span in spans if span.text(genai.RETRIEVAL_QUERY) == "shoes")
    assert '"id": "c1"' in (scored.text(genai.RETRIEVAL_DOCUMENTS) or "")
    assert '"score": 0.' in (scored.text(genai.RETRIEVAL_DOCUMENTS) or "")


def test_a_tools_http_is_recorded_inside_it_and_nowhere_else(provider: Provider) -> None:
    with capture() as captured:
        requests.get(f"{provider.url}/outside", timeout=300)
        requests_in_a_tool(provider.url)
        exchanges = captured.exchanges
    assert [(exchange.kind, exchange.name) for exchange in exchanges] == [
        (Kind.TOOL, "fetch_price"),
        (Kind.HTTP, "GET /price"),
    ]
    assert "secret" not in exchanges[1].request.url
    assert exchanges[1].response.completion is Completion.COMPLETE


def requests_plain(url: str) -> Any:
    response = requests.post(f"{url}/v1/chat/completions", json={"model": "gpt-4o", "messages": []}, timeout=300)
    return [response.status_code, response.json(), response.reason, response.headers["content-type"]]


def requests_stream(url: str) -> Any:
    body = {"model": "gpt-4o", "messages": [], "stream": True}
    with requests.post(f"{url}/v1/chat/completions", json=body, stream=True, timeout=300) as response:
        return list(response.iter_lines())


def requests_abandoned(url: str) -> Any:
    body = {"model": "gpt-4o", "messages": [], "stream": True}
    with requests.post(f"{url}/v1/chat/completions", json=body, stream=True, timeout=300) as response:
        return next(response.iter_content(10))


def requests_upload(url: str) -> Any:
    pieces = iter([b'{"model": "gpt-4o", ', b'"messages": []}'])
    return requests.post(f"{url}/v1/chat/completions", data=pieces, timeout=300).json()


def requests_fault(url: str) -> Any:
    try:
        response = requests.post(f"{url}/v1/chat/completions", json={"model": "gpt-4o", "messages": []}, timeout=300)
    except requests.RequestException as error:
        return type(error).__name__
    return [response.status_code, response.content]


REQUESTS: list[tuple[str, Callable[[str], Any], Completion]] = [
    ("", requests_plain, Completion.COMPLETE),
    ("", requests_stream, Completion.COMPLETE),
    ("", requests_abandoned, Completion.CLOSED_EARLY),
    ("", requests_upload, Completion.COMPLETE),
    ("500", requests_fault, Completion.COMPLETE),
    ("429-cut", requests_fault, Completion.BROKEN),
    ("stream-cut", requests_fault, Completion.BROKEN),
    ("hang-up", requests_fault, Completion.NONE),
    ("binary", requests_fault, Completion.COMPLETE),
]


@pytest.mark.proof("seam http.requests")
@pytest.mark.parametrize(("fault", "client", "completion"), REQUESTS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_model_call_by_requests_is_recorded_and_served(
    fault: str, client: Callable[[str], Any], completion: Completion, provider: Provider
) -> None:
    provider.faults = [fault]
    with capture() as captured:
        first = client(provider.url)
        exchanges = captured.exchanges
    provider.stop()
    with replaying(exchanges) as recorded:
        second = client(provider.url)
    assert first == second
    assert [exchange.response.completion for exchange in exchanges] == [completion]
    assert recorded.left == []
