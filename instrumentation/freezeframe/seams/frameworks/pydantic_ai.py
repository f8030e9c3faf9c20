"""pydantic-ai: tools of every toolset, with their validated arguments, as the tool manager executes them."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

from freezeframe._guard import log_once
from freezeframe.seams.functions import calls
from freezeframe.seams.recorder.patching import Patches
from freezeframe_schemas.exchange import Kind

SEAM: Final = "pydantic_ai"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``pydantic_ai.tool_manager``; in older versions ``pydantic_ai._tool_manager``."""
    if not hasattr(module.ToolManager, "_raw_execute"):
        log_once("pydantic_ai", "freezeframe: this pydantic-ai has no ToolManager._raw_execute: its tools are not captured")
        return
    calls.watch_async(patches, module.ToolManager, "_raw_execute", _describe)


def _describe(manager: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> calls.FunctionCall:
    del manager
    validated: Any = args[0] if args else kwargs["validated"]
    call = validated.call
    call_id = str(call.tool_call_id) if call.tool_call_id else None
    tool = validated.tool
    while hasattr(tool, "source_tool"):  # of several toolsets together
        tool = tool.source_tool
    schema: Any = getattr(getattr(tool, "call_func", None), "__self__", None)
    call_of_tool = calls.FunctionCall.of(Kind.TOOL, SEAM, call.tool_name, kwargs=validated.validated_args, call_id=call_id)
    return call_of_tool.by(schema, "function", context=getattr(validated.ctx, "deps", None))
