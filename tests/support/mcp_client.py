"""The official MCP client, and `freezeframe mcp` at the other end of its pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from freezeframe_replay.mcp.answers import USUAL_TOKENS

_ANSWER_S = 300.0
"""Time limit of an answer, after which the test fails instead of hanging."""


def count_tokens(text: str) -> int:
    """Return how many tokens the text counts as: one for three bytes."""
    return -(-len(text.encode(errors="replace")) // 3)


class Client:
    """A client that calls tools and reads their text."""

    def __init__(self, session: ClientSession, *, instructions: str) -> None:
        self.session = session
        self.instructions = instructions
        """The server's instructions for every client."""

    async def call(self, tool: str, /, **arguments: Any) -> str:
        """Return the answer of a call that is to work, and check its length."""
        found = await self.session.call_tool(tool, arguments)
        (content,) = found.content
        assert content.type == "text"
        assert not found.is_error, content.text
        assert found.structured_content is None, "the same text twice"
        assert count_tokens(content.text) <= arguments.get("budget", USUAL_TOKENS)
        return content.text

    async def refused(self, tool: str, /, **arguments: Any) -> str:
        """Return why a call is refused."""
        found = await self.session.call_tool(tool, arguments)
        (content,) = found.content
        assert content.type == "text"
        assert found.is_error, content.text
        return content.text


@asynccontextmanager
async def client_of(project: Path, data: Path) -> AsyncGenerator[Client]:
    """Start the server for a folder of code and a data directory, as a client's configuration does.

    It is started as a background job of a shell is: with interrupts ignored.
    """
    command = [sys.executable, "-m", "freezeframe._cli", "mcp", "--project", str(project)]
    server = StdioServerParameters(
        command="sh",
        args=["-c", "trap '' INT; exec \"$@\"", "sh", *command],
        env={**os.environ, "FREEZEFRAME_DATA": str(data)},
    )
    async with (
        stdio_client(server) as (read, write),
        ClientSession(read, write, read_timeout_seconds=_ANSWER_S) as session,
    ):
        initialized = await session.initialize()
        yield Client(session, instructions=initialized.instructions or "")
