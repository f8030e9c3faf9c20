"""Requests to an application: each one that makes a call is a run, without marked functions.

ASGI and WSGI alike: the application object's own ``__call__`` is wrapped, so it does not matter which server calls it. A run's
input is the request, its output the response; the server, middleware around the object, and lifespan are outside. A function
marked with `freezeframe.run` that a request calls is a separate run; then the request is not one.

A replay calls the application with the recorded request, in process (`freezeframe_replay.process.requests`).
"""

from __future__ import annotations

import functools
import inspect
import io
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard, report
from freezeframe.context.current import current_place
from freezeframe.hosts import aiohttp_server, grpc_server
from freezeframe.hosts.request_runs import RequestFacts, ServedRequest, begin, forget, recorded_headers
from freezeframe.hosts.web_sockets import WebSocketSession, begin_session, call_in_session
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.body import Body
from freezeframe.seams.recorder.patching import IMPORT_HOOK, Patches

APPLICATIONS: Final = (
    ("starlette.applications", "Starlette"),  # and FastAPI
    ("litestar.app", "Litestar"),
    ("quart.app", "Quart"),
    ("django.core.handlers.asgi", "ASGIHandler"),
    ("django.core.handlers.wsgi", "WSGIHandler"),
    ("flask.app", "Flask"),
)
"""Module and class of each framework's application."""
_CLASSES: Final = (*APPLICATIONS, ("aiohttp.web_app", "Application"))
_MAKERS: Final = frozenset({"FastAPI", "get_asgi_application", "get_wsgi_application"})
_READS: Final = frozenset(["read", "read1", "readinto", "readline", "readlines"])
"""Read methods of a WSGI input stream, which may lack them; each may return less than requested."""
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class _Ends:
    """Work to do before a server ends the process: uvicorn uses a signal, which skips every `atexit`."""

    flush: Callable[[], object] | None = None


_patches: Final = Patches()
_ENDS: Final = _Ends()


def install(flush: Callable[[], object] | None = None) -> None:
    """Wrap the applications' classes: now if they are loaded, else when they are imported. `flush` delivers what is queued."""
    _ENDS.flush = flush
    for module, name in APPLICATIONS:
        IMPORT_HOOK.when_imported(module, functools.partial(_install, name))
    IMPORT_HOOK.when_imported("aiohttp.web_app", functools.partial(aiohttp_server.install, _patches))
    IMPORT_HOOK.when_imported("grpc._utilities", functools.partial(grpc_server.install, _patches))


def _install(name: str, module: ModuleType) -> None:
    application = getattr(module, name)
    _patches.replace(application, "__call__", around_asgi if is_asgi(application) else around_wsgi)


def uninstall() -> None:
    """Restore the classes."""
    _patches.undo()
    _ENDS.flush = None
    forget()


def is_asgi(application: type) -> bool:
    """Return whether applications of this class are called by ASGI's rules, else by WSGI's."""
    return inspect.iscoroutinefunction(application.__call__)


def is_application(found: Any) -> bool:
    """Return whether an object answers requests, as an application of a framework that is loaded."""
    return isinstance(found, tuple(_loaded()))


def application_names() -> frozenset[str]:
    """Return the names of the classes of applications, and of the functions that make one of Django's."""
    return frozenset({name for _, name in _CLASSES} | _MAKERS | {kind.__name__ for kind in _with_subclasses(_loaded())})


def _loaded() -> list[type]:
    """Return the classes of applications whose modules are loaded."""
    found = (getattr(sys.modules.get(module), name, None) for module, name in _CLASSES)
    return [kind for kind in found if isinstance(kind, type)]


def _with_subclasses(kinds: Iterable[type]) -> Iterator[type]:
    for kind in kinds:
        yield kind
        yield from _with_subclasses(kind.__subclasses__())


def _is_run() -> bool:
    return current_place().run is None and (switch.serving() is not None or switch.recorder() is not None)


# -- ASGI ---------------------------------------------------------------------------------------------------------------


