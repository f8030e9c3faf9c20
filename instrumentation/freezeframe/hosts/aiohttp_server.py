"""Record requests to applications of aiohttp's server, as `applications` does for ASGI and WSGI; not WebSockets."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.context.current import current_place
from freezeframe.hosts.request_runs import Asked, Request, asked_with, begin
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches

_open: Final[dict[int, Request]] = {}
"""Id of an aiohttp request, and of its body -> its recording, while it is being answered."""
BODY: Final = "freezeframe.body"
"""Key of a request under which a replay gives its body beforehand."""


def install(patches: Patches, module: ModuleType) -> None:
    """Patch ``aiohttp.web_app``."""
    from aiohttp import streams, web_response

    patches.around(module.Application, "_handle", _handle)
    patches.around(streams.StreamReader, "_read_nowait_chunk", _read)  # below every way to read a body
    patches.around(web_response.StreamResponse, "write", _write)


async def _handle(original: Any, app: Any, request: Any) -> Any:
    from aiohttp import web

    is_on = switch.serving() is not None or switch.recorder() is not None
    if not is_on or current_place().run is not None or request.headers.get("upgrade"):
        return await original(app, request)
    noted: Request | None = None
    with guard("request.begin"):
        noted = begin(app, _asked(request), None if switch.serving() is None else request.pop(BODY, b""))
        _open[id(request)] = _open[id(request.content)] = noted
    if noted is None:
        return await original(app, request)
    try:
        with noted.scope.inside():
            response = await original(app, request)
    except web.HTTPException as refusal:
        _end(noted, request, refusal)
        raise
    except BaseException as error:
        _close(request)
        is_gone = False
        with guard("request.left"):
            is_gone = isinstance(error, ConnectionError) and _is_gone(request)
            if is_gone:
                noted.client_left()
        noted.end(None if is_gone else error)
        raise
    _end(noted, request, response)
    return response


def _asked(request: Any) -> Asked:  # nothing of a request of aiohttp's changes
    return Asked(
        name=f"{request.method} {request.path}",
        first=lambda names: next((request.headers[name] for name in names if name in request.headers), None),
        given=lambda: {
            "method": request.method,
            "path": request.path,
            "query": request.query_string,
            "headers": asked_with(request.headers.items()),
            "client": request.remote or "",
        },
    )


def _close(request: Any) -> None:
    _open.pop(id(request), None)
    _open.pop(id(request.content), None)


def _end(noted: Request, request: Any, response: Any) -> None:
    _close(request)
    with guard("request.send"):
        noted.status, noted.headers = response.status, response.headers.items
        body = getattr(response, "body", None)
        if _is_gone(request):
            noted.client_left()
        if isinstance(body, bytes | bytearray):
            noted.gives(bytes(body))
        resource = getattr(request.match_info.route, "resource", None)
        noted.route = f"{request.method} {resource.canonical}" if resource is not None else ""
    noted.end()


def _read(original: Any, reader: Any, size: int) -> bytes:
    data = original(reader, size)
    noted = _open.get(id(reader))
    if noted is not None:
        with guard("request.receive"):
            noted.body.add(bytes(data))
    return data


async def _write(original: Any, response: Any, data: Any) -> None:
    noted = _open.get(id(response._req))
    await original(response, data)  # raises if the client is gone
    if noted is not None:
        with guard("request.send"):
            noted.status, noted.headers = response.status, response.headers.items
            noted.gives(bytes(data))


def _is_gone(request: Any) -> bool:
    """Return whether the client has closed the connection."""
    return request.transport is None or request.transport.is_closing()
