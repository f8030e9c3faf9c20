"""aiohttp: every attempt of every session, between connector, request and response.

aiohttp decompresses in its parser, so bodies are recorded decoded, without their ``content-encoding``. In a replay there is no
connection: the connector returns one that plays the recording.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Final

from freezeframe._cleaning import clean_headers, clean_request
from freezeframe._guard import guard
from freezeframe.seams.http import adapter as shared
from freezeframe.seams.http.adapter import watch_payload
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.recording import Recording, while_sending
from freezeframe.seams.recorder.responder import Responder
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Completion, Exchange, Request, Timeouts

SEAM: Final = "aiohttp"

_RECORDING: Final = "_freezeframe_recording"
_SWITCHING_PROTOCOLS: Final = 101


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``aiohttp.client``: the classes involved in one request."""
    from aiohttp.streams import StreamReader

    aiohttp: Any = module
    readers = _make_readers(StreamReader)
    patches.around(aiohttp.BaseConnector, "connect", _connect)
    patches.around(aiohttp.ClientRequest, "send", _send)
    patches.around(aiohttp.ClientResponse, "start", functools.partial(_start, readers=readers))
    patches.around(aiohttp.ClientResponse, "close", _close)
    patches.around(aiohttp.ClientResponse, "release", _close)


async def _connect(original: Callable[..., Awaitable[Any]], connector: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
    responder = switch.serving()
    if responder is not None:
        answer = await _ask(req, responder, _timeouts(*args, **kwargs))
        if answer is not None:
            return await _serve(responder, answer)
    recording = shared.record(SEAM, lambda: (replace(_write(req), timeouts=_timeouts(*args, **kwargs)), _known_body(req)))
    if recording is not None:
        setattr(req, _RECORDING, recording)
        if recording.request_body.comes_in_pieces:
            with guard("aiohttp.upload"):
                watch_payload(req.body, recording.request_body)
    with while_sending(recording):
        return await original(connector, req, *args, **kwargs)


async def _send(original: Callable[..., Awaitable[Any]], req: Any, conn: Any) -> Any:
    if isinstance(conn, _ServedConnection):
        return _make_response(req)
    recording: Recording | None = getattr(req, _RECORDING, None)
    if recording is None:
        return await original(req, conn)
    with while_sending(recording):
        response = await original(req, conn)
    setattr(response, _RECORDING, recording)
    return response


async def _start(original: Callable[..., Awaitable[Any]], response: Any, connection: Any, *, readers: _Readers) -> Any:
    if isinstance(connection, _ServedConnection):
        if (failure := shared.failure(connection.answer, ConnectionError)) is not None:
            raise failure
        return _fill(response, connection.answer, readers)
    recording: Recording | None = getattr(response, _RECORDING, None)
    if recording is None:
        return await original(response, connection)
    try:
        answer = await original(response, connection)
    except BaseException as error:
        recording.finish(Completion.NONE, error)
        raise
    with guard("aiohttp.response"):
        _watch(response, recording, readers)
    return answer


def _close(original: Callable[..., Any], response: Any) -> Any:
    try:
        return original(response)
    finally:
        recording: Recording | None = getattr(response, _RECORDING, None)
        if recording is not None:
            recording.finish(Completion.CLOSED_EARLY)


# -- record -------------------------------------------------------------------------------------------------------------


def _write(req: Any, body: bytes = b"") -> Request:
    return clean_request(req.method, str(req.url), req.headers.items(), body)


def _timeouts(traces: Any = None, timeout: Any = None, **_: Any) -> Timeouts | None:
    del traces
    if not hasattr(timeout, "sock_read"):
        return None
    connect = shared.shortest(timeout.connect, timeout.sock_connect)
    return ("connect", connect), ("read", timeout.sock_read), ("total", timeout.total)


def _known_body(req: Any) -> bytes | None:
    """Return the body, None if it is written piece by piece: a form with files, a generator."""
    body = req.body
    if body is None:
        return b""
    if isinstance(body, bytes | bytearray):
        return bytes(body)
    value = getattr(body, "_value", None)
    return bytes(value) if isinstance(value, bytes | bytearray) else None


def _watch(response: Any, recording: Recording, readers: _Readers) -> None:
    headers = list(response._raw_headers)
    if any(name.lower() == b"content-encoding" for name, _ in headers):  # the length is that of the encoded body
        headers = [pair for pair in headers if pair[0].lower() not in (b"content-encoding", b"content-length")]
    version = 11 if response.version is None else 10 * response.version.major + response.version.minor
    recording.answered(response.status, clean_headers(headers), response.reason, shared.version_of(version))
    if response.status == _SWITCHING_PROTOCOLS:
        recording.finish(Completion.CLOSED_EARLY)
    elif not isinstance(response.content, readers.base) or response.content.at_eof():
        recording.finish(Completion.COMPLETE)  # no body
    else:
        response.content = readers.tee(response.content, recording)


# -- serve --------------------------------------------------------------------------------------------------------------


async def _ask(req: Any, responder: Responder, timeouts: Timeouts | None) -> Exchange | None:
    body, known = req.body, _known_body(req)
    data = bytes(body) if isinstance(body, bytes | bytearray) else await body.as_bytes() if body is not None else b""
    edited = switch.edited(_write(req, data))
    if edited is not None:
        await _change_body(req, edited)
        data = edited
    return shared.ask(responder, SEAM, replace(_write(req, data), timeouts=timeouts), known)


async def _change_body(req: Any, body: bytes) -> None:
    if not hasattr(req, "update_body"):
        raise ReplayMiss(
            f"{req.method} {req.url}: this version of aiohttp cannot change the body of a request; upgrade aiohttp, or change "
            "the agent's code instead"
        )
    await req.update_body(body)


async def _serve(responder: Responder, answer: Exchange) -> _ServedConnection:
    await switch.take_turn(responder, answer)
    failure = shared.failure(answer, ConnectionError)
    if failure is not None and not _came_late(failure):
        raise failure
    return _ServedConnection(answer)


def _came_late(failure: BaseException) -> bool:
    """Return whether a timeout came after the connection: aiohttp reports any earlier one as a connection timeout."""
    return type(failure).__name__ == "SocketTimeoutError"


class _ServedConnection:
    """Replaces a connection and its protocol."""

    def __init__(self, answer: Exchange) -> None:
        self.answer = answer
        self.protocol = self
        self.transport = None
        self.upgraded = False

    def set_response_params(self, **params: Any) -> None:
        """Part of the protocol's interface."""

    def close(self) -> None:
        """Part of the connection's interface."""

    release = close


class _SentNothing:
    output_size = 0


def _make_response(req: Any) -> Any:
    from aiohttp.helpers import TimerNoop

    cls: Any = req.response_class
    options = {
        "writer": None,
        "continue100": None,
        "timer": TimerNoop(),
        "request_info": req.request_info,
        "traces": [],
        "loop": req.loop,
        "session": req._session,
        "stream_writer": _SentNothing(),
    }
    accepted = inspect.signature(cls.__init__).parameters
    return cls(req.method, req.original_url, **{name: value for name, value in options.items() if name in accepted})


def _fill(response: Any, answer: Exchange, readers: _Readers) -> Any:
    from aiohttp import HttpVersion, hdrs
    from multidict import CIMultiDict, CIMultiDictProxy

    raw = tuple(shared.served_headers(answer))
    headers: CIMultiDict[str] = CIMultiDict((name.decode("latin-1"), value.decode("latin-1")) for name, value in raw)
    response._closed = False
    response.version = HttpVersion(*divmod(shared.served_version(answer), 10))
    response.status = answer.response.status or 200
    response.reason = shared.served_reason(answer)
    response._headers = CIMultiDictProxy(headers)
    response._raw_headers = raw
    if cookies := headers.getall(hdrs.SET_COOKIE, ()):
        response._raw_cookie_headers = tuple(cookies)
    response.content = readers.served(answer, response._loop)
    return response


@dataclass(frozen=True, slots=True, kw_only=True)
class _Readers:
    """The two stream readers that replace the library's class."""

    base: Any
    tee: Callable[..., Any]
    served: Callable[..., Any]


def _make_readers(base: Any) -> _Readers:
    return _Readers(base=base, tee=_make_tee(base), served=_make_served(base))


def _make_tee(base: Any) -> Any:
    class Tee(base):
        """Delegates every read, and records its result."""

        __slots__ = ("_inner", "_recording")

        def __init__(self, inner: Any, recording: Recording) -> None:
            self._inner = inner
            self._recording = recording

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        async def _read(self, read: Awaitable[Any]) -> Any:
            try:
                data = await read
            except BaseException as error:
                if self._inner.exception() is not None:  # except the application's own timeout or cancellation
                    self._recording.finish(Completion.BROKEN, error)
                raise
            piece: Any = data[0] if isinstance(data, tuple) else data
            if piece:
                self._recording.chunk(bytes(piece))
            if self._inner.at_eof():
                self._recording.finish(Completion.COMPLETE)
            return data

        def read_nowait(self, n: int = -1) -> bytes:
            data = self._inner.read_nowait(n)
            self._recording.chunk(data)
            return data

    for name in _READS:
        setattr(Tee, name, _watched(name))
    for name in _DELEGATED:
        if hasattr(base, name):
            setattr(Tee, name, _delegate(name))
    return Tee


def _make_served(base: Any) -> Any:
    class Served(base):
        """Feeds the recorded chunks one by one as they are read; then the end, or the recorded error."""

        __slots__ = ("_answer", "_end", "_left")

        def __init__(self, answer: Exchange, loop: Any) -> None:
            super().__init__(_Protocol(), 2**16, loop=loop)
            self._answer = answer
            self._left = [chunk for chunk in answer.response.chunks if chunk.data]
            self._end = shared.end_of_stream(answer)
            if not self._left and self._end is None:
                self.feed_eof()

        async def _wait(self, func_name: str) -> None:
            """Called by every read that finds the buffer empty."""
            if self._left:
                self.feed_data(shared.take_chunk(self._answer, self._left.pop(0)))
            elif self._end is not None:
                self.set_exception(self._end)
                raise self._end
            if not self._left and self._end is None:
                self.feed_eof()

    return Served


_READS: Final = ("readline", "readuntil", "read", "readany", "readchunk", "readexactly")

_DELEGATED: Final = (
    "exception",
    "set_exception",
    "on_eof",
    "feed_eof",
    "is_eof",
    "at_eof",
    "wait_eof",
    "unread_data",
    "feed_data",
    "begin_http_chunk_receiving",
    "end_http_chunk_receiving",
    "get_read_buffer_limits",
    "set_read_chunk_size",
    "__repr__",
)


def _watched(name: str) -> Callable[..., Any]:
    async def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await self._read(getattr(self._inner, name)(*args, **kwargs))

    return read


def _delegate(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._inner, name)(*args, **kwargs)

    return method


class _Protocol:
    """The protocol that a stream reader expects: flow control, which does nothing here."""

    _reading_paused = False

    def pause_reading(self, *args: Any, **options: Any) -> None:
        """Nothing to pause."""

    resume_reading = pause_reading
