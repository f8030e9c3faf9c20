"""`freezeframe mcp --http`: the same tools, on loopback, for clients that show the token."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import httpx2
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from freezeframe_replay.mcp.index import TOOLS
from freezeframe_schemas.local_tokens import MCP, bearer, read_token
from freezeframe_schemas.run import Run

pytestmark = pytest.mark.long


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server, and what opens it."""

    url: str
    headers: dict[str, str]


@pytest.fixture(scope="module")
def served(recorded: tuple[Path, Run], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server in a folder with a file of spans, and without a collector."""
    project = tmp_path_factory.mktemp("served")
    shutil.copy(recorded[0] / "spans.jsonl", project)
    data = project / "data"
    command = [sys.executable, "-m", "freezeframe._cli", "mcp", "--http", "0"]
    process = subprocess.Popen(
        command, cwd=project, env={**os.environ, "FREEZEFRAME_DATA": str(data)}, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:\d+/mcp", process.stdout.readline())
            assert found is not None
            assert str(data / MCP) in process.stdout.readline()
            yield Served(url=found[0], headers=bearer(read_token(data, MCP)))
        finally:
            process.terminate()


async def test_the_tools_are_served_over_http(served: Served, recorded_run: Run) -> None:
    async with (
        httpx2.AsyncClient(headers=served.headers, timeout=120) as http,
        streamable_http_client(served.url, http_client=http) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        assert [tool.name for tool in (await session.list_tools()).tools] == [entry.name for entry in TOOLS]
        found = await session.call_tool("transcript", {"run": "spans.jsonl"})
        (content,) = found.content
        assert content.type == "text"
        assert "step 1  tool find_orders" in content.text
        assert not found.is_error


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "example.com"}, 421),
        ({"Origin": "https://example.com"}, 403),
    ],
)
def test_who_has_no_token_or_comes_from_elsewhere_is_refused(served: Served, headers: dict[str, str], status: int) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accepted = {"Accept": "application/json, text/event-stream"}
    answer = httpx.post(served.url, json=asked, headers={**accepted, **served.headers, **headers})
    assert answer.status_code == status
    assert "find_runs" not in answer.text


def test_a_port_that_is_taken_is_named(served: Served, tmp_path: Path) -> None:
    port = served.url.split(":")[2].partition("/")[0]
    command = [sys.executable, "-m", "freezeframe._cli", "mcp", "--http", port]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"--http {port}: cannot listen on it" in done.stderr
