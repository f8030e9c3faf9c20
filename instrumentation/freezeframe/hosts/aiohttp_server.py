"""Record requests to applications of aiohttp's server, and WebSockets, as `applications` does for ASGI and WSGI."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.context.current import current_place
from freezeframe.hosts.request_runs import RequestFacts, ServedRequest, begin, recorded_headers
from freezeframe.hosts.web_sockets import Message, WebSocketSession, begin_session, call_in_session
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches

_open: Final[dict[int, ServedRequest]] = {}
"""Id of an aiohttp request, and of its body -> its recording, while it is being answered."""
_sessions: Final[dict[int, WebSocketSession]] = {}
"""Id of an aiohttp request -> its WebSocket, while its handler runs."""
_LOST: Final = 1006
"""Recorded for a lost connection, in place of the client's close code."""
_HANDSHAKE: Final = ("connection", "sec-websocket-", "upgrade")
"""Prefixes of headers that only open a WebSocket."""
BODY: Final = "freezeframe.body"
"""Key of a request under which a replay passes its body beforehand."""


def install(patches: Patches, module: ModuleType) -> None:
    """Patch ``aiohttp.web_app``."""
    from aiohttp import streams, web_response, web_ws

    patches.around(module.Application, "_handle", _handle)
    patches.around(streams.StreamReader, "_read_nowait_chunk", _read)  # below every way to read a body
    patches.around(web_response.StreamResponse, "write", _write)
    socket = web_ws.WebSocketResponse
    patches.around(socket, "prepare", _accept)
    patches.around(socket, "receive", _receive)  # below iteration, receive_str, ...
    patches.around(socket, "send_str", _send)
    patches.around(socket, "send_bytes", _send)
    patches.around(socket, "close", _close_socket)


async def _handle(original: Any, app: Any, request: Any) -> Any:
    from aiohttp import web

    is_on = switch.serving() is not None or switch.recorder() is not None
    if not is_on or current_place().run is not None:
        return await original(app, request)
    if upgrade := request.headers.get("upgrade"):
        return await (_serve_web_socket(original, app, request) if upgrade.lower() == "websocket" else original(app, request))
    noted: ServedRequest | None = None
    with guard("request.begin"):
        ahead = None if switch.serving() is None else request.pop(BODY, b"")
        noted = begin(app, partial(_facts_of, request, request.method), ahead)
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


def _facts_of(request: Any, method: str) -> RequestFacts:  # nothing of a request of aiohttp's changes
    return RequestFacts(
        name=f"{method} {request.path}",
        first=lambda names: next((request.headers[name] for name in names if name in request.headers), None),
        given=lambda: {
            "method": method,
            "path": request.path,
            "query": request.query_string,
            "headers": recorded_headers(item for item in request.headers.items() if not item[0].lower().startswith(_HANDSHAKE)),
            "client": request.remote or "",
        },
    )


def _close(request: Any) -> None:
    _open.pop(id(request), None)
    _open.pop(id(request.content), None)


def _end(noted: ServedRequest, request: Any, response: Any) -> None:
    _close(request)
    with guard("request.send"):
        noted.status, noted.headers = response.status, response.headers.items
        body = getattr(response, "body", None)
        if _is_gone(request):
            noted.client_left()
        if isinstance(body, bytes | bytearray):
            noted.gives(bytes(body))
    noted.end(route=partial(_route, request))


def _route(request: Any) -> str:
    resource = getattr(request.match_info.route, "resource", None)
    return f"{request.method} {resource.canonical}" if resource is not None else ""


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


# -- WebSockets ---------------------------------------------------------------------------------------------------------


async def _serve_web_socket(original: Any, app: Any, request: Any) -> Any:
    session: WebSocketSession | None = None
    with guard("socket.begin"):
        session = _sessions[id(request)] = begin_session(app, request, partial(_facts_of, request, "WEBSOCKET"))
    if session is None:
        return await original(app, request)
    try:
        return await call_in_session(session, lambda *_: original(app, request), None, None)
    finally:
        _sessions.pop(id(request), None)


def _tell(request: Any, message: Message) -> None:
    with guard("socket.send"):
        session = _sessions.get(id(request))
        if session is not None:
            session.on_send(message)


async def _accept(original: Any, socket: Any, request: Any) -> Any:
    writer = await original(socket, request)
    _tell(request, {"type": "websocket.accept", "subprotocol": socket.ws_protocol})
    return writer


async def _receive(original: Any, socket: Any, *args: Any, **options: Any) -> Any:
    message = await original(socket, *args, **options)
    with guard("socket.receive"):
        session, data, kind = _sessions.get(id(socket._req)), message.data, message.type.name
        if session is not None and kind in ("TEXT", "BINARY"):
            text = kind == "TEXT" and isinstance(data, bytes)  # of a socket that does not decode them
            session.on_receive(
                {"type": "websocket.receive", "text" if kind == "TEXT" else "bytes": data.decode() if text else data}
            )
        elif session is not None and session.closed is None and not session.has_left and kind in ("CLOSE", "CLOSED", "ERROR"):
            session.on_receive({"type": "websocket.disconnect", "code": int(data or 1005) if kind == "CLOSE" else _LOST})
    return message


async def _send(original: Any, socket: Any, data: Any, *args: Any, **options: Any) -> None:
    session, send = _sessions.get(id(socket._req)), partial(original, socket, data, *args, **options)
    message = {"type": "websocket.send", "text" if isinstance(data, str) else "bytes": data}
    await (send() if session is None else session.pass_on(message, send))


async def _close_socket(original: Any, socket: Any, *, code: int = 1000, **options: Any) -> Any:
    if not socket.closed and socket.close_code is None:  # else the client has closed it
        _tell(socket._req, {"type": "websocket.close", "code": int(code)})
    return await original(socket, code=code, **options)
