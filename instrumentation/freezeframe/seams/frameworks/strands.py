"""Strands: the function of a decorated or module-based tool. Tools of MCP servers are recorded by the MCP seam.

A tool that asks for its context may set the agent's state. The change is part of the call, so it is recorded
with the result, and repeated in a replay, except for a call that raises.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from freezeframe.seams.functions import calls
from freezeframe.seams.functions.marked import watch
from freezeframe.seams.functions.stand_in import StandIn, describe_tool
from freezeframe.seams.recorder.patching import Patches
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Kind

SEAM: Final = "strands"


@dataclass(frozen=True, slots=True, kw_only=True)
class WithState:
    """A result, and the tool's changes of the agent's state."""

    returned: Any
    state: dict[str, Any]


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``strands.tools.decorator`` or ``strands.tools.tools``."""
    if hasattr(module, "DecoratedFunctionTool"):
        patches.replace(module.DecoratedFunctionTool, "stream", functools.partial(_wrap, watched=_decorated))
    if hasattr(module, "PythonAgentTool"):
        patches.replace(module.PythonAgentTool, "stream", functools.partial(_wrap, watched=_module_based))


_Watched = Callable[[Any, dict[str, Any], dict[str, Any]], Callable[..., Any]]


def _wrap(original: Callable[..., Any], *, watched: _Watched) -> Callable[..., Any]:
    @functools.wraps(original)
    async def stream(self: Any, tool_use: Any, invocation_state: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        tool = StandIn(self, _tool_func=watched(self, tool_use, invocation_state)) if calls.is_on() else self
        async with aclosing(original(tool, tool_use, invocation_state, **kwargs)) as events:
            async for event in events:
                yield event

    return stream


def _decorated(tool: Any, tool_use: dict[str, Any], invocation_state: dict[str, Any]) -> Callable[..., Any]:
    metadata = tool._metadata
    injected = {name for name in metadata.signature.parameters if metadata._is_special_parameter(name)}
    describe = describe_tool(
        tool._tool_func, name=str(tool.tool_name), seam=SEAM, call_id=tool_use.get("toolUseId"), hidden=injected
    )
    state: Any = getattr(invocation_state.get("agent"), "state", None)
    if not injected or not hasattr(state, "get"):
        return watch(tool._tool_func, describe)
    before: dict[str, Any] = state.get()

    def dump(result: Any) -> str:
        changed = {key: value for key, value in state.get().items() if key not in before or before[key] != value}
        return values.encode(WithState(returned=result, state=changed) if changed else result)

    def load(text: str) -> Any:
        result = values.decode(text)
        if not isinstance(result, WithState):
            return result
        for key, value in result.state.items():
            state.set(key, value)
        return result.returned

    return watch(tool._tool_func, describe, dump=dump, load=load)


def _module_based(tool: Any, tool_use: dict[str, Any], invocation_state: dict[str, Any]) -> Callable[..., Any]:
    del invocation_state  # passed to the function unchanged; it holds the agent and more objects of the process

    def describe(args: tuple[Any, ...], kwargs: dict[str, Any]) -> calls.FunctionCall:
        del args, kwargs
        return calls.FunctionCall.of(
            Kind.TOOL, SEAM, tool.tool_name, kwargs=tool_use.get("input") or {}, call_id=tool_use.get("toolUseId")
        ).by(tool, "_tool_func")

    return watch(tool._tool_func, describe)
