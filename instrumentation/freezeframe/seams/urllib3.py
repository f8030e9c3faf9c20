"""What requests and botocore share: both read the raw response of urllib3, and both are served one.

The body is seen at urllib3's raw reads, before content-decoding. urllib3 itself is not patched.
"""

from __future__ import annotations

import functools
import io
import weakref
from collections.abc import Callable, Generator
from typing import Any

from freezeframe.seams import http as shared
from freezeframe.seams.recording import Recording
from freezeframe_schemas.exchange import Completion, Exchange


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


def served_response(answer: Exchange) -> Any:
    """Return a urllib3 response over the recorded bytes."""
    import urllib3

    status = answer.response.status or 200
    headers = urllib3.HTTPHeaderDict()
    for name, value in shared.served_headers(answer):
        headers.add(name.decode("latin-1"), value.decode("latin-1"))
    return urllib3.HTTPResponse(
        body=_ServedBody([chunk.data for chunk in answer.response.chunks], shared.end_of_stream(answer)),  # pyright: ignore[reportArgumentType] - any file-like object will do
        headers=headers,
        status=status,
        reason=shared.served_reason(answer),
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
