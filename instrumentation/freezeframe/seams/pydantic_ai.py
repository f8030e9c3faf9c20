"""pydantic-ai: tools of every toolset, with their validated arguments, where the tool manager executes them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import say_once
from freezeframe.seams import calls
from freezeframe.seams.patching import Patches
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Kind

SEAM: Final = "pydantic_ai"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``pydantic_ai.tool_manager``; in older versions ``pydantic_ai._tool_manager``."""
    if not hasattr(module.ToolManager, "_raw_execute"):
        say_once("pydantic_ai", "freezeframe: this pydantic-ai has no ToolManager._raw_execute: its tools are not captured")
        return
    patches.replace(module.ToolManager, "_raw_execute", _wrap)


def _wrap(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def raw_execute(self: Any, validated: Any, *args: Any, **kwargs: Any) -> Any:
        if not calls.is_on():
            return await original(self, validated, *args, **kwargs)
        return await calls.run_async(
            functools.partial(_describe, validated), functools.partial(original, self, validated, *args, **kwargs)
        )

    return raw_execute


def _describe(validated: Any) -> calls.FunctionCall:
    call = validated.call
    return calls.FunctionCall(
        kind=Kind.TOOL,
        name=str(call.tool_name),
        seam=SEAM,
        body=values.encode({"args": [], "kwargs": dict(validated.validated_args)}),
        call_id=str(call.tool_call_id) if call.tool_call_id else None,
    )
