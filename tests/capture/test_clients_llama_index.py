"""LlamaIndex: function tools and retrievers, recorded and served. Needs llama-index-core (an environment with openai 2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from capture_replay import spans_of_replayed

import freezeframe
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Kind

llama_retriever: Any = pytest.importorskip("llama_index.core.base.base_retriever")
llama_schema: Any = pytest.importorskip("llama_index.core.schema")
llama_tools: Any = pytest.importorskip("llama_index.core.tools")


@pytest.mark.proof("seam frameworks.llama_index")
def test_tools_and_retrievers_run_again_from_their_recording() -> None:
    calls: list[str] = []

    class Chunks(llama_retriever.BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> Any:
            calls.append("retrieve")
            return [
                llama_schema.NodeWithScore(
                    node=llama_schema.TextNode(id_=f"chunk-{len(calls)}", text="about shoes"), score=0.75
                )
            ]

    def get_order(order_id: str) -> str:
        """Look an order up."""
        calls.append(order_id)
        return f"{order_id}: {len(calls)}"

    tool = llama_tools.FunctionTool.from_defaults(get_order)

    @freezeframe.run
    def agent() -> Any:
        found = Chunks().retrieve("shoes")
        later = asyncio.run(Chunks().aretrieve("boots"))
        said = [tool.call(order_id="AC-1"), asyncio.run(tool.acall(order_id="AC-1"))]
        nodes = [(item.node.node_id, item.get_content(), item.score) for item in [*found, *later]]
        return [nodes, [(output.content, output.raw_output, output.is_error) for output in said]]

    spans = spans_of_replayed(agent, calls)
    retrieval = next(span for span in spans if span.text(genai.EXCHANGE_KIND) == Kind.RETRIEVAL.value)
    assert retrieval.text(genai.RETRIEVAL_QUERY) == "shoes"
    assert retrieval.text(genai.RETRIEVAL_DOCUMENTS) == '[{"id": "chunk-1", "score": 0.75, "content": "about shoes"}]'
