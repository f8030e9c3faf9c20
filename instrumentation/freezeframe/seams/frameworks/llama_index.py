"""LlamaIndex: tools at ``call``/``acall``, retrievers at ``retrieve``/``aretrieve``."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.seams.functions import calls
from freezeframe.seams.functions.settings import settings_of
from freezeframe.seams.recorder.patching import Patches
from freezeframe_schemas.exchange import Kind

SEAM: Final = "llama_index"

_TOOLS: Final = ("FunctionTool", "QueryEngineTool", "RetrieverTool")


def install(module: ModuleType, patches: Patches) -> None:
    """Patch a module of ``llama_index.core``: a module of tools, or the base of retrievers."""
    for name in _TOOLS:
        tool: Any = vars(module).get(name)
        if tool is not None and tool.__module__ == module.__name__:
            calls.watch_both(patches, tool, "call", _describe_tool)
    if module.__name__.endswith("base_retriever"):
        calls.watch_both(patches, module.BaseRetriever, "retrieve", _describe_retriever)


def _describe_tool(tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> calls.FunctionCall:
    injected = getattr(tool, "ctx_param_name", None)
    named = {name: value for name, value in kwargs.items() if name != injected}
    settings: dict[str, Any] = {}
    with guard("llama_index.settings"):
        settings = settings_of(tool, object)
    call = calls.FunctionCall.of(Kind.TOOL, SEAM, tool.metadata.name, *args, kwargs=named, settings=settings)
    return call.by(tool, "_real_fn", "_fn", "_async_fn")


def _describe_retriever(retriever: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> calls.FunctionCall:
    query: Any = args[0] if args else kwargs.get("str_or_query_bundle")
    text = query if isinstance(query, str) else getattr(query, "query_str", query)
    settings: dict[str, Any] = {}
    with guard("llama_index.settings"):
        settings = settings_of(retriever, sys.modules["llama_index.core.base.base_retriever"].BaseRetriever)
    call = calls.FunctionCall.of(Kind.RETRIEVAL, SEAM, type(retriever).__name__, kwargs={"query": text}, settings=settings)
    return call.by(retriever, "_retrieve", "_aretrieve")
