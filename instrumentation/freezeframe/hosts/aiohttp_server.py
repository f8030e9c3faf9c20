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
"""Id of an aiohttp request -> its recording, while it is being answered."""


def install(patches: Patches, module: ModuleType) -> None:
    """Patch ``aiohttp.web_app``."""
    from aiohttp import web_request, web_response

    patches.around(module.Application, "_handle", _handle)
    patches.around(web_request.BaseRequest, "read", _read)
    patches.around(web_response.StreamResponse, "write", _write)


async def _handle(original: Any, app: Any, request: Any) -> Any:
    from aiohttp import web

    is_on = switch.serving() is not None or switch.recorder() is not None
    if not is_on or current_place().run is not None or request.headers.get("upgrade"):
        return await original(app, request)
    noted: Request | None = None
    with guard("request.begin"):
        ahead = None if switch.serving() is None else await request.read()
        noted = _open[id(request)] = begin(app, _asked(request), ahead)
    if noted is None:
        return await original(app, request)
    try:
        with noted.scope.inside():
            response = await original(app, request)
    except web.HTTPException as refusal:
        _end(noted, request, refusal)
        raise
    except BaseException as error:
        _open.pop(id(request), None)
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


def _end(noted: Request, request: Any, response: Any) -> None:
    _open.pop(id(request), None)
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


async def _read(original: Any, request: Any) -> bytes:
    is_new = request._read_bytes is None
    data = await original(request)
    noted = _open.get(id(request))
    if noted is not None and is_new:
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
