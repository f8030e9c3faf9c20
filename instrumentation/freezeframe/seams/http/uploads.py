"""Request bodies that are sent piece by piece, watched during sending."""

from __future__ import annotations

import functools
import io
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.seams.recorder.body import Body


def known_bytes(body: Any) -> bytes | None:
    """Return the body as bytes if it is already known; None if it is read piece by piece."""
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    return None


def read_whole(body: Any) -> bytes | None:
    """Return the body as bytes. A streamed one is read; if the call is sent after all, these bytes are sent."""
    if body is None or isinstance(body, str | bytes | bytearray | memoryview):
        return None if body is None else known_bytes(body)
    pieces = iter(functools.partial(body.read, 65536), None) if hasattr(body, "read") else iter(body)
    read: list[bytes] = []
    for piece in pieces:
        if not piece and hasattr(body, "read"):
            break
        read.append(piece.encode() if isinstance(piece, str) else bytes(piece))
    return b"".join(read)


class Upload:
    """An upload that is read piece by piece, watched. Everything except reading is the original's."""

    def __init__(self, inner: Any, body: Body, encoding: str = "utf-8") -> None:
        self._inner = inner
        self._body = body
        self._encoding = encoding
        self._encodes = isinstance(inner, io.TextIOBase)  # urllib3 makes the same check
        if hasattr(inner, "read"):
            self.read = self._read  # only if the original has it: urllib3 decides by it

    def __iter__(self) -> Generator[Any]:
        for piece in self._inner:
            self._see(piece)
            yield piece

    def _read(self, *args: Any) -> Any:
        piece = self._inner.read(*args)
        if self._encodes:
            piece = piece.encode(self._encoding)
        self._see(piece)
        return piece

    def _see(self, piece: Any) -> None:
        with guard("urllib3.upload"):
            self._body.add(piece.encode(self._encoding) if isinstance(piece, str) else bytes(piece))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


# -- aiohttp: a payload writes itself ------------------------------------------------------------------------------------


_UPLOAD: Final = "_freezeframe_upload"


def watch_payload(payload: Any, body: Body) -> None:
    """Make the payload also write into `body`. A redirect sends the same payload again."""
    if not hasattr(payload, _UPLOAD):
        for name in ("write", "write_with_length"):
            if hasattr(payload, name):
                setattr(payload, name, functools.partial(_write_watched, payload, getattr(payload, name)))
    setattr(payload, _UPLOAD, body)


async def _write_watched(payload: Any, write: Callable[..., Awaitable[None]], writer: Any, *args: Any) -> None:
    if not isinstance(writer, _WatchedWriter):  # one of the two calls the other
        writer = _WatchedWriter(writer, getattr(payload, _UPLOAD))
    await write(writer, *args)


class _WatchedWriter:
    """The writer of a request, watched. Everything else is the original's."""

    def __init__(self, inner: Any, body: Body) -> None:
        self._inner = inner
        self._body = body

    async def write(self, chunk: Any, *args: Any, **kwargs: Any) -> None:
        with guard("aiohttp.upload"):
            self._body.add(bytes(chunk))
        await self._inner.write(chunk, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
