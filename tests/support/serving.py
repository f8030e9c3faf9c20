"""A facade over a store, served from a thread of this process on an ephemeral port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

import pytest
from aiohttp import web
from readers_here import ReadersHere

from freezeframe_collector.facade import app, build_app
from freezeframe_collector.store import Store


@contextmanager
def serving(store: Store, *, admin_token: str | None = None, here: bool = False) -> Generator[str]:
    """Serve the store and yield the URL; statements are answered in this process if `here`."""
    loop = asyncio.new_event_loop()
    started = threading.Event()
    with pytest.MonkeyPatch.context() as patch:
        if here:
            patch.setattr(app, "ReaderHost", partial(ReadersHere, store.engine))
        runner = web.AppRunner(build_app(store, admin_token=admin_token))

    async def start() -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(start())
        loop.call_soon(started.set)  # not before it runs for good: a stop that comes earlier is lost
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert started.wait()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
