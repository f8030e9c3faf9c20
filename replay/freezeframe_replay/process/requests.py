"""Calls an application with a recorded request, in process: no port is opened, and lifespan is run around it as a server does.

The application's answer is recorded and compared in the same place as in the run, around the application itself
(`freezeframe.hosts.applications`).
"""

from __future__ import annotations

import asyncio
import io
import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from freezeframe.hosts import aiohttp_server
from freezeframe.hosts.applications import Message, is_asgi
from freezeframe.hosts.grpc_server import METHOD
from freezeframe.hosts.web_sockets import RECEIVED
from freezeframe.seams.recorder.patching import Patches
from freezeframe_replay.process.servicers import call_servicer
from freezeframe_schemas import values
from freezeframe_schemas.errors import ReplayMiss

_SERVER: Final = ("127.0.0.1", 80)
_NO_CODE: Final = 1005
_LOST: Final = 1006
"""Close codes of a WebSocket if its client gives no reason, and if the connection is lost."""


def answer_request(app: Any, given: Mapping[str, Any], output: str | None) -> None:
    """Call the application with the request; its exceptions propagate.

    Args:
        app: an ASGI, WSGI or aiohttp application, or a servicer of gRPC.
        given: the request, as `freezeframe.hosts.applications` recorded it.
        output: the recorded response, which shows when the client left; None if the application raised.
    """
    if given["method"] == "WEBSOCKET":
        is_aiohttp = type(app).__module__ == "aiohttp.web_app"
        asyncio.run(_converse_aiohttp(app, given, output) if is_aiohttp else _converse(app, given, output))
        return
    answered: Any = values.decode(output) if output else None
    left_after = answered.get("client_left_after") if isinstance(answered, dict) else None
    if type(app).__module__ == "aiohttp.web_app":
        asyncio.run(_ask_aiohttp(app, given, left_after))
    elif given["method"] == METHOD:
        call_servicer(app, given, left_after)
    elif is_asgi(type(app)):
        asyncio.run(_ask_asgi(app, given, left_after))
    else:
        _ask_wsgi(app, given, left_after)


def _body(given: Mapping[str, Any]) -> bytes:
    body: str | bytes = given.get("body") or b""
    return body if isinstance(body, bytes) else body.encode()


async def _ask_asgi(app: Any, given: Mapping[str, Any], left_after: int | None) -> None:
    client = _Client(_body(given), left_after)
    await _call_asgi(app, given, client, {"type": "http", "method": given["method"], "scheme": "http"})


async def _converse(app: Any, given: Mapping[str, Any], output: str | None) -> None:
    own = {"type": "websocket", "scheme": "ws", "subprotocols": [], RECEIVED: given["received"]}
    await _call_asgi(app, given, _Talker(given["received"], cancels=output is None), own)


async def _call_asgi(app: Any, given: Mapping[str, Any], client: _Client | _Talker, own: Mapping[str, Any]) -> None:
    lifespan = _Lifespan(app)
    await lifespan.start()
    try:
        scope: Message = {
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "path": given["path"],
            "raw_path": quote(given["path"]).encode(),
            "query_string": given["query"].encode("latin-1"),
            "root_path": "",
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given["headers"].items()],
            "client": (given["client"], 0) if given["client"] else None,
            "server": _SERVER,
            "state": dict(lifespan.state),
            **own,
        }
        await app(scope, client.receive, client.send)
    except ReplayMiss:  # nothing is compared from here on, and a shutdown may wait for something that never happens
        raise
    except BaseException:
        await lifespan.stop()
        raise
    await lifespan.stop()


