"""urllib3, and the libraries built on it (requests, botocore): every attempt, at ``HTTPConnectionPool._make_request``.

A redirect or a retry by urllib3 is a separate call. The body is seen at urllib3's raw reads, before content-decoding,
and served by a urllib3 response over the recorded bytes, so that each library builds its exceptions from urllib3's.
"""

from __future__ import annotations

import functools
import inspect
import io
import weakref
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from http.client import HTTPMessage, IncompleteRead
from types import ModuleType
from typing import Any, Final

from freezeframe._cleaning import clean_headers, clean_request
from freezeframe._guard import guard, log_once
from freezeframe.seams.http import adapter
from freezeframe.seams.http.adapter import Upload, known_bytes, read_whole
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.recording import Recording, while_sending
from freezeframe_schemas.exchange import Completion, Exchange, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """The library that uses urllib3."""

    seam: str
    edits: bool = True
    """A replay's edit goes into the request here, unless the library signs its requests and has put it in before."""


_LIBRARY: Final[ContextVar[Library]] = ContextVar("freezeframe_urllib3", default=Library(seam="urllib3"))  # noqa: B039 - it is frozen
_PROXY_WAITS: Final = "_freezeframe_proxy_waits"


@contextmanager
def called_by(library: Library) -> Generator[None]:
    """Name the library whose requests the block makes."""
    token = _LIBRARY.set(library)
    try:
        yield
    finally:
        _LIBRARY.reset(token)


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``urllib3.connectionpool``."""
    from urllib3.util.retry import Retry

    pool: Any = module.HTTPConnectionPool
    if "preload_content" not in inspect.signature(pool._make_request).parameters:
        log_once(
            "urllib3.old",
            "freezeframe: urllib3 before version 2 is not captured, nor are calls that requests and botocore make through it",
        )
        return
    patches.around(pool, "_make_request", _make_request)
    for cls in (pool, module.HTTPSConnectionPool):
        if "_prepare_proxy" in vars(cls):
            patches.around(cls, "_prepare_proxy", _prepare_proxy)
    patches.around(Retry, "sleep", functools.partial(_wait, instead=None))
    patches.around(Retry, "sleep_for_retry", functools.partial(_wait, instead=False))


def _make_request(
    original: Callable[..., Any],
    pool: Any,
    conn: Any,
    method: str,
    url: str,
    body: Any = None,
    headers: Any = None,
    **options: Any,
) -> Any:
    responder, library = switch.serving(), _LIBRARY.get()
    if responder is not None:
        known, body = known_bytes(body), read_whole(body)
        edited = switch.edited(_write(pool, method, url, headers, body or b"", options)) if library.edits else None
        if edited is not None:
            body, headers, options["chunked"] = edited, _with_length(headers, len(edited)), False
        answer = adapter.ask(responder, library.seam, _write(pool, method, url, headers, body or b"", options), known)
        if answer is not None:
            responder.turn_in_thread(answer)
            return _serve(pool, method, answer, options)
        _open_tunnel(conn)
    recording = adapter.record(library.seam, lambda: (_write(pool, method, url, headers, b"", options), known_bytes(body)))
    if recording is None:
        with while_sending():
            return original(pool, conn, method, url, body=body, headers=headers, **options)
    sent = Upload(body, recording.request_body) if recording.request_body.comes_in_pieces else body
    preload = options.pop("preload_content", True)
    with while_sending(recording):
        response = original(pool, conn, method, url, body=sent, headers=headers, preload_content=False, **options)
    with guard("urllib3.response"):
        recording.answered(
            response.status, clean_headers(response.headers.items()), response.reason, adapter.version_of(response.version)
        )
        Watch(response, recording)
    if preload:
        _preload(response, options)
    return response


def _preload(response: Any, options: Mapping[str, Any]) -> None:
    """Read the body as the response does when it is created."""
    response._body = response.read(decode_content=options.get("decode_content", True))


def _prepare_proxy(original: Callable[..., Any], pool: Any, conn: Any) -> Any:
    """Open a tunnel: in a replay, only for a call made for real."""
    if switch.serving() is None:
        return original(pool, conn)
    return setattr(conn, _PROXY_WAITS, functools.partial(original, pool, conn))


def _open_tunnel(conn: Any) -> None:
    waits: Callable[[], Any] | None = vars(conn).pop(_PROXY_WAITS, None)
    if waits is not None:
        with while_sending():
            waits()


def _wait(original: Callable[..., Any], *args: Any, instead: bool | None, **kwargs: Any) -> Any:
    """Wait between two attempts: a replay skips it, unless it keeps the recorded times."""
    return original(*args, **kwargs) if switch.serving() is None or switch.is_real_time() else instead


# -- record -------------------------------------------------------------------------------------------------------------


def _write(
    pool: Any, method: str, url: str, headers: Mapping[Any, Any] | None, body: bytes, options: Mapping[str, Any]
) -> Request:
    if not url.startswith(("http://", "https://")):  # else it is for a proxy
        url = adapter.url_of(pool.scheme, pool.host, pool.port, url)
    request = clean_request(method, url, () if headers is None else headers.items(), body)
    limits: Any = options.get("timeout")  # each with its own limits, as the connection is yet to come
    if not hasattr(limits, "resolve_default_timeout"):
        return request
    connect, read, total = map(limits.resolve_default_timeout, (limits._connect, limits._read, limits.total))
    return replace(request, timeouts=(("connect", adapter.shortest(connect, total)), ("read", adapter.shortest(read, total))))


class Watch:
    """Watches the raw reads of one urllib3 response: instance attributes in front of the class's methods."""

    def __init__(self, raw: Any, recording: Recording) -> None:
        self._recording = recording
        self._reading = False
        self._read, self._read_chunked, self._handle_chunk, self._close = (
            raw._raw_read,
            raw.read_chunked,
            raw._handle_chunk,
            raw.close,
        )
        self._connection = raw._original_response
        raw._raw_read, raw._handle_chunk = self.read, self.handle_chunk
        raw.read_chunked, raw.close = self.read_chunked, self.close
        weakref.finalize(raw, recording.finish, Completion.CLOSED_EARLY)

    def read(self, *args: Any, **kwargs: Any) -> bytes:
        """Read `length` bytes of a body."""
        data = self._step(functools.partial(self._read, *args, **kwargs))
        if data:
            self._recording.chunk(data)
        if self._connection is None or self._connection.isclosed():
            self._recording.finish(Completion.COMPLETE)
        return data

    def handle_chunk(self, *args: Any, **kwargs: Any) -> bytes:
        """A piece of a chunked body."""
        data = self._handle_chunk(*args, **kwargs)
        if data:
            self._recording.chunk(data)
        return data

    def read_chunked(self, *args: Any, **kwargs: Any) -> Generator[bytes]:
        source = self._read_chunked(*args, **kwargs)
        while True:
            try:
                data = self._step(functools.partial(next, source))
            except StopIteration:
                self._recording.finish(Completion.COMPLETE)
                return
            yield data

    def close(self) -> None:
        """Called by the application, or by urllib3 before it raises; then the error shows how the response ended."""
        try:
            self._close()
        finally:
            if not self._reading:
                self._recording.finish(Completion.CLOSED_EARLY)

    def _step(self, read: Callable[[], bytes]) -> bytes:
        self._reading = True
        try:
            return read()
        except StopIteration:
            raise
        except BaseException as error:
            if partial := undelivered(error):
                self._recording.chunk(partial)
            self._recording.finish(Completion.BROKEN, error)
            raise
        finally:
            self._reading = False


