"""Senders of spans, as data: which agent each watches, what it is installed from, and how it is switched on.

python -m senders.table environments          the names of the environments that `make test-senders` makes
python -m senders.table requirements NAME     what one installs

An agent is a function of `clients.libraries`, or of `senders.agents`: it asks a question, calls the one tool that the
model asks for, and returns the answer.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """One combination of a sender and what it watches."""

    environment: str
    agent: str
    """``module:function``."""
    start: str
    """A function of `senders.starting`, or an instrumentor of OpenTelemetry's kind as ``module:class``."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def distribution(self) -> str:
        """Return what is installed: functions and modules are named like it."""
        return self.start.partition(":")[0].replace(".", "-").replace("_", "-")


OTLP: Final = "opentelemetry-exporter-otlp-proto-http"
_SDKS: Final = ("openai", "anthropic", "langgraph", "langchain", "langchain-openai", "openai-agents", OTLP)
_FRAMEWORKS: Final = ("agno", "haystack-ai<3", "dspy", "litellm", "openai", OTLP)


def _all(prefix: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{prefix}-{name}" for name in names)


REQUIREMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "openinference": (
        *(*_SDKS, "smolagents[openai]"),
        *_all("openinference-instrumentation", "openai", "anthropic", "langchain", "openai-agents", "smolagents"),
    ),
    "llama-index": (
        *("llama-index-core", "llama-index-llms-openai", "openinference-instrumentation-llama-index", OTLP),
        "opentelemetry-instrumentation-genai-llama-index",
    ),
    "openinference-frameworks": (
        *_FRAMEWORKS,
        *_all("openinference-instrumentation", "agno", "haystack", "dspy", "litellm"),
    ),
    "openinference-crewai": ("crewai", "openinference-instrumentation-crewai", "openinference-instrumentation-openai", OTLP),
    "opentelemetry": (
        *_SDKS,
        *("smolagents[openai]", "agno", "dspy"),
        *_all(
            "opentelemetry-instrumentation-genai",
            *("openai", "anthropic", "langchain", "openai-agents", "dspy", "smolagents", "agno"),
        ),
    ),
    "opentelemetry-v2": ("openai", "httpx", "opentelemetry-instrumentation-openai-v2", "opentelemetry-util-genai==0.4b0", OTLP),
    "openllmetry": (
        *_SDKS,
        *_all("opentelemetry-instrumentation", "openai", "anthropic", "langchain", "openai-agents", "agno", "haystack"),
        *("traceloop-sdk", "agno", "haystack-ai<3"),
    ),
    "langfuse": ("langfuse", "openai", "langgraph", "langchain", "langchain-openai", OTLP),
    "logfire": ("logfire", "openai", "anthropic", "openai-agents", OTLP),
    "langsmith": ("langsmith[otel]", "openai", "langgraph", "langchain-openai", OTLP),
    "native": ("pydantic-ai-slim[openai]", "semantic-kernel", "anthropic", OTLP),
    "strands": ("strands-agents[openai]>=1", OTLP),
    "mlflow": ("mlflow", "openai", "anthropic", "langgraph", "langchain-openai", OTLP),
    "openlit": ("openlit", "openai", "anthropic", OTLP),
}
_CONTENT: Final[Mapping[str, str]] = {
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
    "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
}
"""Settings that make OpenTelemetry's own instrumentations put the conversation on their spans."""
_ANTHROPIC: Final[Mapping[str, str]] = {"ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE": "content"}
_LANGSMITH: Final[Mapping[str, str]] = {
    "LANGSMITH_OTEL_ENABLED": "true",
    "LANGSMITH_OTEL_ONLY": "true",
    "LANGSMITH_TRACING": "true",
}
_MLFLOW: Final[Mapping[str, str]] = {
    "MLFLOW_ENABLE_OTLP_EXPORTER": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
}
_LIBRARIES: Final = "clients.libraries"
_AGENTS: Final[Mapping[str, str]] = {
    "openai": f"{_LIBRARIES}.openai:use_tools",
    "openai, streamed": "senders.agents:chat_streamed",
    "openai responses": "senders.agents:responses",
    "openai responses, streamed": "senders.agents:responses_streamed",
    "anthropic": f"{_LIBRARIES}.anthropic:use_tools",
    "anthropic, streamed": "senders.agents:messages_streamed",
    "langgraph": f"{_LIBRARIES}.langgraph:invoke",
    "langgraph, streamed": f"{_LIBRARIES}.langgraph:stream",
    "openai-agents": "senders.agents:openai_agents",
    "llama-index": f"{_LIBRARIES}.llama_index:use_tools",
    "smolagents": f"{_LIBRARIES}.smolagents:use_tools",
    "crewai": f"{_LIBRARIES}.crewai:kickoff",
    "agno": f"{_LIBRARIES}.agno:run",
    "haystack": f"{_LIBRARIES}.haystack:run",
    "dspy": "senders.agents:dspy_native",
    "litellm": f"{_LIBRARIES}.litellm:use_tools",
    "pydantic-ai": f"{_LIBRARIES}.pydantic_ai:run_sync",
    "strands": f"{_LIBRARIES}.strands:ask",
    "semantic-kernel": f"{_LIBRARIES}.semantic_kernel:ask",
    "ag2": f"{_LIBRARIES}.ag2:ask",
    "autogen": f"{_LIBRARIES}.autogen:run",
}


def _rows(
    sender: str, environment: str, agents: Mapping[str, str], variables: Mapping[str, str] | None = None
) -> dict[str, Sender]:
    """Return the rows of one sender: watched agent -> how it is switched on."""
    return {
        f"{sender}: {agent}": Sender(environment=environment, agent=_AGENTS[agent], start=start, variables=variables or {})
        for agent, start in agents.items()
    }


