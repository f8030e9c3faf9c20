"""``http.client`` and the libraries built on it (``urllib.request``, ``xmlrpc``): every request of every connection.

urllib3 is built on it, too, and has its own seam. A response is served as its bytes on the wire, so
``http.client`` reads it as in the recorded run, and fails on a cut body in the same way.
"""

from __future__ import annotations

import functools
import http.client
import io
import socket
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, Final

from freezeframe._cleaning import clean_headers, clean_request
from freezeframe._guard import guard
from freezeframe.context.current import current_place
from freezeframe.seams.http import adapter as shared
from freezeframe.seams.http.adapter import Upload, known_bytes, read_whole
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.body import Body
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.recording import Recording, while_sending
from freezeframe.seams.recorder.responder import Responder
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Request

SEAM: Final = "http.client"

_ASKED: Final = "_freezeframe_asked"
_READING: Final = "_freezeframe_reading"
_STATE: Final = "_HTTPConnection__state"
_HAVE_SEAMS: Final = frozenset({"urllib3", "botocore"})
_READS: Final = ("read", "read1", "readinto", "readline")


@dataclass(slots=True, eq=False)
class _PendingRequest:
    """A request in progress on a connection."""

    method: str
    target: str
    headers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    body: bytes | None = None
    """In a replay, the body, once the head is complete."""
    known: bytes | None = None
    seen: Body | None = None
    """The recorded part of the body, once its head is sent."""
    recording: Recording | None = None
    end: Callable[[bytes], None] | None = None
    """In a replay, sends the request for real after all."""
    answer: Exchange | None = None
    """In a replay, the recorded answer, or None; unset before the lookup."""
    is_sent: bool = False

    def announces_a_body(self) -> bool:
        """Return whether the head says that a body follows."""
        return any(name.lower() in ("content-length", "transfer-encoding") and value != "0" for name, value in self.headers)


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``http.client``."""
    for hook in (_putrequest, _putheader, _endheaders, _send, _getresponse):
        patches.around(module.HTTPConnection, hook.__name__.removeprefix("_"), hook)

    def watch_reads(cls: type) -> None:
        for name in vars(cls).keys() & _READS:
            patches.around(cls, name, _read)

    watch_reads(module.HTTPResponse)
    patches.in_subclasses(module.HTTPResponse, watch_reads)


@functools.lru_cache(maxsize=64)
def _has_a_seam(cls: type) -> bool:
    return any(base.__module__.partition(".")[0] in _HAVE_SEAMS for base in cls.__mro__)


def _pending(conn: Any) -> _PendingRequest | None:
    return vars(conn).get(_ASKED)


def _putrequest(original: Callable[..., None], conn: Any, method: str, url: str, *args: Any, **kwargs: Any) -> None:
    vars(conn).pop(_ASKED, None)
    on = switch.serving() is not None or switch.recorder() is not None
    if on and not _has_a_seam(type(conn)) and not current_place().sending:
        setattr(conn, _ASKED, _PendingRequest(str(method), str(url)))
    original(conn, method, url, *args, **kwargs)


def _putheader(original: Callable[..., None], conn: Any, header: Any, *values: Any) -> None:
    original(conn, header, *values)
    request = _pending(conn)
    if request is not None:
        with guard("http.client.header"):
            request.headers.append((_text(header), ", ".join(map(_text, values))))


def _endheaders(original: Callable[..., None], conn: Any, message_body: Any = None, *, encode_chunked: bool = False) -> None:
    request = _pending(conn)
    if request is None:
        return original(conn, message_body, encode_chunked=encode_chunked)
    request.known = known_bytes(message_body)
    responder = switch.serving()
    if responder is None:
        return _send_recorded(original, conn, request, message_body, encode_chunked)
    request.body = read_whole(message_body) or b""
    request.end = functools.partial(_send_for_real, original, conn, request, encode_chunked)
    if message_body is not None or not request.announces_a_body():
        _ask(responder, conn, request, request.body)
        if request.answer is not None and (error := _error_of_connecting(request.answer)) is not None:
            raise error
    return setattr(conn, _STATE, http.client._CS_REQ_SENT)  # pyright: ignore[reportAttributeAccessIssue] - where it is then


def _send(original: Callable[..., None], conn: Any, data: Any) -> None:
    request = _pending(conn)
    if request is None or current_place().sending:
        return original(conn, data)
    if request.end is not None and request.body is not None:
        request.body += read_whole(data) or b""
        return None
    if request.seen is not None:
        with guard("http.client.send"):
            known = known_bytes(data)
            if known is None:
                data = Upload(data, request.seen, encoding="iso-8859-1")
            else:
                request.seen.add(known)
    return original(conn, data)


def _getresponse(original: Callable[..., Any], conn: Any) -> Any:
    request: _PendingRequest | None = vars(conn).pop(_ASKED, None)
    if request is None:
        return original(conn)
    responder = switch.serving()
    if responder is not None and request.end is not None and request.body is not None:
        if not request.is_sent:
            _ask(responder, conn, request, request.body)
        if request.answer is not None:
            setattr(conn, _STATE, http.client._CS_IDLE)  # pyright: ignore[reportAttributeAccessIssue] - for the next one
            return _serve(conn, request.answer, request.method)
        request.end(request.body)
    recording = request.recording
    with while_sending(recording):
        response = original(conn)
    if recording is not None:
        with guard("http.client.response"):
            recording.answered(
                response.status, clean_headers(response.headers.items()), response.reason, shared.version_of(response.version)
            )
            _watch(response, recording)
    return response


# -- record -------------------------------------------------------------------------------------------------------------


def _send_recorded(
    original: Callable[..., None], conn: Any, asked: _PendingRequest, message_body: Any, encode_chunked: bool
) -> None:
    recording = asked.recording = shared.record(SEAM, lambda: (_write(conn, asked, b""), asked.known))
    if recording is not None and asked.known is None:
        message_body = Upload(message_body, recording.request_body, encoding="iso-8859-1")
    with while_sending(recording):
        original(conn, message_body, encode_chunked=encode_chunked)
    asked.seen = None if recording is None else recording.request_body


def _send_for_real(original: Callable[..., None], conn: Any, asked: _PendingRequest, encode_chunked: bool, body: bytes) -> None:
    """Send the request that a replay held back.

    It is never edited here, because the head with its length is already written.
    """
    setattr(conn, _STATE, http.client._CS_REQ_STARTED)  # pyright: ignore[reportAttributeAccessIssue] - where it was
    asked.known = body
    _send_recorded(original, conn, asked, body or None, encode_chunked)


def _write(conn: Any, asked: _PendingRequest, body: bytes) -> Request:
    url = asked.target
    if not url.startswith(("http://", "https://")):  # else it is for a proxy
        secure = isinstance(conn, http.client.HTTPSConnection)
        host, port = (conn._tunnel_host, conn._tunnel_port) if conn._tunnel_host else (conn.host, conn.port)
        url = shared.url_of("https" if secure else "http", host, port, url)
    request = clean_request(asked.method, url, (pair for pair in asked.headers if pair[0].lower() != "host"), body)
    limit = conn.timeout if isinstance(conn.timeout, int | float | None) else socket.getdefaulttimeout()  # else its default
    return replace(request, timeouts=(("connect", limit), ("read", limit)))


@dataclass(slots=True, eq=False)
class _Reading:
    """The reads of one response."""

    recording: Recording
    is_busy: bool = False
    """A read is in progress: these methods call each other."""


def _watch(response: Any, recording: Recording) -> None:
    """Record the reads of a response, until the response is garbage-collected."""
    if response.isclosed() or response.length == 0:
        recording.finish(Completion.COMPLETE)
        return
    setattr(response, _READING, _Reading(recording))
    weakref.finalize(response, recording.finish, Completion.CLOSED_EARLY)


def _read(original: Callable[..., Any], response: Any, *args: Any, **kwargs: Any) -> Any:
    reading: _Reading | None = vars(response).get(_READING)
    if reading is None or reading.is_busy:
        return original(response, *args, **kwargs)
    recording, reading.is_busy = reading.recording, True
    try:
        data = original(response, *args, **kwargs)
    except BaseException as error:
        if isinstance(error, http.client.IncompleteRead) and error.partial:
            recording.chunk(error.partial)
        recording.finish(Completion.BROKEN, error)
        raise
    finally:
        reading.is_busy = False
    with guard("http.client.read"):
        piece = bytes(memoryview((*args, *kwargs.values())[0]).cast("B")[:data]) if isinstance(data, int) else data
        if piece:
            recording.chunk(piece)
        if response.isclosed():
            recording.finish(Completion.COMPLETE)
    return data


# -- serve --------------------------------------------------------------------------------------------------------------


def _ask(responder: Responder, conn: Any, asked: _PendingRequest, body: bytes) -> None:
    request = _write(conn, asked, body)
    edited = switch.edited(request)
    if edited is not None:
        request = _write(conn, asked, edited)
    asked.is_sent, asked.answer = True, shared.ask(responder, SEAM, request, asked.known)
    if asked.answer is not None:
        responder.turn_in_thread(asked.answer)
    if edited is not None and asked.answer is None:
        raise ReplayMiss(
            f"{request.method} {request.url}: http.client has written the head with the body's length, so the body can no "
            "longer be edited; change the agent's code instead"
        )


def _error_of_connecting(answer: Exchange) -> BaseException | None:
    """Return the recorded error if it came before waiting for the response: ``urllib`` distinguishes the two."""
    error = shared.failure(answer, Exception)
    return error if isinstance(error, OSError) and not isinstance(error, ConnectionResetError | TimeoutError) else None


def _serve(conn: Any, answer: Exchange, method: str) -> Any:
    failure = shared.failure(answer, ConnectionError)
    if failure is not None:
        raise failure
    response = conn.response_class(_Wire(answer), method=method)
    response.begin()
    return response


class _Wire(io.RawIOBase):
    """The bytes of a response as they were on the wire, and the socket that they come from."""

    def __init__(self, answer: Exchange) -> None:
        recorded = answer.response
        size = str(sum(len(chunk.data) for chunk in recorded.chunks))
        whole = recorded.completion is Completion.COMPLETE
        headers = [(name, size if whole and name.lower() == "content-length" else value) for name, value in recorded.headers]
        chunked = any(name.lower() == "transfer-encoding" and "chunked" in value.lower() for name, value in headers)
        status = f"HTTP/{recorded.version or '1.1'} {recorded.status or 200} {shared.served_reason(answer)}"
        head = "".join([f"{status}\r\n", *(f"{name}: {value}\r\n" for name, value in headers), "\r\n"])
        self._answer = answer
        self._pieces = [
            Chunk(data=head.encode("latin-1", "replace")),
            *(_framed(chunk) if chunked else chunk for chunk in recorded.chunks if chunk.data),
        ]
        if chunked and whole:
            self._pieces.append(Chunk(data=b"0\r\n\r\n"))
        end = shared.end_of_stream(answer)
        self._end = None if isinstance(end, http.client.IncompleteRead) else end  # which the cut bytes cause again

    def makefile(self, *args: Any, **options: Any) -> io.BufferedReader:
        """Part of the socket's interface."""
        del args, options
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Return the next bytes; at the end nothing, or the recorded error."""
        if not self._pieces:
            if self._end is not None:
                raise self._end
            return 0
        piece = self._pieces.pop(0)
        data = shared.take_chunk(self._answer, piece)
        size = min(len(data), len(buffer))
        if size < len(data):
            self._pieces.insert(0, replace(piece, data=data[size:]))
        buffer[:size] = data[:size]
        return size


def _framed(chunk: Chunk) -> Chunk:
    return replace(chunk, data=b"%x\r\n%b\r\n" % (len(chunk.data), chunk.data))


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
