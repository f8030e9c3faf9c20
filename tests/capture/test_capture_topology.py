"""One exchange for each call, at its place in the tree, whatever else takes part: stacked HTTP clients, instrumentors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import httpx2
import openai
import pytest
from capture_provider import Provider
from capture_replay import replaying
from openinference.instrumentation.anthropic import AnthropicInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry import context
from opentelemetry.sdk.trace import TracerProvider

import freezeframe
from freezeframe.testing import capture
from freezeframe_replay.report.outline import outline_run
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.run import build_run

pytestmark = pytest.mark.long  # imports every other instrumentation


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """httpx over aiohttp, as LiteLLM has it."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        async with (
            aiohttp.ClientSession() as session,
            session.request(request.method, str(request.url), data=request.content, headers=dict(request.headers)) as answer,
        ):
            return httpx2.Response(answer.status, headers=dict(answer.headers), content=await answer.read())


@pytest.mark.proof
async def test_a_client_on_top_of_another_is_recorded_once_and_served_once(provider: Provider) -> None:
    @freezeframe.run
    async def ask() -> Any:
        http = httpx2.AsyncClient(transport=AiohttpTransport())
        async with openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="x", max_retries=0, http_client=http) as client:
            return (await client.chat.completions.create(model="gpt-4o", messages=[])).model_dump()

    with capture() as captured:
        first = await ask()
        exchanges = captured.exchanges
    provider.stop()
    assert [exchange.seam for exchange in exchanges] == ["httpx2"]
    with replaying(exchanges) as recorded:
        assert await ask() == first
    assert recorded.left == []


ASK: Any = {"messages": [{"role": "user", "content": "Where is AC-1?"}]}


def ask_openai(url: str) -> Any:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
    return client.chat.completions.create(model="gpt-4o", **ASK).model_dump()


def ask_anthropic(url: str) -> Any:
    client = anthropic.Anthropic(base_url=url, api_key="x", max_retries=0)
    return client.messages.create(model="claude-test", max_tokens=50, **ASK).model_dump()


@pytest.mark.proof
@pytest.mark.parametrize(("ask", "instrumentor"), [(ask_openai, OpenAIInstrumentor), (ask_anthropic, AnthropicInstrumentor)])
def test_beside_openinference_a_call_is_one_exchange_below_its_span(ask: Any, instrumentor: Any, provider: Provider) -> None:
    """Its span is the topology, freezeframe's has the bytes; what runs count and replays ask for is the exchange."""
    with capture() as captured:
        instrumentor().instrument(tracer_provider=captured.provider)
        try:
            first = freezeframe.run(ask)(provider.url)
        finally:
            instrumentor().uninstrument()
        spans, exchanges = captured.spans, captured.exchanges
    (exchange,) = exchanges
    assert exchange.kind is Kind.MODEL
    (theirs,) = [span for span in spans if span.scope.name.startswith("openinference")]
    (ours,) = [span for span in spans if genai.EXCHANGE_KIND in span.attributes]
    (run,) = [span for span in spans if genai.ENTRY_KIND in span.attributes]
    assert ours.parent_span_id == theirs.span_id
    assert theirs.parent_span_id == run.span_id
    provider.stop()
    with replaying(exchanges) as recorded:
        assert ask(provider.url) == first
    assert recorded.left == []


@pytest.mark.parametrize(("scope", "recorded"), [("logfire.openai", 1), ("shop", 0)])
def test_a_model_call_is_recorded_where_logfire_silences_the_others_and_not_where_the_user_does(
    scope: str, recorded: int, provider: Provider
) -> None:
    """logfire suppresses instrumentation inside its own span of a call; a user who does wants no trace of it."""

    def ask(url: str) -> Any:
        with captured.provider.get_tracer(scope).start_as_current_span("Chat Completion"):
            token = context.attach(context.set_value("suppress_instrumentation", True))
            try:
                return ask_openai(url)
            finally:
                context.detach(token)

    with capture() as captured:
        freezeframe.run(ask)(provider.url)
        assert len(captured.exchanges) == recorded


PROGRAM = """
import sys, freezeframe
freezeframe.instrument()
import anthropic
client = anthropic.Anthropic(base_url=sys.argv[1], api_key="x", max_retries=0)
client.messages.create(model="claude-test", max_tokens=50, messages=[{"role": "user", "content": "Where is AC-1?"}])
"""


@pytest.mark.long
def test_the_native_spans_of_an_sdk_do_not_double_its_calls(provider: Provider, tmp_path: Path) -> None:
    """anthropic makes LLM spans of its own on the process's provider, unless it is told not to."""
    script, file = tmp_path / "agent.py", tmp_path / "spans.jsonl"
    script.write_text(PROGRAM)
    environment = {**os.environ, "FREEZEFRAME_FILE": str(file)}
    subprocess.run([sys.executable, script, provider.url], env=environment, check=True, timeout=400)
    spans = [span for line in file.read_text().splitlines() for span in spans_from_otlp_json(json.loads(line))]
    calls = [span for span in spans if span.text(genai.REQUEST_MODEL) is not None]
    assert [span.scope.name for span in calls] == [genai.SCOPE]


def test_a_call_inside_a_recorded_one_is_known_as_that_whatever_spans_lie_between(provider: Provider) -> None:
    """Spans of another provider, as clients of MCP and vendors' own instrumentations make them, never reach freezeframe."""
    others = TracerProvider().get_tracer("theirs")

    @freezeframe.tool
    def price(sku: str) -> int:
        with others.start_as_current_span("theirs"):
            ask_openai(provider.url)
            return httpx2.get(f"{provider.url}/prices/{sku}").status_code

    @freezeframe.run
    def answer() -> int:
        with others.start_as_current_span("theirs"):
            return price("PS-11")

    with capture() as captured:
        answer()
        run = build_run(captured.spans)
    tool, *inner = run.exchanges
    assert [exchange.kind for exchange in run.exchanges] == [Kind.TOOL, Kind.MODEL, Kind.HTTP]
    assert run.enclosing == {exchange.span_id: tool.span_id for exchange in inner}
    assert [node.depth for node in outline_run(run).nodes if node.step] == [0, 1, 1]
    provider.stop()
    with replaying(run.exchanges[:1]) as recorded:
        answer()
    assert recorded.left == []
