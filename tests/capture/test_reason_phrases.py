"""The words after an HTTP status come back in a replay: clients put them into the text of their errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import aiohttp
import httpx
import pytest
import requests
from capture_replay import replaying
from loopback import listening

import freezeframe
from freezeframe.testing import capture

pytestmark = pytest.mark.long  # imports every client


class _Shop(BaseHTTPRequestHandler):
    """Says each status in different words: those of the path."""

    def do_GET(self) -> None:
        _, status, words = self.path.split("/")
        self.send_response(int(status), words.replace("-", " "))
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


@pytest.fixture
def shop() -> Iterator[str]:
    with listening(_Shop) as url:
        yield url


async def by_httpx(url: str) -> str:
    async with httpx.AsyncClient() as client:
        response = await client.get(url)
    return _error(response) or response.reason_phrase


async def by_requests(url: str) -> str:
    response = requests.get(url, timeout=400)
    return _error(response) or response.reason


async def by_aiohttp(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return _error(response) or str(response.reason)


def _error(response: Any) -> str | None:
    try:
        response.raise_for_status()
    except Exception as error:
        return str(error)
    return None


@pytest.mark.parametrize("said", ["503/Slow-Down", "404/Not-Found", "200/Fine", "200/OK", "429/"])
@pytest.mark.parametrize("ask", [by_httpx, by_requests, by_aiohttp])
async def test_the_words_after_the_status_come_back(ask: Callable[[str], Awaitable[str]], said: str, shop: str) -> None:
    @freezeframe.run
    async def agent() -> str:
        return await ask(f"{shop}/{said}")

    with capture(record_hosts=["127.0.0.1"]) as captured:
        first = await agent()
        exchanges = captured.exchanges
    assert said.split("/")[1].replace("-", " ") in first
    with replaying(exchanges):
        assert await agent() == first
