"""A response of urllib3 over recorded bytes, and the undelivered bytes of a cut read."""

from __future__ import annotations

import io
from dataclasses import replace
from http.client import HTTPMessage, IncompleteRead
from typing import Any, Final

from freezeframe.seams.http import adapter
from freezeframe_schemas.exchange import Exchange

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
