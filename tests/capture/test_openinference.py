"""OpenInference's own words for a program's context and for what is hidden decide here, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from capture_provider import Provider
from openinference.instrumentation import (
    TraceConfig,
    suppress_tracing,
    using_attributes,
    using_metadata,
    using_prompt_template,
    using_session,
    using_tags,
    using_user,
)

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas import genai
from freezeframe_schemas.gaps import GapKind, span_gaps
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import SpanRecord

pytestmark = pytest.mark.long  # imports OpenInference, which imports pydantic if that is installed

QUESTION, ANSWER = "Where is AC-1?", "It left on Monday."
CHAT: Any = {"model": "gpt-4o", "messages": [{"role": "user", "content": QUESTION}]}


def ask(url: str) -> Any:
    return httpx2.post(f"{url}/v1/chat/completions", json=CHAT).json()


@pytest.mark.parametrize(
    ("around", "expected"),
    [
        (using_session("s-1"), {genai.SESSION_ID: "s-1", genai.CONVERSATION_ID: "s-1"}),
        (using_user("ada"), {genai.USER_ID: "ada"}),
        (using_metadata({"tier": 2}), {"metadata": '{"tier": 2}'}),
        (using_tags(["beta", "eu"]), {"tag.tags": ("beta", "eu")}),
        (
            using_prompt_template(template="Where is {sku}?", version="7", variables={"sku": "AC-1"}),
            {
                "llm.prompt_template.template": "Where is {sku}?",
                "llm.prompt_template.version": "7",
                "llm.prompt_template.variables": '{"sku": "AC-1"}',
                genai.PROMPT_VERSION: "7",
            },
        ),
        (using_attributes(session_id="s-2", user_id="bo"), {genai.SESSION_ID: "s-2", genai.USER_ID: "bo"}),
    ],
    ids=["session", "user", "metadata", "tags", "prompt", "several"],
)
def test_what_a_context_manager_says_is_on_the_run_and_its_calls(
    around: Any, expected: dict[str, Any], provider: Provider
) -> None:
    with capture() as captured:
        with around:
            freezeframe.run(ask)(provider.url)
        spans = captured.spans
    assert len(spans) == 2
    for span in spans:
        assert {name: span.attributes.get(name) for name in expected} == expected


def test_what_the_run_says_of_itself_wins_over_the_context_around_it(provider: Provider) -> None:
    with capture() as captured:
        with using_session("theirs"):
            freezeframe.run(session="ours")(ask)(provider.url)
        assert {span.text(genai.SESSION_ID) for span in captured.spans} == {"ours"}


def test_inside_suppress_tracing_neither_runs_nor_calls_nor_tools_are_recorded(provider: Provider) -> None:
    @freezeframe.tool
    def shop(sku: str) -> str:
        return sku

    @freezeframe.run
    def answer() -> None:
        ask(provider.url)
        shop("AC-1")

    with capture() as captured:
        with suppress_tracing():
            answer()
        assert captured.spans == []
        answer()
        assert len(captured.spans) == 3


def hidden_run(provider: Provider, config: TraceConfig) -> tuple[list[SpanRecord], set[GapKind]]:
    """Return the spans of a run with a call of each kind, and the kinds of their gaps."""

    @freezeframe.tool
    def shop(sku: str) -> str:
        return f"price of {sku}"

    @freezeframe.retriever
    def search(query: str) -> list[dict[str, str]]:
        return [{"id": "d1", "content": f"about {query}"}]

    @freezeframe.run
    def answer(question: str) -> str:
        ask(provider.url)
        embedding: Any = {"model": "text-embedding-3-small", "input": "embedded"}
        httpx2.post(f"{provider.url}/v1/embeddings", json=embedding)
        shop("SKU-argument")
        search("QUERY-argument")
        return f"output of {question}"

    with capture(trace_config=config) as captured:
        answer("INPUT-argument")
        return captured.spans, {gap.kind for span in captured.spans for gap in span_gaps(span)}


@pytest.mark.parametrize(
    ("config", "gone", "kept", "gaps"),
    [
        (
            {"hide_inputs": True},
            [QUESTION, "embedded", 'INPUT-argument"]', 'SKU-argument"]', 'QUERY-argument"]'],
            ["price of", "about", "output of"],
            {GapKind.REQUEST_OMITTED, GapKind.INPUT_OPAQUE},
        ),
        (
            {"hide_outputs": True},
            ["price of", "about", "output of"],
            [QUESTION, "embedded", "SKU-argument"],
            {GapKind.RESPONSE_OMITTED, GapKind.OUTCOME_PARTLY},
        ),
        ({"hide_input_messages": True}, [QUESTION], ["embedded", "SKU-argument", "price of"], {GapKind.REQUEST_OMITTED}),
        ({"hide_input_text": True}, [QUESTION], ["embedded", "SKU-argument"], {GapKind.REQUEST_OMITTED}),
        ({"hide_embeddings_text": True}, ["embedded"], [QUESTION, "SKU-argument"], {GapKind.REQUEST_OMITTED}),
        ({"hide_retrieval_documents": True}, ["about"], [QUESTION, "price of"], {GapKind.RESPONSE_OMITTED}),
        ({"hide_llm_tools": True}, [], ["SKU-argument", "price of"], {GapKind.REQUEST_OMITTED}),
        ({}, [], [QUESTION, "embedded", "SKU-argument", "about", "output of"], set()),
    ],
    ids="inputs outputs input_messages input_text embeddings_text documents tools nothing".split(),
)
def test_what_a_trace_config_hides_is_nowhere_in_the_spans_and_is_a_named_gap(
    config: dict[str, Any], gone: list[str], kept: list[str], gaps: set[GapKind], provider: Provider
) -> None:
    spans, found = hidden_run(provider, TraceConfig(**config))
    text = repr([(span.attributes, span.events, span.status_message) for span in spans])
    assert [word for word in gone if word in text] == []
    assert [word for word in kept if word not in text] == []
    hiding = {GapKind.REQUEST_OMITTED, GapKind.RESPONSE_OMITTED, GapKind.INPUT_OPAQUE, GapKind.OUTCOME_PARTLY}
    assert found & hiding == gaps
    assert len(build_run(spans).exchanges) == 4


PROGRAM = """
import sys, freezeframe
freezeframe.instrument()
import httpx2
messages = [{"role": "user", "content": sys.argv[2]}]
httpx2.post(sys.argv[1] + "/v1/chat/completions", json={"model": "gpt-4o", "messages": messages})
"""


def test_the_variables_hide_without_a_line_of_code(provider: Provider, tmp_path: Path) -> None:
    script, file = tmp_path / "agent.py", tmp_path / "spans.jsonl"
    script.write_text(PROGRAM)
    environment = {**os.environ, "FREEZEFRAME_FILE": str(file), "OPENINFERENCE_HIDE_INPUTS": "true"}
    subprocess.run([sys.executable, script, provider.url, QUESTION], env=environment, check=True, timeout=400)
    assert QUESTION not in file.read_text()
    spans = [span for line in file.read_text().splitlines() for span in spans_from_otlp_json(json.loads(line))]
    assert [span.text(genai.REQUEST_MODEL) for span in spans if genai.EXCHANGE_KIND in span.attributes] == ["gpt-4o"]


def test_a_call_names_the_agent_around_it_and_no_other(provider: Provider) -> None:
    """The innermost span that stands for an agent, by OpenInference's names or the conventions', else the run if it is one."""
    inside: dict[str, dict[str, str]] = {
        "crew": {"openinference.span.kind": "AGENT", "graph.node.id": "writer"},
        "triage": {"openinference.span.kind": "AGENT"},
        "invoke_agent a": {genai.OPERATION_NAME: genai.OP_INVOKE_AGENT, genai.AGENT_NAME: "conventional"},
        "chain": {"openinference.span.kind": "CHAIN", "graph.node.id": "node"},
    }

    @freezeframe.run(agent=True)
    def outer() -> None:
        tracer = captured.provider.get_tracer("theirs")
        for name, attributes in inside.items():
            with tracer.start_as_current_span(name, attributes=attributes), tracer.start_as_current_span("step"):
                ask(provider.url)

    with capture() as captured:
        outer()
        freezeframe.run(ask)(provider.url)
        agents = [span.text(genai.AGENT_NAME) for span in captured.spans if genai.EXCHANGE_KIND in span.attributes]
    assert agents == ["writer", "triage", "conventional", "outer", None]


INSTRUMENTOR = """
from opentelemetry import trace

