"""Requests of web pages (CORS): accepted only from configured origins.

A page of any origin can have its visitor's browser send bytes to this port. They are refused (`same_origin`),
and the browser sends a preflight before any OTLP.

Source: Fetch standard, "CORS protocol".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from freezeframe_schemas.same_origin import ANSWER_HEADERS, LOOPBACK_NAMES, why_foreign

_PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "content-type, content-encoding, authorization",
    "Access-Control-Max-Age": "600",
}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def parse_origins(text: str) -> frozenset[str]:
    """Return the origins of ``"https://app.example.com, http://localhost:3000"``."""
    return frozenset(filter(None, (part.strip() for part in text.split(","))))


def admit_origins(origins: frozenset[str], *, loopback: bool) -> Middleware:
    """Return the middleware that refuses pages of other origins, answers preflights of these, and lets them read the answers.

    Args:
        origins: whose pages may send.
        loopback: whether the listener is for this machine only; then ``Host`` must name it in requests for the
            collector's own pages, which stops DNS rebinding. Spans are accepted under any name: a container may
            know this machine by another.
    """

    @web.middleware
    async def admit(request: web.Request, handler: _Handler) -> web.StreamResponse:
        own = request.path.startswith("/v1/")
        if own and request.headers.get("Origin", "") in origins:
            named = {"Access-Control-Allow-Origin": request.headers["Origin"], "Vary": "Origin"}
            if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
                return web.Response(status=204, headers={**named, **_PREFLIGHT})
        else:
            named = ANSWER_HEADERS
        names = LOOPBACK_NAMES if loopback and not own else None
        why = why_foreign(request.headers, names=names, origins=origins if own else (), links=True)
        if why is not None:
            return web.Response(status=403, text=f"refused: {why}\n", headers=ANSWER_HEADERS)
        try:
            answer = await handler(request)
        except web.HTTPException as error:
            error.headers.update(named)
            raise
        answer.headers.update(named)
        return answer

    return admit