def around_asgi(original: Any) -> Any:
    # with the parameters of the original: uvicorn takes what can be called without any for a factory
    @functools.wraps(original)
    async def called(self: Any, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await original(self, scope, receive, _flushed_first(send))
        if scope["type"] not in ("http", "websocket") or not _is_run():
            return await original(self, scope, receive, send)
        if scope["type"] == "websocket":
            session: WebSocketSession | None = None
            with guard("socket.begin"):
                session = begin_session(self, scope, functools.partial(_facts_of_asgi, _copied(scope)))
            call = functools.partial(original, self, scope)
            return await (call(receive, send) if session is None else call_in_session(session, call, receive, send))
        ahead = None
        if switch.serving() is not None:  # a replay compares the whole request when it is entered
            ahead = await _read_all(receive)
            receive = _replaying(ahead, receive)
        try:
            request = begin(self, functools.partial(_facts_of_asgi, _copied(scope)), ahead)
        except Exception as error:
            report("request.begin", error)
            return await original(self, scope, receive, send)
        root = scope.get("root_path", "")
        leave = request.scope.enter()
        try:
            await original(self, scope, _recording(request, receive), _watched(request, send))
        except BaseException as error:
            leave()
            request.end(error)
            raise
        leave()
        request.end(route=functools.partial(_route, scope, root))

    return called


def _route(scope: Message, root: str) -> str:
    """Return method and path of the route. An application that is mounted in another one knows its own part of the path."""
    path, mounted = getattr(scope.get("route"), "path", None), scope.get("root_path", "").removeprefix(root)
    return f"{scope['method']} {mounted}{path}" if isinstance(path, str) else ""


def _flushed_first(send: Send) -> Send:
    async def watched_send(message: Message) -> None:
        if message["type"].startswith("lifespan.shutdown.") and _ENDS.flush is not None:
            with guard("servers.flush"):
                _ENDS.flush()
        await send(message)

    return watched_send


def _copied(scope: Message) -> Message:
    """Return a copy of the recorded parts of a scope, because applications change it."""
    return {
        "method": scope["method"] if scope["type"] == "http" else "WEBSOCKET",
        "path": scope["path"],
        "query_string": scope.get("query_string", b""),
        "headers": [*scope.get("headers", ())],
        "client": scope.get("client"),
    }


def _facts_of_asgi(scope: Message) -> RequestFacts:
    method, path, headers, client = scope["method"], scope["path"], scope["headers"], scope["client"]

    def request_input() -> dict[str, Any]:
        return {
            "method": method,
            "path": path,
            "query": scope["query_string"].decode("latin-1"),
            "headers": recorded_headers(_texts(headers)),
            "client": client[0] if client else "",
        }

    def first(names: tuple[str, ...]) -> str | None:
        wanted = _in_bytes(names)
        found = {name: value for name, value in headers if name in wanted}
        return next((bytes(found[name]).decode("latin-1") for name in wanted if name in found), None) if found else None

    return RequestFacts(name=f"{method} {path}", first=first, given=request_input)


@functools.lru_cache
def _in_bytes(names: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(name.encode("latin-1") for name in names)


def _texts(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [(bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in headers]


def _recording(request: ServedRequest, receive: Receive) -> Receive:
    async def recorded_receive() -> Message:
        message = await receive()
        try:
            if message["type"] == "http.request":
                request.body.add(bytes(message.get("body", b"")))
            elif message["type"] == "http.disconnect":
                request.client_left()
        except Exception as error:
            report("request.receive", error)
        return message

    return recorded_receive


def _watched(request: ServedRequest, send: Send) -> Send:
    async def watched_send(message: Message) -> None:
        try:
            if message["type"] == "http.response.start":
                request.status = message["status"]
                request.headers = functools.partial(_texts, message.get("headers", ()))
            elif message["type"] == "http.response.body":
                request.gives(bytes(message.get("body", b"")))
                request.is_answered = not message.get("more_body", False)
        except Exception as error:
            report("request.send", error)
        await send(message)

    return watched_send


async def _read_all(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += bytes(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return body


def _replaying(body: bytes, receive: Receive) -> Receive:
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def request_input() -> Message:
        return first.pop() if first else await receive()

    return request_input


# -- WSGI ---------------------------------------------------------------------------------------------------------------


def around_wsgi(original: Any) -> Any:
    @functools.wraps(original)
    def called(self: Any, environ: dict[str, Any], start_response: Any) -> Any:
        if not _is_run():
            return original(self, environ, start_response)
        try:
            ahead = None
            if switch.serving() is not None:
                ahead = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                environ["wsgi.input"] = io.BytesIO(ahead)
            request = begin(self, functools.partial(_facts_of_wsgi, {**environ}), ahead)  # applications change it
            environ["wsgi.input"] = _Heard(environ["wsgi.input"], request.body)
        except Exception as error:
            report("request.begin", error)
            return original(self, environ, start_response)

        def started(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            try:
                request.status = int(status.split(" ", 1)[0])
                request.headers = [*headers].__iter__
            except Exception as fault:
                report("request.send", fault)
            return start_response(status, headers, *error)

        try:
            answer = request.scope.call(original, self, environ, started)
        except BaseException as error:
            request.end(error)
            raise
        if not request.is_run and isinstance(answer, environ.get("wsgi.file_wrapper") or ()):
            request.end()
            return answer  # the server may send such a file by itself
        return _SizedAnswer(answer, request) if hasattr(answer, "__len__") else _Answer(answer, request)

    return called


class _Heard:
    """The body of a request to WSGI: notes the parts that the application reads."""

    def __init__(self, stream: Any, body: Body) -> None:
        self._stream = stream
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._stream, name)
        return functools.partial(self._noted, found) if name in _READS else found

    def _noted(self, read: Callable[..., Any], *args: Any) -> Any:
        data = read(*args)
        with guard("request.receive"):
            for piece in data if isinstance(data, list) else [args[0][:data] if isinstance(data, int) else data]:
                self._body.add(bytes(piece))
        return data


class _Answer:
    """The response of a WSGI application: notes its pieces, and runs the code that makes them inside the run."""

    def __init__(self, answer: Iterable[bytes], request: ServedRequest) -> None:
        self._answer = answer
        self._pieces: Iterator[bytes] | None = None
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        if hasattr(self._answer, "__next__"):
            self._pieces = iter(self._answer)
        else:  # Django makes all pieces of an asynchronous stream here
            self._pieces = self._inside(iter, self._answer)
        return self

    def __next__(self) -> bytes:
        if self._pieces is None:
            iter(self)
        piece = self._inside(next, self._pieces)
        try:
            self._request.gives(piece)
        except Exception as error:
            report("request.send", error)
        return piece

    def _inside(self, call: Callable[[Any], Any], given: Any) -> Any:
        try:
            return self._request.scope.call(call, given)
        except StopIteration:
            self._request.is_answered = True
            raise
        except BaseException as error:
            self._request.end(error)
            raise

    def close(self) -> None:
        """End the request. Servers always call it."""
        request = self._request
        try:
            close = getattr(self._answer, "close", None)
            if close is not None:
                request.scope.call(close)
        finally:
            try:
                request.client_left()
                request.end()
            except Exception as error:
                report("request.close", error)


class _SizedAnswer(_Answer):
    """A response with a length, from which servers compute Content-Length if the body is one piece."""

    def __len__(self) -> int:
        return len(self._answer)  # pyright: ignore[reportArgumentType]  # it has one


def _facts_of_wsgi(environ: Mapping[str, Any]) -> RequestFacts:
    method = environ["REQUEST_METHOD"]
    path = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1").decode("utf-8", "replace")

    def request_input() -> dict[str, Any]:
        headers = [(name[5:].replace("_", "-"), value) for name, value in environ.items() if name.startswith("HTTP_")]
        headers += [("content-type", environ["CONTENT_TYPE"])] if environ.get("CONTENT_TYPE") else []
        return {
            "method": method,
            "path": path,
            "query": environ.get("QUERY_STRING", ""),
            "headers": recorded_headers(headers),
            "client": environ.get("REMOTE_ADDR", ""),
        }

    def first(names: tuple[str, ...]) -> str | None:
        keys = (f"HTTP_{name.upper().replace('-', '_')}" for name in names)
        return next((environ[key] for key in keys if key in environ), None)

    return RequestFacts(name=f"{method} {path}", first=first, given=request_input)
