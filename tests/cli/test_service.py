"""The replay service's access: who it answers, and how it says that it cannot. What it serves is tested with a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request
from handmade_runs import make_run, tool_call
from yarl import URL

from freezeframe_replay.local.home import Home
from freezeframe_replay.service import list_routes
from freezeframe_replay.service.app import make_app
from freezeframe_replay.sources.labels import Label
from freezeframe_replay.sources.run_list import RunPage
from freezeframe_replay.web.downloads import fixture_archive
from freezeframe_replay.web.pages import error_page
from freezeframe_schemas.local_tokens import READER, bearer, read_token
from freezeframe_schemas.run import build_run

Client = TestClient[Request, Application]


@pytest_asyncio.fixture
async def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """The service over a data directory without a collector."""
    monkeypatch.delenv("FREEZEFRAME_STORE", raising=False)
    async with TestClient(TestServer(make_app(Home(directory=tmp_path))), headers=bearer(read_token(tmp_path, READER))) as made:
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


@pytest.mark.parametrize("path", ["/healthz", "/", "/api/v1/runs", "/runs/last", "/nowhere"])
async def test_every_answer_forbids_foreign_scripts_frames_and_caching(client: Client, path: str) -> None:
    """Errors, too."""
    answer = await client.get(path)
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "frame-ancestors 'none'" in policy
    assert policy.count("script-src 'sha256-") == 1 and "unsafe" not in policy and "connect-src 'self';" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/api/v1/runs", "/api/v1/runs/last", "/api/v1/runs/last/fixture"])
async def test_nothing_can_be_written(client: Client, method: str, path: str) -> None:
    """There is no way to change anything."""
    assert (await client.request(method, path)).status == 405


async def test_without_a_store_it_says_what_to_do(client: Client) -> None:
    """503 with the reason, as JSON and as a page."""
    answer = await client.get("/api/v1/runs")
    assert answer.status == 503
    assert "freezeframe up" in (await answer.json())["do"]
    page = await client.get("/")
    assert page.status == 503
    assert "freezeframe up" in await page.text()


async def test_a_wrong_limit_is_named(client: Client) -> None:
    """400, with what was found and expected."""
    answer = await client.get(f"/api/v1/runs?limit={'9' * 5000}")  # more digits than Python reads as a number
    assert answer.status == 400
    answer = await client.get("/api/v1/runs?limit=many")
    assert answer.status == 400
    assert (await answer.json())["error"] == "limit: found 'many', expected a whole number"


def test_equal_runs_give_equal_archives() -> None:
    """They hold no time and no user of their packing."""
    run = build_run(make_run(tool_call("track", 1)))
    assert fixture_archive(run) == fixture_archive(run)


@pytest_asyncio.fixture
async def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """A client without a cookie, with a separate service."""
    monkeypatch.delenv("FREEZEFRAME_STORE", raising=False)
    async with TestClient(TestServer(make_app(Home(directory=tmp_path)))) as made:
        yield made


@pytest.mark.parametrize(
    "path", ["/", "/api/v1/runs", "/api/v1/runs/last/fixture", "/runs/last", "/diff", "/links", "/nowhere", "/enter?code="]
)
async def test_whoever_shows_neither_token_nor_cookie_sees_nothing(stranger: Client, path: str) -> None:
    for shown in ({}, bearer("a-token-of-somebody-elses")):
        answers = [await stranger.request(method, path, headers=shown) for method in ("GET", "POST")]
        assert {answer.status for answer in answers} <= {401, 405}
        assert answers[0].status == 401


@pytest.mark.proof("page /healthz")
async def test_a_probe_needs_no_token(stranger: Client) -> None:
    assert await (await stranger.get("/healthz")).json() == {"status": "ok"}


@pytest.mark.proof("page /enter")
async def test_a_link_lets_one_browser_in_once(stranger: Client, tmp_path: Path) -> None:
    """Its cookie is for this service's own pages: no script reads it, and no page elsewhere sends it."""
    asked = await stranger.post("/links", headers=bearer(read_token(tmp_path, READER)))
    link = (await asked.json())["link"]
    entered = await stranger.get(link, allow_redirects=False)
    assert (entered.status, entered.headers["Location"]) == (303, "/")
    (cookie,) = entered.headers.getall("Set-Cookie")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    name, _, value = cookie.partition(";")[0].partition("=")
    assert name == f"freezeframe-{stranger.port}"
    assert value != read_token(tmp_path, READER)
    assert (await stranger.get("/nowhere", headers={"Cookie": f"{name}={value}"})).status == 404
    stranger.session.cookie_jar.clear()
    assert (await stranger.get(link, allow_redirects=False)).status == 401
    assert (await stranger.post("/links", headers={"Cookie": f"{name}={value}"})).status == 401


