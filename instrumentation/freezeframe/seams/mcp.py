"""MCP clients, whatever the transport (stdio, streamable HTTP, in memory): JSON-RPC requests at their dispatcher.

Requests are recorded as the session makes them, before request ids and metadata are added. In a replay nothing reaches the
transport: notifications end here, and a stdio server is stood for by a process that only waits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from freezeframe.seams import _port, calls
from freezeframe.seams._port import STAND_IN_PROGRAM
from freezeframe.seams.patching import Patches
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Kind

SEAM: Final = "mcp"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``mcp.shared.jsonrpc_dispatcher`` or ``mcp.client.stdio``."""
    if hasattr(module, "JSONRPCDispatcher"):
        patches.replace(module.JSONRPCDispatcher, "send_raw_request", _wrap_request)
        patches.replace(module.JSONRPCDispatcher, "notify", _wrap_notify)
    if hasattr(module, "_create_platform_compatible_process"):
        patches.replace(module, "_create_platform_compatible_process", _wrap_process)


def _wrap_request(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def send_raw_request(self: Any, method: str, params: Any, *args: Any, **kwargs: Any) -> Any:
        if not calls.is_on():
            return await original(self, method, params, *args, **kwargs)
        return await calls.run_async(
            functools.partial(_describe, method, params), functools.partial(original, self, method, params, *args, **kwargs)
        )

    return send_raw_request


def _wrap_notify(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def notify(self: Any, method: str, params: Any, *args: Any, **kwargs: Any) -> None:
        if _port.serving() is None:
            await original(self, method, params, *args, **kwargs)

    return notify


def _wrap_process(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def create(command: str, args: list[str], *rest: Any, **kwargs: Any) -> Any:
        if _port.serving() is not None:
            command, *args = STAND_IN_PROGRAM
        return await original(command, args, *rest, **kwargs)

    return create


def _describe(method: str, params: Any) -> calls.FunctionCall:
    given = {name: value for name, value in dict(params or {}).items() if name != "_meta"}
    return calls.FunctionCall(kind=Kind.MCP, name=method, seam=SEAM, body=values.encode({"args": [], "kwargs": given}))
