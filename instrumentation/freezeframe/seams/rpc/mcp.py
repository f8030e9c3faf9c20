"""MCP clients, whatever the transport (stdio, streamable HTTP, SSE, in memory): JSON-RPC requests, at the dispatcher of mcp 2
and at the session of mcp 1.

Requests are recorded as the session makes them, before request ids and metadata are added. In a replay nothing reaches the
transport: notifications end here, a process that only waits replaces a stdio server, and streams on which nothing arrives
replace an SSE connection.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, Final

from freezeframe.seams.functions import calls
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.switch import STAND_IN_PROGRAM
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Kind

SEAM: Final = "mcp"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``mcp.shared.jsonrpc_dispatcher`` (mcp 2), ``mcp.shared.session`` (mcp 1), ``mcp.client.stdio`` or ``.sse``."""
    if hasattr(module, "JSONRPCDispatcher"):
        calls.watch_async(
            patches, module.JSONRPCDispatcher, "send_raw_request", lambda _, args, kwargs: _describe(*args, **kwargs)
        )
        patches.around(module.JSONRPCDispatcher, "notify", _notify)
    if hasattr(module, "BaseSession"):
        patches.around(module.BaseSession, "send_request", _send_request)
        patches.around(module.BaseSession, "send_notification", _notify)
    if hasattr(module, "sse_client"):
        patches.replace(module, "sse_client", _wrap_sse)
    if hasattr(module, "_create_platform_compatible_process"):
        patches.around(module, "_create_platform_compatible_process", _create_process)


async def _notify(original: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    if switch.serving() is None:
        await original(*args, **kwargs)


async def _send_request(
    original: Callable[..., Any], session: Any, request: Any, result_type: Any, *args: Any, **kwargs: Any
) -> Any:
    """Send a request as mcp 1 does: requests and results are models."""

    def describe() -> calls.FunctionCall:
        written = _json_of(request)
        return _describe(str(written.get("method")), written.get("params"))

    return await calls.run_async(
        describe,
        functools.partial(original, session, request, result_type, *args, **kwargs),
        dump=lambda result: values.encode(_json_of(result)),
        load=lambda text: result_type.model_validate(values.decode(text)),
    )


def _json_of(model: Any) -> dict[str, Any]:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def _wrap_sse(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the one transport that connects before the first request."""

    @asynccontextmanager
    async def sse_client(*args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
        if switch.serving() is None:
            async with original(*args, **kwargs) as streams:
                yield streams
            return
        import anyio

        nobody, incoming = anyio.create_memory_object_stream[Any](0)
        outgoing, nowhere = anyio.create_memory_object_stream[Any](0)
        async with nobody, incoming, outgoing, nowhere:
            yield incoming, outgoing

    return functools.wraps(original)(sse_client)


async def _create_process(original: Callable[..., Any], command: str, args: list[str], *rest: Any, **kwargs: Any) -> Any:
    if switch.serving() is not None:
        command, *args = STAND_IN_PROGRAM
    return await original(command, args, *rest, **kwargs)


def _describe(method: str, params: Any, *_: Any, **__: Any) -> calls.FunctionCall:
    arguments = {name: value for name, value in dict(params or {}).items() if name != "_meta"}
    return calls.FunctionCall.of(Kind.MCP, SEAM, method, kwargs=arguments)
