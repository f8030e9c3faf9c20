"""Decompress request bodies step by step, and count what comes out: a small hostile body cannot fill the memory."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Final

import zstandard

from freezeframe_schemas.errors import WireError

_STEP: Final = 1 << 20
_ZLIB_WINDOWS: Final = {"gzip": 31, "deflate": 15}
_RAW_DEFLATE: Final = -15


class TooLargeError(WireError):
    """More came out than the limit."""


def decompress(body: bytes, encoding: str, limit_bytes: int, grow: Callable[[int], None] = lambda size_bytes: None) -> bytes:
    """Return the body as it was before `encoding` (the ``Content-Encoding`` header).

    Args:
        grow: asked for room, in bytes, before the memory is taken; it may raise.

    Raises:
        WireError: the encoding is unknown, or the bytes are damaged.
        TooLargeError: more than `limit_bytes` come out.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        if len(body) > limit_bytes:
            raise WireError(f"the body has {len(body)} bytes, the limit is {limit_bytes}")
        return body
    if encoding in _ZLIB_WINDOWS:
        steps = _inflate(body, encoding)
    elif encoding == "zstd":
        steps = _unzstd(body)
    else:
        raise WireError(f"content encoding {encoding[:40]!r}, expected gzip, deflate, zstd or none")
    parts: list[bytes] = []
    size = 0
    for part in steps:
        size += len(part)
        if size > limit_bytes:
            raise TooLargeError(f"the body decompresses to more than {limit_bytes} bytes, the limit")
        grow(len(part))
        parts.append(part)
    return b"".join(parts)


def _inflate(body: bytes, encoding: str) -> Iterator[bytes]:
    window = _ZLIB_WINDOWS[encoding]
    left = body
    try:
        while True:
            engine = zlib.decompressobj(window)
            first = True
            while not engine.eof:
                try:
                    part = engine.decompress(left, _STEP)
                except zlib.error:
                    if encoding != "deflate" or not first or window == _RAW_DEFLATE:
                        raise
                    # Some senders mean the raw stream without the zlib header.
                    window = _RAW_DEFLATE
                    engine = zlib.decompressobj(window)
                    part = engine.decompress(left, _STEP)
                first = False
                left = engine.unconsumed_tail
                if not part and not left and not engine.eof:
                    raise WireError(f"the {encoding} body is cut short")
                yield part
            left = engine.unused_data
            if not left:
                return
            if encoding != "gzip":
                raise WireError(f"{len(left)} bytes follow the {encoding} body")
            # RFC 1952, section 2.2: a gzip file may have several members, one after the other.
    except zlib.error:
        raise WireError(f"the body is not valid {encoding}") from None


def _unzstd(body: bytes) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    engine = decompressor.decompressobj()
    at = 0
    try:
        while at < len(body):
            if engine.eof:  # RFC 8878, section 3: frames may follow one another
                engine = decompressor.decompressobj()
            step = body[at : at + _ZSTD_STEP]
            yield engine.decompress(step)
            at += len(step) - len(engine.unused_data)
    except zstandard.ZstdError:
        raise WireError("the body is not valid zstd") from None
    if not engine.eof:
        raise WireError("the zstd body is cut short")


_ZSTD_STEP: Final = 1 << 7
"""A zstd block of 4 bytes can hold 128 KiB: 128 bytes in give at most 4 MiB out."""
