"""Requests of web pages (CORS): taken from the origins that the configuration names, and from no other.

A page of any origin can have its visitor's browser send bytes to this port. What it cannot do is send OTLP: both content types
need a preflight, which is answered here, and the browser holds the request back where the answer does not name its origin.

Source: Fetch standard, "CORS protocol".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

_PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "content-type, content-encoding, authorization",
    "Access-Control-Max-Age": "600",
}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def parse_origins(text: str) -> frozenset[str]:
    """Return the origins of ``"https://app.example.com, http://localhost:3000"``."""
    return frozenset(filter(None, (part.strip() for part in text.split(","))))


def admit_origins(origins: frozenset[str]) -> Middleware:
    """Return the middleware that answers the preflights of these origins, and lets their pages read the answers."""

    @web.middleware
    async def admit(request: web.Request, handler: _Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin", "")
        if origin not in origins or not request.path.startswith("/v1/"):
            return await handler(request)
        named = {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            return web.Response(status=204, headers={**named, **_PREFLIGHT})
        answer = await handler(request)
        answer.headers.update(named)
        return answer

    return admit