def _four(start: str) -> dict[str, str]:
    """Return the ways to ask of the openai SDK, all switched on alike."""
    return {name: start for name in _AGENTS if name.startswith("openai") and name != "openai-agents"}


def _two(start: str) -> dict[str, str]:
    return {"anthropic": start, "anthropic, streamed": start}


_OI: Final = "openinference.instrumentation"
_OTEL: Final = "opentelemetry.instrumentation"
SENDERS: Final[Mapping[str, Sender]] = {
    **_rows(
        "OpenInference",
        "openinference",
        {
            **_four(f"{_OI}.openai:OpenAIInstrumentor"),
            **_two(f"{_OI}.anthropic:AnthropicInstrumentor"),
            "langgraph": f"{_OI}.langchain:LangChainInstrumentor",
            "langgraph, streamed": f"{_OI}.langchain:LangChainInstrumentor",
            "openai-agents": f"{_OI}.openai_agents:OpenAIAgentsInstrumentor",
            "smolagents": f"{_OI}.smolagents:SmolagentsInstrumentor",
        },
    ),
    **_rows("OpenInference", "llama-index", {"llama-index": f"{_OI}.llama_index:LlamaIndexInstrumentor"}),
    **_rows("OpenInference", "openinference-crewai", {"crewai": f"{_OI}.crewai:CrewAIInstrumentor"}),
    **_rows(
        "OpenInference",
        "openinference-frameworks",
        {
            "agno": f"{_OI}.agno:AgnoInstrumentor",
            "haystack": f"{_OI}.haystack:HaystackInstrumentor",
            "dspy": f"{_OI}.dspy:DSPyInstrumentor",
            "litellm": f"{_OI}.litellm:LiteLLMInstrumentor",
        },
    ),
    **_rows(
        "OpenTelemetry GenAI",
        "opentelemetry",
        {
            **_four(f"{_OTEL}.genai.openai:OpenAIInstrumentor"),
            **_two(f"{_OTEL}.genai.anthropic:AnthropicInstrumentor"),
            "langgraph": f"{_OTEL}.genai.langchain:LangChainInstrumentor",
            "openai-agents": f"{_OTEL}.genai.openai_agents:OpenAIAgentsInstrumentor",
            "smolagents": f"{_OTEL}.genai.smolagents:SmolagentsInstrumentor",
            "agno": f"{_OTEL}.genai.agno:AgnoInstrumentor",
            "dspy": f"{_OTEL}.genai.dspy:DSPyInstrumentor",
        },
        _CONTENT,
    ),
    **_rows(
        "OpenTelemetry GenAI",
        "llama-index",
        {"llama-index": f"{_OTEL}.genai.llama_index:LlamaIndexInstrumentor"},
        _CONTENT,
    ),
    **_rows(
        "OpenTelemetry openai-v2",
        "opentelemetry-v2",
        dict.fromkeys(("openai", "openai, streamed"), f"{_OTEL}.openai_v2:OpenAIInstrumentor"),
        _CONTENT,
    ),
    **_rows(
        "OpenTelemetry openai-v2, events",
        "opentelemetry-v2",
        dict.fromkeys(("openai", "openai, streamed"), f"{_OTEL}.openai_v2:OpenAIInstrumentor"),
        {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"},
    ),
    **_rows(
        "OpenLLMetry",
        "openllmetry",
        {
            **_four(f"{_OTEL}.openai:OpenAIInstrumentor"),
            **_two(f"{_OTEL}.anthropic:AnthropicInstrumentor"),
            "langgraph": f"{_OTEL}.langchain:LangchainInstrumentor",
            "openai-agents": f"{_OTEL}.openai_agents:OpenAIAgentsInstrumentor",
            "agno": f"{_OTEL}.agno:AgnoInstrumentor",
            "haystack": f"{_OTEL}.haystack:HaystackInstrumentor",
        },
    ),
    **_rows("Traceloop SDK", "openllmetry", {"openai": "traceloop_sdk"}),
    **_rows(
        "Langfuse SDK",
        "langfuse",
        {"openai": "langfuse", "openai, streamed": "langfuse", "openai responses": "langfuse"},
    ),
    **_rows("Logfire", "logfire", {**_four("logfire"), **_two("logfire"), "openai-agents": "logfire"}),
    **_rows("LangSmith", "langsmith", {"langgraph": "langsmith", "openai": "langsmith"}, _LANGSMITH),
    **_rows("its own spans", "openinference-frameworks", {"litellm": "litellm"}, _CONTENT),
    **_rows("its own spans", "native", _two("anthropic"), _ANTHROPIC),
    **_rows("its own spans", "native", {"pydantic-ai": "pydantic_ai_slim"}, _CONTENT),
    **_rows("its own spans", "strands", {"strands": "strands_agents"}, _CONTENT),
    **_rows(
        "its own spans",
        "native",
        {"semantic-kernel": "semantic_kernel"},
        {"SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE": "true"},
    ),
    **_rows("MLflow", "mlflow", {"openai": "mlflow", "anthropic": "mlflow", "langgraph": "mlflow"}, _MLFLOW),
    **_rows("OpenLIT", "openlit", {"openai": "openlit", "openai, streamed": "openlit", "anthropic": "openlit"}),
}


def main(arguments: list[str]) -> int:
    """Print what `make test-senders` asks for."""
    match arguments:
        case ["environments"]:
            print(*REQUIREMENTS, sep="\n")
        case ["requirements", name] if name in REQUIREMENTS:
            print(*sorted(set(REQUIREMENTS[name])), sep="\n")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