async def test_the_page_that_keeps_somebody_out_leads_nowhere_else(stranger: Client) -> None:
    """A visitor who followed a link from elsewhere goes on here, with the cookie; the address cannot name another server."""
    page = await (await stranger.get("/runs/last?a=%22%3E")).text()
    assert 'href="/runs/last?a=%22%3E"' in page
    page = await (await stranger.get(URL.build(path="//evil.example/", encoded=True))).text()
    assert 'href="/evil.example/"' in page


async def test_an_address_that_a_reader_guesses_leads_to_the_page(client: Client) -> None:
    """The list from `/runs`, its filters kept; the run from the address that a replay's page has."""
    for path, page in (
        ("/runs", "/"),
        ("/runs?status=failed&words=a%20b", "/?status=failed&words=a%20b"),
        ("/runs/ab12/replay", "/runs/ab12"),
        ("/runs/%2F%2Fevil.example/replay", "/runs/%2F%2Fevil.example"),
    ):
        answer = await client.get(URL(path, encoded=True), allow_redirects=False)
        assert (answer.status, answer.headers["Location"]) == (303, page)


@pytest.mark.parametrize(
    ("referer", "page"),
    [
        ("{own}/diff?before=a&after=b", "/diff?before=a&after=b"),
        ("{own}//evil.example/x", "/evil.example/x"),
        ("{own}/\\evil.example/x", "/evil.example/x"),
        ("http://evil.example/x", "/"),
        ("http://[", "/"),
        ("", "/"),
    ],
)
async def test_the_switch_of_the_colours_leads_back_to_its_own_page_only(client: Client, referer: str, page: str) -> None:
    """The cookie holds one of the known names; what another page names is never an address."""
    headers = {"Referer": referer.format(own=str(client.make_url("")).rstrip("/"))}
    answer = await client.post("/theme", data={"theme": "dark"}, headers=headers, allow_redirects=False)
    assert (answer.status, answer.headers["Location"]) == (303, page)
    assert answer.cookies["freezeframe-theme"].value == "dark"
    assert 'data-theme="dark"' in await (await client.get("/nowhere")).text()
    await client.post("/theme", data={"theme": "system"}, headers=headers, allow_redirects=False)
    assert 'data-theme="system"' in await (await client.get("/nowhere")).text()
    assert (await client.post("/theme", data={"theme": '"><b>'})).status == 400
    assert 'data-theme="system"' in await (await client.get("/nowhere", headers={"Cookie": "freezeframe-theme=odd"})).text()


async def test_a_refusal_and_a_fault_are_pages_for_people_too(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the headers of every answer; what failed is in the log, not in the page."""
    refused = await client.get("/", headers={"Host": "evil.example"})
    assert (refused.status, refused.content_type) == (403, "text/html")
    assert (await client.get("/api/v1/runs", headers={"Host": "evil.example"})).content_type == "application/json"

    def fail(*_: object) -> None:
        raise ArithmeticError("a secret of the store")

    monkeypatch.setattr("freezeframe_replay.service.list_routes.run_query", fail)
    fault = await client.get("/")
    assert (fault.status, fault.content_type) == (500, "text/html")
    assert "Content-Security-Policy" in fault.headers
    assert "secret" not in await fault.text()


async def test_an_empty_list_says_how_to_record_into_its_data_directory(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed(_: Request) -> tuple[RunPage, dict[str, Label]]:
        return RunPage(), {}

    monkeypatch.setattr(list_routes, "_list", listed)
    page = await (await client.get("/")).text()
    assert f"export FREEZEFRAME_DATA={tmp_path}\nfreezeframe run -- python" in page
    assert "FREEZEFRAME_DATA" not in await (await client.get("/?service=nobody")).text()


def test_an_error_links_the_runs_and_sets_the_commands_that_it_names() -> None:
    """What somebody else wrote into it stays text."""
    run = "ab" * 16
    page = error_page(f"run '<b>x</b>': not in the store; the last one is {run}", "list them with `freezeframe runs <x>`")
    assert f'the last one is <a href="/runs/{run}"><code>{run[:12]}</code></a>' in page
    assert "<code>freezeframe runs &lt;x&gt;</code>" in page
    assert "<b>x</b>" not in page and "&lt;b&gt;x&lt;/b&gt;" in page
