"""MCP: a client session over streamable HTTP, over SSE and over stdio, against a real server."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Final

from clients.client import Client, Column, Trials, World, load, trial

_STDIO_SERVER: Final = """
try:
    from mcp.server.mcpserver import MCPServer
except ImportError:
    from mcp.server.fastmcp import FastMCP as MCPServer
server = MCPServer("forecast", log_level="ERROR")
@server.tool()
def weather(location: str) -> str:
    return "40 C"
server.run("stdio")
"""


def _make_server(world: World) -> Any:
    """Return a server with a tool that works and one that fails; of mcp 2, else of mcp 1."""
    try:
        server = load("mcp.server.mcpserver").MCPServer("forecast", log_level="ERROR")
    except ImportError:
        server = load("mcp.server.fastmcp").FastMCP("forecast", log_level="ERROR")
    server.tool()(world.weather)

    @server.tool()
    def broken() -> str:
        raise ValueError("out of order, ünï")

    return server


@contextmanager
def over_http(world: World) -> Generator[str]:
    """Serve streamable HTTP on loopback."""
    with _served(_make_server(world).streamable_http_app()) as address:
        yield f"{address}/mcp"


@contextmanager
def over_sse(world: World) -> Generator[str]:
    """Serve SSE on loopback."""
    with _served(_make_server(world).sse_app()) as address:
        yield f"{address}/sse"


@contextmanager
def _served(app: Any) -> Generator[str]:
    uvicorn = load("uvicorn")
    up = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            up.set()

    listener = socket.create_server(("127.0.0.1", 0))
    server: Any = Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    up.wait(20)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


async def _session(stack: AsyncExitStack, transport: Any) -> Any:
    streams = await stack.enter_async_context(transport)
    session = await stack.enter_async_context(load("mcp.client.session").ClientSession(streams[0], streams[1]))
    await session.initialize()
    return session


async def _converse(transport: Any) -> Any:
    async with AsyncExitStack() as stack:
        session = await _session(stack, transport)
        tools = await session.list_tools()
        called = await session.call_tool("weather", {"location": "Florence, ünï"})
        return [[tool.name for tool in tools.tools], called.model_dump()]


async def by_http(world: World) -> Any:
    return await _converse(load("mcp.client.streamable_http").streamable_http_client(world.server))


async def by_sse(world: World) -> Any:
    return await _converse(load("mcp.client.sse").sse_client(world.server))


async def by_stdio(world: World) -> Any:
    del world
    stdio = load("mcp.client.stdio")
    return await _converse(stdio.stdio_client(stdio.StdioServerParameters(command=sys.executable, args=["-c", _STDIO_SERVER])))


async def fail(world: World) -> Any:
    """Call a tool that raises, one that does not exist, and a method that the server does not know."""
    async with AsyncExitStack() as stack:
        session = await _session(stack, load("mcp.client.streamable_http").streamable_http_client(world.server))
        results = [await session.call_tool(name, {}) for name in ("broken", "missing")]
        results_dumped: list[Any] = [result.model_dump() for result in results]
        try:
            await session.read_resource("res://none")
        except Exception as error:
            results_dumped.append([type(error).__name__, str(error)])
        return results_dumped


async def at_once(world: World) -> Any:
    async with AsyncExitStack() as stack:
        session = await _session(stack, load("mcp.client.streamable_http").streamable_http_client(world.server))
        cities = ("Florence", "Rome", "Florence")
        answers = await asyncio.gather(*(session.call_tool("weather", {"location": city}) for city in cities))
        return [answer.model_dump() for answer in answers]


TRIALS: Final[Trials] = {
    Column.SYNC: "mcp has no sync client",
    Column.ASYNC: (trial(by_http, server=over_http), trial(by_sse, server=over_sse), trial(by_stdio)),
    Column.STREAM: "a call answers once; its progress notifications are not recorded",
    Column.TOOLS: (trial(by_http, server=over_http), trial(at_once, server=over_http)),
    Column.ERRORS: (trial(fail, server=over_http),),
    Column.RETRY: "mcp clients do not retry a call",
    Column.ABANDONED: "a call answers once",
}
CLIENT: Final = Client(
    "mcp",
    "mcp",
    trials=TRIALS,
    note="Recorded as JSON-RPC method, parameters and result, whatever the transport; request ids are the connection's.",
)