# -- serve --------------------------------------------------------------------------------------------------------------


def _with_length(headers: Any, size: int) -> dict[str, Any]:
    kept = {
        name: value
        for name, value in dict(headers or {}).items()
        if str(name).lower() not in ("content-length", "transfer-encoding")
    }
    return {**kept, "Content-Length": str(size)}


def _serve(pool: Any, method: str, answer: Exchange, options: Mapping[str, Any]) -> Any:
    from urllib3.exceptions import ProtocolError

    failure = adapter.failure(answer, ProtocolError)
    if failure is not None:
        raise failure
    response = served_response(answer, method)
    response.retries = options.get("retries")
    response._pool = pool
    if options.get("preload_content", True):
        _preload(response, options)
    return response


# -- A response of urllib3 over recorded bytes, and the undelivered bytes of a cut read --------------------------------


_MAX_CAUSES: Final = 20
_HTTP_2: Final = 20


def served_response(answer: Exchange, method: str) -> Any:
    """Return a urllib3 response over the recorded bytes."""
    import urllib3

    status = answer.response.status or 200
    headers = urllib3.HTTPHeaderDict()
    for name, value in adapter.served_headers(answer):
        headers.add(name.decode("latin-1"), value.decode("latin-1"))
    return urllib3.HTTPResponse(
        body=ServedBody(answer),  # pyright: ignore[reportArgumentType] - any file-like object will do
        headers=headers,
        status=status,
        reason=adapter.served_reason(answer),
        version=adapter.served_version(answer),
        version_string="HTTP/2" if adapter.served_version(answer) == _HTTP_2 else "HTTP/1.1",  # urllib3's own, not the server's
        preload_content=False,
        decode_content=True,
        enforce_content_length=False,
        request_method=method,
        original_response=_Head(headers, method),  # pyright: ignore[reportArgumentType] - it has what is needed
    )


