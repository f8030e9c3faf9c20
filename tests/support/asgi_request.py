"""A request to an application of ASGI that is one function, without a server or a client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from freezeframe.hosts import applications
from freezeframe.seams.recorder.patching import Patches

Handler = Callable[[Any], Awaitable[None]]


def ask(handler: Handler, path: str = "/chat", **scope: Any) -> None:
    """Have a request answered by an application of ASGI. None in `scope` leaves a field out."""

    class Application:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await handler(scope)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ok"})

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        del message

    patches = Patches()
    patches.replace(Application, "__call__", applications.around_asgi)
    scope_of_request: Any = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [], **scope}
    asyncio.run(Application()({name: value for name, value in scope_of_request.items() if value is not None}, receive, send))