class _Talker:
    """The client of a WebSocket: sends each message once the application has sent as many as in the run.

    `cancels`: after the last one it cancels the application, which returned nothing in the run.
    """

    def __init__(self, messages: list[list[Any]], *, cancels: bool) -> None:
        self._cancels = asyncio.current_task() if cancels else None
        self._refused = [(sent, what) for sent, what in messages if isinstance(what, dict) and "raised" in what]
        self._left = deque(found for found in messages if (*found,) not in self._refused)
        self._sent = 0
        self._changed = asyncio.Event()
        self._is_connected = False

    async def receive(self) -> Message:
        if not self._is_connected:
            self._is_connected = True
            return {"type": "websocket.connect"}
        while not self._left or self._left[0][0] > self._sent:
            if not self._left and self._cancels is not None:
                self._cancels.cancel()
            self._changed.clear()
            await self._changed.wait()
        _, data = self._left.popleft()
        if isinstance(data, dict):
            return {
                "type": "websocket.disconnect",
                "code": data["left"],
                **{name: data[name] for name in data if name == "reason"},
            }
        return {"type": "websocket.receive", "text" if isinstance(data, str) else "bytes": data}

    def leave(self, code: int) -> None:
        """Leave at once."""
        self._left.appendleft([0, {"left": code}])
        self._changed.set()

    async def send(self, message: Message) -> None:
        """Take a message of the application, or refuse it as the server did."""
        refused = next((one for one in self._refused if (one[0], one[1]["type"]) == (self._sent, message["type"])), None)
        self._sent += message["type"] == "websocket.send"
        self._changed.set()
        if refused is not None:
            self._refused.remove(refused)
            error = values.decode_exception(refused[1]["raised"])  # the server's own class is not imported
            raise OSError(str(error)) if refused[1]["gone"] and not isinstance(error, OSError) else error


