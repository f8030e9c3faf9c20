"""MCP clients, whatever the transport (stdio, streamable HTTP, SSE, in memory): JSON-RPC requests, at the dispatcher of mcp 2
and at the session of mcp 1.

Requests are recorded as the session makes them, before request ids and metadata are added. In a replay nothing reaches the
transport: notifications end here, a process that only waits replaces a stdio server, and streams on which nothing arrives
replace an SSE connection.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

from freezeframe._guard import guard
from freezeframe.seams.functions import calls
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.switch import STAND_IN_PROGRAM
from freezeframe_schemas import genai, values
from freezeframe_schemas.exchange import Kind

SEAM: Final = "mcp"
_VERSION_HEADER: Final = "mcp-protocol-version"
_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``mcp.shared.jsonrpc_dispatcher`` (mcp 2), ``mcp.shared.session`` (mcp 1), or a transport: ``mcp.client.stdio``,
    ``.sse``, ``.streamable_http``.
    """
    if hasattr(module, "JSONRPCDispatcher"):
        calls.watch_async(
            patches, module.JSONRPCDispatcher, "send_raw_request", lambda of, args, kwargs: _describe(of, *args, **kwargs)
        )
        patches.around(module.JSONRPCDispatcher, "notify", _notify)
    if hasattr(module, "BaseSession"):
        patches.around(module.BaseSession, "send_request", _send_request)
        patches.around(module.BaseSession, "send_notification", _notify)
    if hasattr(module, "sse_client"):
        patches.replace(module, "sse_client", _wrap_sse)
    if hasattr(module, "stdio_client"):
        patches.replace(module, "stdio_client", functools.partial(_wrap_client, transport="pipe"))
    if hasattr(module, "StreamableHTTPTransport"):
        patches.around(module.StreamableHTTPTransport, "post_writer", _post_writer)
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
        return _describe(session, str(written.get("method")), written.get("params"))

    def dump(result: Any) -> str:
        answer = _json_of(result)
        with guard("mcp.version"):
            if isinstance(version := answer.get("protocolVersion"), str):
                _VERSIONS[session] = version
        return values.encode(answer)

    return await calls.run_async(
        describe,
        functools.partial(original, session, request, result_type, *args, **kwargs),
        dump=dump,
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
                _note(streams[1], lambda: {genai.NETWORK_TRANSPORT: "tcp"})
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


def _describe(of: Any, method: str, params: Any, opts: Any = None, *_: Any, **__: Any) -> calls.FunctionCall:
    """Describe a request of a dispatcher (mcp 2) or a session (mcp 1)."""
    fields: dict[str, Any] = dict(params or {})
    arguments = {name: value for name, value in fields.items() if name != "_meta"}
    call = calls.FunctionCall.of(Kind.MCP, SEAM, method, kwargs=arguments)
    with guard("mcp.facts"):
        return replace(call, facts={name: value for name, value in _facts(of, method, fields, dict(opts or {})) if value})
    return call


# -- Facts about the connection, for the attributes that the conventions ask for ---------------------------------------
# Neither a dispatcher nor a session knows its transport; they have the same stream of messages.

_CONNECTIONS: Final[WeakKeyDictionary[Any, Callable[[], dict[str, str | None]]]] = WeakKeyDictionary()
"""Stream of sent messages -> a function that returns the known facts about its connection."""
_VERSIONS: Final[WeakKeyDictionary[Any, str]] = WeakKeyDictionary()
"""Session of mcp 1 -> the version of the protocol that it agreed on."""


def _note(stream: Any, connection: Callable[[], dict[str, str | None]]) -> None:
    with guard("mcp.connection"):
        _CONNECTIONS[_inner(stream)] = connection


def _inner(stream: Any) -> Any:
    return getattr(stream, "_inner", stream)  # mcp 2 has a stream without weak references around some


def _wrap_client(original: Callable[..., Any], *, transport: str) -> Callable[..., Any]:
    @asynccontextmanager
    async def client(*args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
        async with original(*args, **kwargs) as streams:
            _note(streams[1], lambda: {genai.NETWORK_TRANSPORT: transport})
            yield streams

    return functools.wraps(original)(client)


async def _post_writer(
    original: Callable[..., Any], transport: Any, client: Any, reader: Any, writer: Any, stream: Any, *rest: Any, **kwargs: Any
) -> None:
    """Write what is sent, as the transport of HTTP does, which alone knows the session."""
    known = ref(transport)
    _note(stream, lambda: {genai.NETWORK_TRANSPORT: "tcp", genai.MCP_SESSION_ID: getattr(known(), "session_id", None)})
    await original(transport, client, reader, writer, stream, *rest, **kwargs)


def _facts(of: Any, method: str, params: dict[str, Any], opts: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    # Nothing awaits between here and the place where the SDK takes the number.
    number = opts.get("request_id") or (of._next_id + 1 if hasattr(of, "_next_id") else of._request_id)
    yield genai.JSONRPC_REQUEST_ID, str(number)
    meta, headers = params.get("_meta") or {}, opts.get("headers") or {}
    version = params.get("protocolVersion") if method == "initialize" else None
    yield genai.MCP_PROTOCOL_VERSION, version or headers.get(_VERSION_HEADER) or meta.get(_VERSION_KEY) or _VERSIONS.get(of)
    known = _CONNECTIONS.get(_inner(of._write_stream))
    yield from (known() if known else {}).items()
