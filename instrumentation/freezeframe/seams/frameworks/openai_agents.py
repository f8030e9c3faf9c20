"""openai-agents: function tools, with the arguments as the JSON text that the model wrote.

Tools made by ``@function_tool``, ``Agent.as_tool`` and MCP servers are called through one invoker class, patched there, so that
tools made before `instrument()` are covered. A `FunctionTool` built by hand is wrapped when it is made.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, Final

from freezeframe.seams.functions import calls
from freezeframe.seams.functions.left_behind import enclosed
from freezeframe.seams.recorder.patching import Patches
from freezeframe_schemas.exchange import Kind

SEAM: Final = "openai_agents"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``agents.tool``."""
    invoker: Any = getattr(module, "_FailureHandlingFunctionToolInvoker", None)
    if invoker is not None:
        patches.around(invoker, "__call__", _invoke)
    patches.around(module.FunctionTool, "__post_init__", partial(_post_init, covered=invoker))


async def _invoke(original: Callable[..., Any], invoker: Any, ctx: Any, input: str) -> Any:  # noqa: A002 - the library's own name
    tool: Any = getattr(invoker, "_function_tool", None)
    if tool is None:
        return await original(invoker, ctx, input)
    inner = getattr(invoker, "_invoke_tool_impl", None)
    return await calls.run_async(partial(_describe, tool, inner, ctx, input), partial(original, invoker, ctx, input))


def _post_init(original: Callable[..., None], tool: Any, *, covered: Any) -> None:
    original(tool)
    invoke = tool.on_invoke_tool
    if isinstance(invoke, _Invoke):  # a copy of a tool: bind the wrapper, and a method inside it, to the copy
        tool.on_invoke_tool = invoke.bound_to(tool)
    elif covered is None or not isinstance(invoke, covered):
        tool.on_invoke_tool = _Invoke(tool, invoke)


class _Invoke:
    """The application's `on_invoke_tool`, wrapped in the seam."""

    def __init__(self, tool: Any, inner: Callable[..., Any]) -> None:
        functools.update_wrapper(self, inner)  # the library reads signature and type hints
        self._tool = tool
        self._inner = inner

    def bound_to(self, tool: Any) -> _Invoke:
        """Return the wrapper for another tool object."""
        inner: Any = self._inner
        if inspect.ismethod(inner) and inner.__self__ is self._tool:
            inner = inner.__func__.__get__(tool, type(tool))
        return _Invoke(tool, inner)

    async def __call__(self, ctx: Any, input: str) -> Any:  # noqa: A002 - the library's own name
        return await calls.run_async(partial(_describe, self._tool, self._inner, ctx, input), partial(self._inner, ctx, input))


def _describe(tool: Any, inner: Any, ctx: Any, text: str) -> calls.FunctionCall:
    call = calls.FunctionCall.of(Kind.TOOL, SEAM, tool.name, text, kwargs={}, call_id=getattr(ctx, "tool_call_id", None))
    return call.by(None, functions=(inner, *enclosed(inner)), context=getattr(ctx, "context", None))