class _Client:
    """Sends the request, and leaves when the recorded client did."""

    def __init__(self, body: bytes, left_after: int | None) -> None:
        self._requests: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        self._left_after = left_after
        self._pieces = 0
        self._gone = asyncio.Event()
        self._look(ended=False)

    async def receive(self) -> Message:
        """Return the request, then the disconnect, once the client has left."""
        if self._requests:
            return self._requests.pop()
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take a message of the response."""
        if message["type"] == "http.response.body":
            self._pieces += bool(message.get("body"))
            self._look(ended=not message.get("more_body", False))

    def _look(self, *, ended: bool) -> None:
        if ended or (self._left_after is not None and self._pieces >= self._left_after):
            self._gone.set()


class _Lifespan:
    """Start and stop of a server. An application without a lifespan is left alone."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._events: asyncio.Queue[Message] = asyncio.Queue()
        self._answers: asyncio.Queue[Message | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self.state: dict[str, Any] = {}

    async def start(self) -> None:
        """Start the application.

        Raises:
            RuntimeError: it reports that it could not start.
        """
        self._task = asyncio.create_task(self._run())
        await self._ask("startup")

    async def stop(self) -> None:
        if self._task is not None and not self._task.done():
            await self._ask("shutdown")
            await self._task

    async def _ask(self, event: str) -> None:
        await self._events.put({"type": f"lifespan.{event}"})
        answer = await self._answers.get()
        if answer is not None and answer["type"] == f"lifespan.{event}.failed":
            raise RuntimeError(f"the application failed at {event}: {answer.get('message', '')}")

    async def _run(self) -> None:
        scope: Message = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            await self._app(scope, self._events.get, self._answers.put)
        except Exception as error:
            print(f"freezeframe: the application does not support lifespan: {error}", file=sys.stderr)
        finally:
            await self._answers.put(None)


async def _ask_aiohttp(app: Any, given: Mapping[str, Any], left_after: int | None) -> None:
    from aiohttp import ClientConnectionResetError, web

    sent = 0

    def is_gone() -> bool:
        return left_after is not None and sent >= left_after

    async def write(piece: bytes) -> None:
        nonlocal sent
        if is_gone():
            raise ClientConnectionResetError("Cannot write to closing transport")
        sent += bool(piece)

    runner = web.AppRunner(app)
    await runner.setup()
    try:
        request = _request_of_aiohttp(given["method"], given, given["headers"])
        request[aiohttp_server.BODY] = _body(given)
        request.transport.is_closing = is_gone
        request.writer.write = write
        try:
            response = await app._handle(request)
        except web.HTTPException as refusal:
            response = refusal
        if not is_gone():
            await response.prepare(request)
            await response.write_eof()
    except ConnectionError:
        if not is_gone():
            raise
    finally:
        await runner.cleanup()


def _request_of_aiohttp(method: str, given: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
    from unittest.mock import Mock

    from aiohttp import streams, test_utils

    reader = streams.StreamReader(Mock(), 2**16, loop=asyncio.get_running_loop())
    reader.feed_data(_body(given))
    reader.feed_eof()
    path = quote(given["path"]) + (f"?{given['query']}" if given["query"] else "")
    return test_utils.make_mocked_request(method, path, headers, payload=reader).clone(remote=given["client"])


async def _converse_aiohttp(app: Any, given: Mapping[str, Any], output: str | None) -> None:
    """Connect aiohttp's own WebSocket to a client that feeds its frames to the parser."""
    from unittest.mock import AsyncMock

    from aiohttp import WSCloseCode, web
    from aiohttp.http import WS_CLOSING_MESSAGE

    runner = web.AppRunner(app)
    await runner.setup()
    request = _handshake(given, (values.decode(output) if output else {}).get("accepted") or {})
    talker = _Talker(given["received"], cancels=output is None)
    await talker.receive()  # the handshake
    parsers: list[Any] = []

    def set_parser(parser: Any, *_: Any, **__: Any) -> None:
        parsers.append(parser)

    request.protocol.set_parser = set_parser
    request.protocol.transport.is_closing = lambda: False
    request.protocol._drain_helper = AsyncMock()

    async def received(original: Any, socket: Any, timeout: float | None = None) -> Any:
        if parsers and not socket.closed and socket.close_code is None and not socket._waiting:
            socket._waiting = True  # so that another task's `close` ends the wait as it does
            try:
                message = await asyncio.wait_for(talker.receive(), timeout or socket._receive_timeout)
            finally:
                socket._waiting = False
            if socket._close_wait is not None:
                socket._set_closing(WSCloseCode.OK)
                socket._close_wait.set_result(None)
                return WS_CLOSING_MESSAGE
            if message.get("code") == _LOST:
                parsers[0].feed_eof()
            else:
                parsers[0].feed_data(_frame(message))
        return await original(socket, timeout)

    async def sent(original: Any, socket: Any, *args: Any, **options: Any) -> None:
        await talker.send({"type": "websocket.send"})
        await original(socket, *args, **options)

    async def closed(original: Any, socket: Any, *, code: int = 1000, **options: Any) -> Any:
        if parsers:  # clients answer with the same code
            parsers[0].feed_data(_frame({"type": "websocket.disconnect", "code": code}))
            talker.leave(code)
        return await original(socket, code=code, **options)

    def unsent(original: Any, socket: Any) -> None:
        """Disable pongs: there is no connection to watch."""

    patches = Patches()
    patches.around(web.WebSocketResponse, "_reset_heartbeat", unsent)
    for name, hook in {"receive": received, "send_str": sent, "send_bytes": sent, "close": closed}.items():
        patches.around(web.WebSocketResponse, name, hook)
    try:
        await app._handle(request)
    finally:
        patches.undo()
        await runner.cleanup()


def _handshake(given: Mapping[str, Any], accepted: Mapping[str, Any]) -> Any:
    own = {
        "Upgrade": "websocket",
        "Connection": "upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "A" * 22 + "==",
    }
    if accepted.get("subprotocol"):
        own["Sec-WebSocket-Protocol"] = accepted["subprotocol"]
    request = _request_of_aiohttp("GET", given, {**given["headers"], **own})
    request._message = request._message._replace(upgrade=True)
    request[RECEIVED] = given["received"]
    return request


def _frame(message: Message) -> bytes:
    """Return a message of a client as a frame, which a parser also takes without a mask."""
    text, data, code = message.get("text"), message.get("bytes"), message.get("code", _NO_CODE)
    kind = 8 if message["type"] == "websocket.disconnect" else 2 if text is None else 1
    body = text.encode() if text is not None else data if data is not None else b"" if code == _NO_CODE else code.to_bytes(2)
    size = len(body)
    length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2) if size < 1 << 16 else b"\x7f" + size.to_bytes(8)
    return bytes([0x80 | kind]) + length + body


def _ask_wsgi(app: Any, given: Mapping[str, Any], left_after: int | None) -> None:
    body = _body(given)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": given["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": given["path"].encode().decode("latin-1"),
        "QUERY_STRING": given["query"],
        "CONTENT_LENGTH": str(len(body)),
        "REMOTE_ADDR": given["client"],
        "SERVER_NAME": _SERVER[0],
        "SERVER_PORT": str(_SERVER[1]),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": True,
    }
    environ |= {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in given["headers"].items()}
    if "content-type" in given["headers"]:
        environ["CONTENT_TYPE"] = environ.pop("HTTP_CONTENT_TYPE")

    def start_response(status: str, headers: list[tuple[str, str]], *error: Any) -> Callable[[bytes], None]:
        return lambda piece: None

    answer = app(environ, start_response)
    pieces = 0
    try:
        for piece in answer if left_after != 0 else ():
            pieces += bool(piece)
            if left_after is not None and pieces >= left_after:
                break
    finally:
        close = getattr(answer, "close", None)
        if close is not None:
            close()
