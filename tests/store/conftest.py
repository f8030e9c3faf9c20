"""One embedded store for all tests of this folder: chDB opens one directory per process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from freezeframe_collector.facade import build_app
from freezeframe_collector.store import Store, open_store


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An embedded store, migrated."""
    path: Path = tmp_path_factory.mktemp("store")
    opened = open_store(f"chdb://{path}")
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def admin_token() -> str:
    """The token that the facade's user `admin` has as password."""
    return "a-token-of-the-tests"


@pytest.fixture(scope="session")
def facade_url(store: Store, admin_token: str) -> Iterator[str]:
    """The URL of a facade over the store, served from a thread on an ephemeral port."""
    loop = asyncio.new_event_loop()
    started = threading.Event()
    runner = web.AppRunner(build_app(store, admin_token=admin_token))
    port = 0

    async def start() -> None:
        nonlocal port
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        started.set()

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(start())
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert started.wait(20)
    yield f"http://127.0.0.1:{port}"
    loop.call_soon_threadsafe(loop.stop)
    thread.join(20)