class Instrumentor:
    is_instrumented_by_opentelemetry = False
    only = None
    def __new__(cls):
        cls.only = cls.only or super().__new__(cls)
        return cls.only
    def instrument(self, *, tracer_provider, **options):
        import agno
        tracer, run = tracer_provider.get_tracer("theirs"), agno.run
        def traced(function):
            with tracer.start_as_current_span("shopper", attributes={"openinference.span.kind": "AGENT"}):
                return run(function)
        agno.run = traced
"""
AGENT = """
import sys, freezeframe
freezeframe.instrument()
if "own" in sys.argv:
    from opentelemetry.sdk.trace import TracerProvider
    import theirs
    theirs.Instrumentor().instrument(tracer_provider=TracerProvider())
import agno, httpx2

@freezeframe.run
def main() -> int:
    url, question = sys.argv[1] + "/v1/chat/completions", {"model": "gpt-4o", "messages": []}
    return agno.run(lambda: httpx2.post(url, json=question).status_code)

print(main())
"""


@pytest.mark.parametrize(
    ("switch", "given", "expected", "ours"),
    [("true", "", "shopper", 1), ("false", "", None, 0), ("true", "own", "shopper", 0)],
    ids=["on", "off", "program"],
)
def test_the_instrumentor_of_a_framework_is_started_on_its_import_unless_that_is_off_or_the_program_starts_it(
    switch: str, given: str, expected: str | None, ours: int, provider: Provider, tmp_path: Path, warm_server: str
) -> None:
    """One that the program starts, here while it imports the framework, keeps the provider that the program gave it."""
    (tmp_path / "agno.py").write_text("def run(function):\n    return function()\n")
    (tmp_path / "theirs.py").write_text(INSTRUMENTOR)
    metadata = tmp_path / "theirs-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[openinference_instrumentor]\nagno = theirs:Instrumentor\n")
    script, file = tmp_path / "agent.py", tmp_path / "spans.jsonl"
    script.write_text(AGENT)
    environment = {**os.environ, "FREEZEFRAME_FILE": str(file), "FREEZEFRAME_STRUCTURE": switch, "PYTHONPATH": str(tmp_path)}
    subprocess.run([warm_server, script, provider.url, given], env=environment, check=True, timeout=400)
    spans = [span for line in file.read_text().splitlines() for span in spans_from_otlp_json(json.loads(line))]
    (call,) = [span for span in spans if genai.EXCHANGE_KIND in span.attributes]
    assert call.text(genai.AGENT_NAME) == expected
    assert [span.span_id for span in spans if span.name == "shopper"] == [call.parent_span_id] * ours
