"""Open HTTP connections are bounded: heads that never complete and idle connections cost the address that holds the most."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from aiohttp import web

from freezeframe_collector.receivers.connections import BoundedRunner, Connections

MAX_CONNECTIONS = 16
SHARE = MAX_CONNECTIONS // 2
HALF_A_HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-"
REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class _Client:
    """One connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def ask(self) -> bytes:
        """Send a request; return the first line of the answer, or nothing if the connection is closed."""
        self.writer.write(REQUEST)
        return await self.answer()

    async def answer(self) -> bytes:
        """Return the first line of the answer, or nothing if the connection is closed."""
        try:
            return (await self._reader.readuntil(b"\r\n\r\nok")).partition(b"\r\n")[0]
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""


class _Server:
    """A server on a real socket; it answers a request once it may."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()
        self.port = 0
        self._clients: list[_Client] = []

    async def _answer(self, request: web.Request) -> web.Response:
        del request
        self.asked.set()
        await self.may_answer.wait()
        return web.Response(text="ok")

    @contextlib.asynccontextmanager
    async def serve(self, head_s: float = 600.0) -> AsyncGenerator[None]:
        app = web.Application()
        app.router.add_get("/", self._answer)
        runner = BoundedRunner(app, shutdown_s=1.0, connections=Connections(MAX_CONNECTIONS, head_s))
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.port = runner.addresses[0][1]
            yield
        finally:
            for client in self._clients:
                client.writer.close()
            await runner.cleanup()

    async def open(self, data: bytes = b"", address: str = "127.0.0.1") -> _Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(address, 0))
        writer.write(data)
        client = _Client(reader, writer)
        self._clients.append(client)
        return client


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def test_heads_that_never_complete_cost_only_their_own_address() -> None:
    async def flood() -> None:
        server = _Server()
        async with server.serve():
            honest = [await server.open() for _ in range(SHARE // 2)]
            assert {await one.ask() for one in honest} == {b"HTTP/1.1 200 OK"}
            flooding = [await server.open(HALF_A_HEAD, f"127.0.0.{2 + number % 3}") for number in range(5 * MAX_CONNECTIONS)]
            closed = [await one.answer() for one in flooding[: 3 * MAX_CONNECTIONS]]
            assert closed == [b""] * len(closed)
            assert {await one.ask() for one in honest} == {b"HTTP/1.1 200 OK"}
            assert await (await server.open()).ask() == b"HTTP/1.1 200 OK"

    _run(flood())


def test_of_one_address_the_connections_that_never_served_go_first() -> None:
    async def flood() -> None:
        server = _Server()
        async with server.serve():
            idle, busy = await server.open(), await server.open()
            assert await idle.ask() == b"HTTP/1.1 200 OK"
            server.may_answer.clear()
            server.asked.clear()
            busy.writer.write(REQUEST)
            await server.asked.wait()
            flooding = [await server.open(HALF_A_HEAD) for _ in range(3 * SHARE)]
            assert await flooding[0].answer() == b""
            server.may_answer.set()
            assert await busy.answer() == b"HTTP/1.1 200 OK"
            assert await idle.ask() == b"HTTP/1.1 200 OK"

    _run(flood())


def test_a_head_that_does_not_complete_in_time_ends_its_connection() -> None:
    async def wait() -> None:
        server = _Server()
        async with server.serve(head_s=0.05):
            idle, half, silent = await server.open(), await server.open(HALF_A_HEAD), await server.open()
            assert await idle.ask() == b"HTTP/1.1 200 OK"
            assert [await half.answer(), await silent.answer()] == [b"", b""]
            assert await idle.ask() == b"HTTP/1.1 200 OK"

    _run(wait())
