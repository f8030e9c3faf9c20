"""Bounds open HTTP connections, in all and of one address: idle ones, and those whose request never completes.

If there is one connection too many, the address that holds the most loses one without a request in progress: first one that
never sent a whole request, the oldest first. Senders whose idle connection was closed open another.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler

HEAD_S: Final = 10.0
"""Time from the opening of a connection to the end of its first head. (aiohttp closes idle ones after 75 s.)"""
_MAX_CONNECTIONS: Final = 4_096
_SHARE: Final = 2
"""One address may hold all connections divided by this: a proxy has one address for many senders."""


def most_connections() -> int:
    """Return how many connections the process may hold, well below its limit of open files."""
    return min(_MAX_CONNECTIONS, max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4))


_Crowds = dict[str, dict["Connection", None]]
"""Address -> its connections, oldest first."""


class Connections:
    """The open connections of one listener."""

    def __init__(self, most: int, head_s: float = HEAD_S) -> None:
        self._most = most
        self.head_s = head_s
        self._count = 0
        self._unserved: _Crowds = {}
        self._served: _Crowds = {}

    def opened(self, connection: Connection) -> None:
        """Add a connection, and close one if there are too many."""
        address = connection.address
        self._unserved.setdefault(address, {})[connection] = None
        self._count += 1
        own = [self._unserved[address], self._served.get(address, {})]
        if sum(map(len, own)) > self._most // _SHARE:
            self._close_one_of(*own)
        elif self._count > self._most:
            largest = [max(crowds.values(), key=len, default={}) for crowds in (self._unserved, self._served)]
            # The only new one of its address is hardly the flood.
            self._close_one_of(*(largest if len(largest[0]) > 1 else reversed(largest)))

    def served(self, connection: Connection) -> None:
        """Note that a connection sent a whole head."""
        if _discard(self._unserved, connection):
            self._served.setdefault(connection.address, {})[connection] = None

    def is_unserved(self, connection: Connection) -> bool:
        """Return whether a connection has not sent one whole head yet."""
        return connection in self._unserved.get(connection.address, {})

    def closed(self, connection: Connection) -> None:
        if _discard(self._unserved, connection) or _discard(self._served, connection):
            self._count -= 1

    def _close_one_of(self, *crowds: dict[Connection, None]) -> None:
        idle = (one for crowd in crowds for one in crowd if not one.in_work)
        victim = next(idle, None) or next(one for crowd in crowds for one in reversed(crowd))
        self.closed(victim)
        victim.abort()


def _discard(crowds: _Crowds, connection: Connection) -> bool:
    """Take a connection out; return whether it was there."""
    crowd = crowds.get(connection.address, {})
    if connection not in crowd:
        return False
    del crowd[connection]
    if not crowd:
        del crowds[connection.address]
    return True


class Connection(asyncio.Protocol):
    """Sits between a transport and aiohttp's protocol, to see the connection open and close."""

    def __init__(self, inner: asyncio.Protocol, connections: Connections) -> None:
        self._inner = inner
        self._connections = connections
        self._transport: asyncio.BaseTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.address = ""
        self.in_work = 0
        """Requests whose head is here and whose answer is not finished."""
        self.data_received = inner.data_received  # for each piece of data: no call more than needed
        self.pause_writing = inner.pause_writing
        self.resume_writing = inner.resume_writing
        self.eof_received = inner.eof_received

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        self._inner.connection_made(transport)
        self._timer = asyncio.get_running_loop().call_later(self._connections.head_s, self._expect_head)
        self._connections.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._connections.closed(self)
        self._inner.connection_lost(exc)

    def _expect_head(self) -> None:
        if self._connections.is_unserved(self):
            self.abort()

    def begin_work(self) -> None:
        """Note a request whose head is here."""
        self.in_work += 1
        self._connections.served(self)

    def abort(self) -> None:
        """Close it at once."""
        if isinstance(self._transport, asyncio.Transport):
            self._transport.abort()


@web.middleware
async def _note_work(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Mark the request's connection as in progress until the answer is there."""
    connection = request.transport.get_protocol() if isinstance(request.transport, asyncio.Transport) else None
    if not isinstance(connection, Connection):
        return await handler(request)
    connection.begin_work()
    try:
        return await handler(request)
    finally:
        connection.in_work -= 1


class BoundedRunner(web.AppRunner):
    """Runs an application over a bounded number of connections."""

    def __init__(
        self, app: web.Application, *, shutdown_s: float, connections: Connections | None = None, **options: Any
    ) -> None:
        """`options` are those of aiohttp's protocol."""
        app.middlewares.insert(0, _note_work)
        super().__init__(app, handle_signals=False, access_log=None, shutdown_timeout=shutdown_s, **options)
        self._connections = connections or Connections(most_connections())

    @property
    def server(self) -> Any:
        """Return the factory of protocols for connections."""
        made = super().server
        return made and (lambda: Connection(made(), self._connections))
