"""The structure of runs (agents, chains, graph nodes, handoffs) from the OpenInference instrumentors that are installed.

They are started when their framework is imported, unless the program starts them itself. Their spans give names
and nesting; they record no content, which is in our exchanges. A replay starts none of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from freezeframe._guard import guard
from freezeframe.seams.recorder.patching import IMPORT_HOOK

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from freezeframe.context.structure import AgentStructure

_GROUP: Final = "openinference_instrumentor"
_FRAMEWORKS: Final = {
    "langchain": "langchain_core",
    "openai_agents": "agents",
    "crewai": "crewai",
    "llama_index": "llama_index.core",
    "agno": "agno",
    "autogen_agentchat": "autogen_agentchat",
    "beeai": "beeai_framework",
    "dspy": "dspy",
    "google_adk": "google.adk",
    "haystack": "haystack",
    "smolagents": "smolagents",
}
"""Instrumentor -> the module whose import starts it. Those of model clients are left out: each call is an exchange already."""


def follow(structure: AgentStructure, provider: Any) -> Callable[[], None]:
    """Start each instrumentor when the program imports its framework; return a function that stops those started here."""
    started: list[Any] = []
    for name, module in _FRAMEWORKS.items():
        IMPORT_HOOK.when_imported(module, lambda _, name=name: _start_installed(name, structure, provider, started))
    return partial(_stop, structure, started)


def _start_installed(name: str, structure: AgentStructure, provider: Any, started: list[Any]) -> None:
    """Start the instrumentor of that name, if one is installed: only a program with a framework pays for the search."""
    from importlib.metadata import entry_points

    for point in entry_points(group=_GROUP, name=name):
        _start(point, structure, provider, started)


def _start(point: EntryPoint, structure: AgentStructure, provider: Any, started: list[Any]) -> None:
    with guard(f"structure.{point.name}"):
        from openinference.instrumentation import TraceConfig

        instrumentor = point.load()()
        if point.name == "langchain":
            structure.around.append(partial(_in_langchain, instrumentor))
        if instrumentor.is_instrumented_by_opentelemetry or _is_starting(instrumentor):
            return
        config = TraceConfig(hide_inputs=True, hide_outputs=True, hide_llm_tools=True, hide_llm_invocation_parameters=True)
        # By default, that of openai-agents takes OpenAI's own exporter away.
        instrumentor.instrument(tracer_provider=provider, config=config, exclusive_processor=False)
        started.append(instrumentor)


def _is_starting(instrumentor: Any) -> bool:
    """Return whether the program itself is starting it, which may be the reason for the framework's import."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_locals.get("self") is instrumentor:
            return True
        frame = frame.f_back
    return False


def _stop(structure: AgentStructure, started: list[Any]) -> None:
    structure.around.clear()
    for instrumentor in started:
        with guard("structure.stop"):
            instrumentor.uninstrument()


def _in_langchain(instrumentor: Any) -> tuple[Any, str] | None:
    """Return the span of the innermost LangChain run: its instrumentor keeps spans apart from the OTel context."""
    if not instrumentor.is_instrumented_by_opentelemetry:
        return None
    from langchain_core.runnables.config import var_child_runnable_config

    span = sys.modules["openinference.instrumentation.langchain"].get_current_span()
    if span is None:
        return None
    config: Any = var_child_runnable_config.get()
    return span, _agent_of((config or {}).get("metadata") or {})


def _agent_of(metadata: dict[str, Any]) -> str:
    """Return the agent of a LangGraph step: the named one, else the node that runs the innermost graph, else the node."""
    if isinstance(named := metadata.get("lc_agent_name"), str):
        return named
    nodes = [part.partition(":")[0] for part in str(metadata.get("langgraph_checkpoint_ns") or "").split("|")]
    return nodes[-2] if len(nodes) > 1 else nodes[0]
