"""The replay service's door: who it answers to, and how it says that it cannot. What it serves is tested with a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request
from handmade_runs import make_run, tool_call

from freezeframe_replay.local.home import Home
from freezeframe_replay.service import fixture_archive, make_app
from freezeframe_schemas.run import build_run

Client = TestClient[Request, Application]


@pytest_asyncio.fixture
async def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """The service over a data directory without a collector."""
    monkeypatch.delenv("FREEZEFRAME_STORE", raising=False)
    async with TestClient(TestServer(make_app(Home(directory=tmp_path)))) as made:
        yield made


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "169.254.169.254:4320", "localhost.evil:80"])
async def test_a_foreign_host_name_is_refused(client: Client, host: str) -> None:
    """A page that resolves its own name to this machine gets nothing (DNS rebinding)."""
    answer = await client.get("/healthz", headers={"Host": host})
    assert answer.status == 403


@pytest.mark.parametrize("host", ["127.0.0.1:4320", "localhost", "LOCALHOST:4320", "[::1]:4320"])
async def test_this_machines_own_names_are_answered(client: Client, host: str) -> None:
    """With and without a port."""
    answer = await client.get("/healthz", headers={"Host": host})
    assert answer.status == 200
    assert (await answer.json())["status"] == "ok"


@pytest.mark.parametrize("path", ["/healthz", "/", "/api/runs", "/runs/last", "/nowhere"])
async def test_every_answer_forbids_scripts_frames_and_caching(client: Client, path: str) -> None:
    """Errors, too."""
    answer = await client.get(path)
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/runs/last", "/api/runs/last/fixture"])
async def test_nothing_can_be_written(client: Client, method: str, path: str) -> None:
    """There is no way to change anything."""
    assert (await client.request(method, path)).status == 405


async def test_without_a_store_it_says_what_to_do(client: Client) -> None:
    """503 with the reason, as JSON and as a page."""
    answer = await client.get("/api/runs")
    assert answer.status == 503
    assert "freezeframe up" in (await answer.json())["do"]
    page = await client.get("/")
    assert page.status == 503
    assert "freezeframe up" in await page.text()


async def test_a_wrong_limit_is_named(client: Client) -> None:
    """400, with what was found and expected."""
    answer = await client.get("/api/runs?limit=many")
    assert answer.status == 400
    assert (await answer.json())["error"] == "limit: found 'many', expected a whole number"


def test_equal_runs_give_equal_archives() -> None:
    """No time and no user of the packing in it."""
    run = build_run(make_run(tool_call("track", 1)))
    assert fixture_archive(run) == fixture_archive(run)
