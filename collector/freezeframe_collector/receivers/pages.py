"""The collector's own pages: health, readiness, metrics, status, and the order to flush. They contain no payload.

Health and readiness answer everyone, by status alone: the probes of a supervisor, a container or a balancer
carry no token. Only a request with a token gets the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from aiohttp import web

from freezeframe_collector.admission import BusyError
from freezeframe_collector.receivers.connections import BoundedRunner
from freezeframe_collector.receivers.cross_origin import admit_origins
from freezeframe_collector.settings.auth import Authenticator, UnauthenticatedError

_T = TypeVar("_T")
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Pages(Protocol):
    """Facts about the collector, for its pages."""

    def health(self) -> str:
        """Return an empty text if the process works, else the fault."""
        ...

    def readiness(self) -> str:
        """Return an empty text if requests would be accepted and stored, else the obstacle."""
        ...

    def metrics(self) -> str:
        """Return the Prometheus text."""
        ...

    def status(self) -> dict[str, object]:
        """Return the state as one JSON object."""
        ...

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything acked is in the store; return whether that happened."""
        ...


class PagesReceiver:
    """The routes to the pages: next to OTLP over HTTP, and on their own listener if that one speaks TLS."""

    def __init__(self, pages: Pages, authenticator: Authenticator) -> None:
        self._pages = pages
        self._authenticator = authenticator

    def build_runner(self, shutdown_s: float) -> web.AppRunner:
        """Return a server of nothing but the pages, not yet listening."""
        app = web.Application(middlewares=[admit_origins(frozenset(), loopback=False)])
        app.add_routes(self.routes())
        return BoundedRunner(app, shutdown_s=shutdown_s)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/flush", self._for_token(self._flush)),
            web.get("/healthz", self._healthz),
            web.get("/readyz", self._readyz),
            web.get("/metrics", self._for_token(self._prometheus)),
            web.get("/status", self._for_token(self._status)),
        ]

    def _for_token(self, handler: _Handler) -> _Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            fault = self._refusal(request)
            if fault:
                return web.Response(status=401, text=f"{fault}\n", headers={"WWW-Authenticate": "Bearer"})
            return await handler(request)

        return answer

    def _refusal(self, request: web.Request) -> str:
        """Return why the request's token does not open the pages; empty if it does."""
        try:
            self._authenticator.check_pages(request.headers.get("Authorization"))
        except UnauthenticatedError as error:
            return error.message
        return ""

    async def _flush(self, request: web.Request) -> web.Response:
        try:
            timeout_s = min(300.0, max(0.0, float(request.query.get("timeout_s", "30"))))
        except ValueError:
            return web.json_response({"flushed": False, "error": "timeout_s: expected a number of seconds"}, status=400)
        try:
            done = await asyncio.get_running_loop().run_in_executor(None, self._pages.flush, timeout_s)
        except BusyError as error:
            return web.json_response({"flushed": False, "error": error.message}, status=503)
        return web.json_response({"flushed": done}, status=200 if done else 504)

    async def _healthz(self, request: web.Request) -> web.Response:
        return self._verdict(request, await self._page(self._pages.health))

    async def _readyz(self, request: web.Request) -> web.Response:
        return self._verdict(request, await self._page(self._pages.readiness))

    async def _prometheus(self, request: web.Request) -> web.Response:
        return web.Response(text=await self._page(self._pages.metrics), content_type="text/plain", charset="utf-8")

    async def _status(self, request: web.Request) -> web.Response:
        return web.json_response(await self._page(self._pages.status))

    async def _page(self, page: Callable[[], _T]) -> _T:
        # The books are read under the log's lock, or asked for in another process: not in the event loop.
        return await asyncio.get_running_loop().run_in_executor(None, page)

    def _verdict(self, request: web.Request, fault: str) -> web.Response:
        if fault and self._refusal(request):
            fault = "not healthy; send a token to see why"
        return web.Response(text=f"{fault or 'ok'}\n", status=503 if fault else 200)
