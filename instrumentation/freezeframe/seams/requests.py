"""requests: every attempt of every session, at ``HTTPAdapter.send``.

The body is seen at urllib3's raw reads, before content-decoding. It is served by a urllib3 response over the recorded bytes, so
that requests itself makes its exceptions out of urllib3's.
"""

from __future__ import annotations

import functools
import http.client
import io
import weakref
from collections.abc import Callable, Generator
from dataclasses import replace
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.seams import _port
from freezeframe.seams import http as shared
from freezeframe.seams.patching import Patches
from freezeframe.seams.recording import Body, Recorder, Recording, outside_lane
from freezeframe_schemas.exchange import Completion, Exchange, Request

SEAM: Final = "requests"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``requests.adapters``."""
    patches.replace(module.HTTPAdapter, "send", _wrap)


def _wrap(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def send(adapter: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        responder = _port.serving()
        if responder is not None and not _port.is_live(shared.host_of(request.url)):
            return _serve(adapter, request, responder)
        recording = _start(request)
        if recording is None:
            return original(adapter, request, *args, **kwargs)
        try:
            with outside_lane():
                response = original(adapter, request, *args, **kwargs)
        except BaseException as error:
            recording.finish(Completion.NONE, error)
            raise
        with guard("requests.response"):
            raw = response.raw
            recording.answered(response.status_code, shared.clean_headers(raw.headers.items()))
            _Watch(raw, recording)
        return response

    return send


# -- record -------------------------------------------------------------------------------------------------------------


def _start(request: Any) -> Recording | None:
    recorder = _port.recorder()
    if recorder is None:
        return None
    with guard("requests.request"):
        written = _write(request)
        subject = shared.subject_of(request.method, request.url, written.headers)
        if not shared.is_recorded(subject, request.url, recorder):
            return None
        return recorder.start(
            kind=subject.kind,
            name=shared.name_of(written.method, written.url),
            seam=SEAM,
            request=written,
            request_body=_record_body(request, recorder),
            dialect=subject.dialect,
            provider=subject.provider,
        )
    return None


def _write(request: Any) -> Request:
    return Request(
        method=str(request.method),
        url=shared.clean_url(str(request.url)),
        headers=shared.clean_headers(request.headers.items()),
    )


def _record_body(request: Any, recorder: Recorder) -> Body:
    """Return the body; of one that is streamed, what goes by as it is sent."""
    body = Body(recorder.settings.max_body_bytes)
    given = request.body
    if isinstance(given, str | bytes):
        body.add(given.encode() if isinstance(given, str) else given)
    elif given is not None:
        request.body = _tee(given, body)
    return body


class _tee:  # noqa: N801 - used as a function
    """An upload that is read piece by piece, watched. Everything but reading is the original's."""

    def __init__(self, inner: Any, body: Body) -> None:
        self._inner = inner
        self._body = body
        if hasattr(inner, "read"):
            self.read = self._read  # only what the original has: urllib3 chooses by it

    def __iter__(self) -> Generator[Any]:
        for piece in self._inner:
            with guard("requests.upload"):
                self._body.add(piece.encode() if isinstance(piece, str) else bytes(piece))
            yield piece

    def _read(self, *args: Any) -> Any:
        piece = self._inner.read(*args)
        with guard("requests.upload"):
            self._body.add(piece.encode() if isinstance(piece, str) else bytes(piece))
        return piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Watch:
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
        """A read of a body with a length."""
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
        """All of a chunked body."""
        source = self._read_chunked(*args, **kwargs)
        while True:
            try:
                data = self._step(functools.partial(next, source))
            except StopIteration:
                self._recording.finish(Completion.COMPLETE)
                return
            yield data

    def close(self) -> None:
        """The application closes, or urllib3 does before it raises: then the error tells how it ended."""
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
            self._recording.finish(Completion.BROKEN, error)
            raise
        finally:
            self._reading = False


# -- serve --------------------------------------------------------------------------------------------------------------


def _serve(adapter: Any, request: Any, responder: _port.Responder) -> Any:
    given = request.body
    if given is not None and not isinstance(given, str | bytes):
        given = given.read() if hasattr(given, "read") else b"".join(given)
    body = given.encode() if isinstance(given, str) else given or b""
    written = replace(_write(request), body=body)
    subject = shared.subject_of(request.method, request.url, written.headers)
    answer = shared.ask(responder, seam=SEAM, subject=subject, request=written)
    if answer.response.completion is Completion.NONE:
        raise _rebuilt(answer, request)
    return adapter.build_response(request, _raw_response(answer))


def _rebuilt(answer: Exchange, request: Any) -> BaseException:
    error = shared.recorded_error(answer)
    if error is None:
        import requests

        return requests.exceptions.ConnectionError("recorded without a response and without its error", request=request)
    if hasattr(error, "response"):
        error.request = request  # pyright: ignore[reportAttributeAccessIssue] - a RequestException
    return error


def _raw_response(answer: Exchange) -> Any:
    import urllib3

    status = answer.response.status or 200
    headers = urllib3.HTTPHeaderDict()
    for name, value in shared.served_headers(answer):
        headers.add(name.decode("latin-1"), value.decode("latin-1"))
    return urllib3.HTTPResponse(
        body=_ServedBody([chunk.data for chunk in answer.response.chunks], shared.end_of_stream(answer)),  # pyright: ignore[reportArgumentType] - any file-like object will do
        headers=headers,
        status=status,
        reason=http.client.responses.get(status, ""),
        version=11,
        preload_content=False,
        decode_content=False,
        enforce_content_length=False,
    )


class _ServedBody(io.RawIOBase):
    """A file over recorded chunks: a read never crosses the border of a chunk; at the end, the recorded error."""

    def __init__(self, chunks: list[bytes], end: BaseException | None) -> None:
        self._chunks = [chunk for chunk in chunks if chunk]
        self._end = end

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes of the next chunk, all of the rest for -1."""
        if size is None or size < 0:  # pyright: ignore[reportUnnecessaryComparison] - urllib3 passes None
            data = b"".join(self._chunks)
            self._chunks.clear()
            if self._end is not None:
                raise self._end
            return data
        if not self._chunks:
            if self._end is not None:
                raise self._end
            return b""
        chunk = self._chunks.pop(0)
        if len(chunk) > size:
            self._chunks.insert(0, chunk[size:])
        return chunk[:size]

    def readinto(self, buffer: Any, /) -> int:
        """As the base class asks."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