class _Head:
    """Replaces the underlying ``http.client`` response: requests reads cookies there."""

    def __init__(self, headers: Any, method: str) -> None:
        self.msg = HTTPMessage()
        for name, value in headers.iteritems():
            self.msg[name] = value
        self._method = method

    def isclosed(self) -> bool:
        """Return None: urllib3 has no connection to release."""
        return False

    def close(self) -> None:
        """Nothing is open."""


class ServedBody(io.RawIOBase):
    """A file over recorded chunks: a read never crosses the border of a chunk; at the end, the recorded error.

    It is also the ``fp`` of a chunked body, each recorded chunk one of the wire: urllib3 reads those line by line.
    """

    def __init__(self, answer: Exchange) -> None:
        self._answer = answer
        self._chunks = [chunk for chunk in answer.response.chunks if chunk.data]
        self._end = adapter.end_of_stream(answer)
        lost = undelivered(self._end)
        if lost and self._chunks and len(self._chunks[-1].data) == len(lost):
            self._chunks.pop()
        self._announced = 0
        self.fp = self

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Return up to `size` bytes of the next chunk, all of the rest for -1."""
        if size is None or size < 0:
            data = b"".join([adapter.take_chunk(self._answer, chunk) for chunk in self._chunks])
            self._chunks.clear()
            if self._end is not None:
                raise self._end
            return data
        if not self._chunks:
            if self._end is not None:
                raise self._end
            return b""
        chunk = self._chunks.pop(0)
        data = adapter.take_chunk(self._answer, chunk)
        if len(data) > size:
            self._chunks.insert(0, replace(chunk, data=data[size:]))
        return data[:size]

    def readinto(self, buffer: Any, /) -> int:
        """As the base class requires."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return the line that announces the next chunk, or the empty line after the last."""
        del size
        if self._announced == _PAST_THE_END:
            return b""
        if not self._chunks:
            if self._end is not None:
                raise self._end
            self._announced = _PAST_THE_END
            return b"0\r\n"
        self._announced = len(self._chunks[0].data)
        return b"%x\r\n" % self._announced

    def _safe_read(self, size: int) -> bytes:
        """Return up to `size` bytes of the announced chunk; after it, the line end that urllib3 reads like a chunk of two."""
        if not self._announced:
            return b"\r\n"
        data = self.read(size)
        self._announced -= len(data)
        return data


_PAST_THE_END: Final = -1


def undelivered(error: BaseException | None) -> bytes:
    """Return the bytes of a read that a cut ended: they are in the error, and the application never gets them."""
    causes: list[Any] = [error]
    for cause in causes:
        if isinstance(cause, IncompleteRead):
            partial: Any = cause.partial
            if isinstance(partial, bytes):  # urllib3's own error of this name has a count
                return partial
        if isinstance(cause, BaseException) and len(causes) < _MAX_CAUSES:
            causes += [cause.__cause__, cause.__context__, *cause.args]
    return b""
