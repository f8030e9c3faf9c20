"""LangChain and LangGraph: tools at ``BaseTool.run``/``arun``, retrievers at ``BaseRetriever.invoke``/``ainvoke``, and the
searches of each vector store's own class (these know the scores, which a retriever drops).

Model calls are recorded where they cross the wire, not here. Arguments that a framework injects (graph state, runtime, store)
are left out: they are not what the model asked for, and hold objects that are different in each process.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any, Final

from freezeframe.seams import calls
from freezeframe.seams.patching import Patches
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Kind

SEAM: Final = "langchain"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``langchain_core.tools.base``, ``langchain_core.retrievers`` or ``langchain_core.vectorstores.base``."""
    if hasattr(module, "BaseTool"):
        patches.replace(module.BaseTool, "run", partial(calls.wrap_method, describe=_describe_tool))
        patches.replace(module.BaseTool, "arun", partial(calls.wrap_async_method, describe=_describe_tool))
    if hasattr(module, "BaseRetriever"):
        patches.replace(module.BaseRetriever, "invoke", partial(calls.wrap_method, describe=_describe_retriever))
        patches.replace(module.BaseRetriever, "ainvoke", partial(calls.wrap_async_method, describe=_describe_retriever))
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
            if name in vars(store):
                patches.replace(store, name, partial(calls.wrap_method, describe=_describe_search))
            if f"a{name}" in vars(store):
                patches.replace(store, f"a{name}", partial(calls.wrap_async_method, describe=_describe_search))

    patches.in_subclasses(base, patch)


def _describe_search(store: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> calls.FunctionCall:
    given: Any = args[0] if args else kwargs.get("query", kwargs.get("embedding"))
    extra = {name: value for name, value in kwargs.items() if name not in ("query", "embedding")}
    body = values.encode({"args": list(args[1:]), "kwargs": {"query": given, **extra}})
    return calls.FunctionCall(kind=Kind.RETRIEVAL, name=type(store).__name__, seam=SEAM, body=body)


def _describe_tool(tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> calls.FunctionCall:
    given: Any = args[0] if args else kwargs.get("tool_input")
    if isinstance(given, dict):
        body = values.encode({"args": [], "kwargs": _without_injected(tool, given)})
    else:
        body = values.encode({"args": [given], "kwargs": {}})
    call_id = kwargs.get("tool_call_id")
    return calls.FunctionCall(
        kind=Kind.TOOL, name=str(tool.name), seam=SEAM, body=body, call_id=call_id if isinstance(call_id, str) else None
    )


def _without_injected(tool: Any, given: dict[str, Any]) -> dict[str, Any]:
    injected: Any = getattr(tool, "_injected_args_keys", frozenset())
    filtered: Any = getattr(tool, "_filter_injected_args", None)
    kept: Any = filtered(given) if callable(filtered) else given
    return {name: value for name, value in kept.items() if name not in injected}


def _describe_retriever(retriever: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> calls.FunctionCall:
    query: Any = args[0] if args else kwargs.get("input")
    extra = {name: value for name, value in kwargs.items() if name not in ("input", "config")}
    name = retriever.name if isinstance(getattr(retriever, "name", None), str) else type(retriever).__name__
    return calls.FunctionCall(
        kind=Kind.RETRIEVAL, name=name, seam=SEAM, body=values.encode({"args": [], "kwargs": {"input": query, **extra}})
    )
