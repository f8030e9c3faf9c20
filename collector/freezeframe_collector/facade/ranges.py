"""HEAD and Range over the result of a statement: readers of Parquet over HTTP ask for the footer first, then for columns.

A statement that runs twice may give other bytes (rows came in, no order was asked for), so a result is held from the first
request on, and its parts are cut from it.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from freezeframe_collector.facade.protocol import QueryRequest
from freezeframe_collector.readers.errors import ClickHouseError

HELD_BYTES: Final = 64 << 20
"""Of all results together. A larger one is read in one piece, without Range."""
_HELD_S: Final = 60.0
"""After the last request for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementResult:
    """All that a statement answered."""

    body: bytes
    headers: Mapping[str, str]
    etag: str


@dataclass(slots=True)
class _Place:
    result: StatementResult | None = None
    used: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Results:
    """Results by who asked and what, the least recently used first."""

    def __init__(self) -> None:
        self._places: dict[object, _Place] = {}

    async def get(self, key: object, make: Callable[[], Awaitable[StatementResult]]) -> StatementResult:
        """Return the held result, or make it; a request for the same result waits meanwhile."""
        self._expire()
        place = self._places.pop(key, None) or _Place()
        self._places[key] = place
        async with place.lock:
            result = place.result
            if result is None:
                try:
                    result = place.result = await make()
                finally:
                    if place.result is None and self._places.get(key) is place:
                        del self._places[key]
            place.used = time.monotonic()
        self._make_room()
        return result

    def _expire(self) -> None:
        oldest = time.monotonic() - _HELD_S
        for key, place in [*self._places.items()]:
            if place.result is not None and place.used < oldest:
                del self._places[key]

    def _make_room(self) -> None:
        held = [(key, len(place.result.body)) for key, place in self._places.items() if place.result is not None]
        size = sum(bytes_ for _, bytes_ in held)
        for key, bytes_ in held:
            if size > HELD_BYTES:
                del self._places[key]
                size -= bytes_


def wants_ranges(http: web.Request, request: QueryRequest) -> bool:
    """Return whether a request is for a part of a result, or for its size; never if a session or blocks decide the bytes."""
    asks = http.method == "HEAD" or (http.method == "GET" and _slice(http) is not None)
    return asks and request.session_id is None and not request.blocks


def key_of(user: str, request: QueryRequest) -> object:
    """Return what makes two requests ask for the same result."""
    settings, parameters = frozenset(request.settings.items()), frozenset(request.parameters.items())
    return user, request.sql, request.database, request.default_format, settings, parameters


async def gather(pieces: AsyncGenerator[bytes], headers: Mapping[str, str]) -> StatementResult:
    """Return the result of these pieces; the headers may be known only once they have come.

    Raises:
        ClickHouseError: it is too large to be held.
    """
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > HELD_BYTES:
            raise ClickHouseError(
                396, "TOO_MANY_ROWS_OR_BYTES", f"the result has over {HELD_BYTES} bytes: ask for it without HEAD and Range"
            )
    return StatementResult(body=bytes(body), headers={**headers}, etag=f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def answer(http: web.Request, result: StatementResult, headers: Mapping[str, str]) -> web.Response:
    """Return the part that was asked for, or for HEAD the headers of the whole.

    Source: RFC 9110, sections 13.1.5 (If-Range) and 14 (Range).
    """
    headers = {**headers, **result.headers, "Accept-Ranges": "bytes", "ETag": result.etag}
    wanted = _slice(http) if http.headers.get("If-Range", result.etag) == result.etag else None
    if http.method == "HEAD" or wanted is None:
        return web.Response(body=result.body, headers=headers)
    size = len(result.body)
    start, end, _ = wanted.indices(size)
    if start >= end:
        return web.Response(status=416, headers={**headers, "Content-Range": f"bytes */{size}"})
    part = result.body[start:end]
    return web.Response(status=206, body=part, headers={**headers, "Content-Range": f"bytes {start}-{end - 1}/{size}"})


def _slice(http: web.Request) -> slice | None:
    """Return the one range that is asked for; several, or an invalid one, are ignored, as the RFC says."""
    if "Range" not in http.headers:
        return None
    try:
        return http.http_range
    except ValueError:
        return None
