"""LangChain and LangGraph: tools at ``BaseTool.run``/``arun``, retrievers at ``BaseRetriever.invoke``/``ainvoke``, and the
searches of each vector store's class (these know the scores, which a retriever drops).

Model calls are recorded at the HTTP seam, not here. Arguments that a framework injects (graph state, runtime, store)
are left out: the model did not ask for them, and they hold objects that differ in each process.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.seams.functions import calls
from freezeframe.seams.functions.settings import settings_of
from freezeframe.seams.recorder.patching import Patches
from freezeframe_schemas.exchange import Kind

SEAM: Final = "langchain"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``langchain_core.tools.base``, ``langchain_core.retrievers`` or ``langchain_core.vectorstores.base``."""
    if hasattr(module, "BaseTool"):
        calls.watch_both(patches, module.BaseTool, "run", _describe_tool)
    if hasattr(module, "BaseRetriever"):
        calls.watch_both(patches, module.BaseRetriever, "invoke", _describe_retriever)
    if hasattr(module, "VectorStore"):
        _install_stores(module.VectorStore, patches)


_SEARCHES: Final = (
    "similarity_search",
    "similarity_search_with_score",
    "similarity_search_by_vector",
    "max_marginal_relevance_search",
)


def _install_stores(base: Any, patches: Patches) -> None:
    """Patch the searches that each store defines."""

    def patch(store: Any) -> None:
        for name in _SEARCHES:
            calls.watch_both(patches, store, name, _describe_search)

    patches.in_subclasses(base, patch)


def _describe_search(store: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> calls.FunctionCall:
    query: Any = args[0] if args else kwargs.get("query", kwargs.get("embedding"))
    extra = {name: value for name, value in kwargs.items() if name not in ("query", "embedding")}
    named = {"query": query, **extra}
    return calls.FunctionCall.of(Kind.RETRIEVAL, SEAM, type(store).__name__, *args[1:], kwargs=named)


def _describe_tool(tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> calls.FunctionCall:
    tool_input: Any = args[0] if args else kwargs.get("tool_input")
    named = _without_injected(tool, tool_input) if isinstance(tool_input, dict) else None
    unnamed = (tool_input,) if named is None else ()
    call_id, settings = kwargs.get("tool_call_id"), _settings(tool, "langchain_core.tools.base", "BaseTool")
    call = calls.FunctionCall.of(Kind.TOOL, SEAM, tool.name, *unnamed, kwargs=named or {}, call_id=call_id, settings=settings)
    hidden: Any = [] if named is None else [value for name, value in tool_input.items() if name not in named]
    state = next((getattr(value, "state", value) for value in hidden), None)
    return call.by(tool, "func", "coroutine", "_run", "_arun", context=state)


def _without_injected(tool: Any, given: dict[str, Any]) -> dict[str, Any]:
    injected: Any = getattr(tool, "_injected_args_keys", frozenset())
    filtered: Any = getattr(tool, "_filter_injected_args", None)
    kept: Any = filtered(given) if callable(filtered) else given
    return {name: value for name, value in kept.items() if name not in injected}


def _describe_retriever(retriever: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> calls.FunctionCall:
    query: Any = args[0] if args else kwargs.get("input")
    extra = {name: value for name, value in kwargs.items() if name not in ("input", "config")}
    name = retriever.name if isinstance(getattr(retriever, "name", None), str) else type(retriever).__name__
    settings = _settings(retriever, "langchain_core.retrievers", "BaseRetriever")
    call = calls.FunctionCall.of(Kind.RETRIEVAL, SEAM, name, kwargs={"input": query, **extra}, settings=settings)
    return call.by(retriever, "_get_relevant_documents", "_aget_relevant_documents")


def _settings(tool: Any, module: str, base: str) -> dict[str, Any]:
    with guard("langchain.settings"):
        return settings_of(tool, getattr(sys.modules[module], base))
    return {}
