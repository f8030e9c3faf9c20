"""pydantic-ai: an agent's tool loop, recorded and run again. Needs pydantic-ai-slim[openai]."""

from __future__ import annotations

from typing import Any

import pytest
from capture_provider import Provider
from capture_replay import replaying

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.run import build_run

pytestmark = pytest.mark.long  # imports the framework

pydantic_ai: Any = pytest.importorskip("pydantic_ai")
openai_models: Any = pytest.importorskip("pydantic_ai.models.openai")
openai_providers: Any = pytest.importorskip("pydantic_ai.providers.openai")


@pytest.mark.proof("seam frameworks.pydantic_ai")
async def test_an_agent_runs_again_from_its_recording(provider: Provider) -> None:
    from openai import AsyncOpenAI

    calls: list[str] = []

    @freezeframe.run
    async def run() -> Any:
        async with AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="x", max_retries=0) as client:
            model = openai_models.OpenAIChatModel("gpt-4o", provider=openai_providers.OpenAIProvider(openai_client=client))
            agent = pydantic_ai.Agent(model, instructions="Help.")

            def get_order(order_id: str) -> dict[str, Any]:
                """Look an order up."""
                calls.append(order_id)
                return {"id": order_id, "n": len(calls)}

            agent.tool_plain(get_order)
            result = await agent.run("Where is AC-1?")
            return [result.output, len(result.all_messages())]

    with capture() as captured:
        first = await run()
        recorded_run = build_run(captured.spans)
    provider.stop()
    with replaying(recorded_run.exchanges) as recorded:
        second = await run()
    assert first == second
    assert calls == ["AC-1"]
    assert recorded.left == []
    [tool] = [exchange for exchange in recorded_run.exchanges if exchange.kind is Kind.TOOL]
    assert (tool.name, tool.call_id) == ("get_order", "call_of_1")
    assert values.decode(tool.request.body.decode()) == {"args": [], "kwargs": {"order_id": "AC-1"}}
