"""MCP clients over stdio and in memory: requests recorded, and served with no server."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from capture_replay import replaying
from clients.client import World
from clients.libraries.mcp import by_http, by_sse, by_stdio, over_http, over_sse
from mcp import StdioServerParameters
from mcp.client.session import ClientSession
from mcp.client.stdio import stdio_client
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import JSONRPCRequest

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Kind

pytestmark = pytest.mark.long  # imports the SDK

SERVER = '''
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("shop")
calls = []

@server.tool()
def get_order(order_id: str) -> str:
    """Look an order up."""
    calls.append(order_id)
    open(sys.argv[1], "a").write("called\\n")
    return f"{order_id}: {len(calls)}"

@server.tool()
def broken() -> str:
    """Fail."""
    raise ValueError("out of order")

server.run("stdio")
'''


class Loopback(World):
    """The world of a trial with a server."""

    def __init__(self, server: str | None = None) -> None:
        super().__init__(0)
        self.server = server or ""


@pytest.mark.proof("seam rpc.mcp")
async def test_a_stdio_server_is_recorded_and_then_not_needed(tmp_path: Path) -> None:
    script, log = tmp_path / "server.py", tmp_path / "calls"
    script.write_text(SERVER)
    parameters = StdioServerParameters(command=sys.executable, args=[str(script), str(log)])

    @freezeframe.run
    async def agent() -> Any:
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            tools = await session.list_tools()
            first = await session.call_tool("get_order", {"order_id": "AC-1"})
            second = await session.call_tool("get_order", {"order_id": "AC-1"})
            failed = await session.call_tool("broken", {})
            return [tools.model_dump(), first.model_dump(), second.model_dump(), failed.model_dump()]

    with capture() as captured:
        recorded_answer = await agent()
        exchanges = captured.exchanges
        spans = captured.spans
    script.unlink()
    with replaying(exchanges) as recorded:
        assert await agent() == recorded_answer
    assert recorded.left == []
    assert log.read_text() == "called\ncalled\n"
    assert {exchange.kind for exchange in exchanges} == {Kind.MCP}
    calls = [span for span in spans if span.text(genai.MCP_METHOD) == "tools/call" and genai.EXCHANGE_KIND in span.attributes]
    assert [span.text(genai.TOOL_NAME) for span in calls] == ["get_order", "get_order", "broken"]
    assert [span.name for span in calls] == ["tools/call get_order", "tools/call get_order", "tools/call broken"]
    assert calls[0].text(genai.TOOL_CALL_ARGUMENTS) == '{"order_id": "AC-1"}'
    assert [span.text(genai.ERROR_TYPE) for span in calls] == [None, None, "tool_error"]


@pytest.mark.parametrize(
    ("use", "server", "transport", "has_session"),
    [(by_stdio, None, "pipe", False), (by_http, over_http, "tcp", True), (by_sse, over_sse, "tcp", False)],
)
async def test_a_request_has_the_attributes_of_its_connection(
    use: Any, server: Any, transport: str, has_session: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of the request is the one that the SDK sends."""
    numbers: list[str] = []
    write = JSONRPCDispatcher._write

    async def watched(self: Any, message: Any, *rest: Any) -> None:
        if isinstance(message, JSONRPCRequest):
            numbers.append(str(message.id))
        await write(self, message, *rest)

    monkeypatch.setattr(JSONRPCDispatcher, "_write", watched)
    with capture() as captured:
        with nullcontext() if server is None else server(Loopback()) as address:
            await use(Loopback(address))
        spans = [span for span in captured.spans if span.text(genai.EXCHANGE_KIND) == Kind.MCP.value]
    assert spans[0].text(genai.MCP_METHOD) == "initialize"
    assert [span.text(genai.JSONRPC_REQUEST_ID) for span in spans] == numbers
    assert {span.text(genai.NETWORK_TRANSPORT) for span in spans} == {transport}
    assert all((span.text(genai.MCP_PROTOCOL_VERSION) or "").startswith("202") for span in spans)
    [session] = {span.text(genai.MCP_SESSION_ID) for span in spans[1:]}
    assert (session is not None) is has_session
