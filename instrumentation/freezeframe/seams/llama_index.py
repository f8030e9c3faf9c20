"""LlamaIndex: tools at ``call``/``acall``, retrievers at ``retrieve``/``aretrieve``."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any, Final

from freezeframe.seams import calls
from freezeframe.seams.patching import Patches
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Kind

SEAM: Final = "llama_index"

_TOOLS: Final = ("FunctionTool", "QueryEngineTool", "RetrieverTool")


def install(module: ModuleType, patches: Patches) -> None:
    """Patch a module of ``llama_index.core``: one of its tools', or its retrievers' base."""
    for name in _TOOLS:
        tool: Any = vars(module).get(name)
        if tool is not None and tool.__module__ == module.__name__:
            patches.replace(tool, "call", partial(calls.wrap_method, describe=_describe_tool))
            patches.replace(tool, "acall", partial(calls.wrap_async_method, describe=_describe_tool))
    if module.__name__.endswith("base_retriever"):
        patches.replace(module.BaseRetriever, "retrieve", partial(calls.wrap_method, describe=_describe_retriever))
        patches.replace(module.BaseRetriever, "aretrieve", partial(calls.wrap_async_method, describe=_describe_retriever))


def _describe_tool(tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> calls.FunctionCall:
    injected = getattr(tool, "ctx_param_name", None)
    named = {name: value for name, value in kwargs.items() if name != injected}
    body = values.encode({"args": list(args), "kwargs": named})
    return calls.FunctionCall(kind=Kind.TOOL, name=str(tool.metadata.name), seam=SEAM, body=body)


def _describe_retriever(retriever: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> calls.FunctionCall:
    query: Any = args[0] if args else kwargs.get("str_or_query_bundle")
    text = query if isinstance(query, str) else getattr(query, "query_str", query)
    body = values.encode({"args": [], "kwargs": {"query": text}})
    return calls.FunctionCall(kind=Kind.RETRIEVAL, name=type(retriever).__name__, seam=SEAM, body=body)
