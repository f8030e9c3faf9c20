"""Decompress gzip, deflate, zstd and brotli piece by piece: a small hostile body costs little time and memory.

The work grows with the bytes that come in and go out, however many members a body has, and both are
bounded. Readers treat a damaged body differently: they keep the pieces they got, or nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from typing import Any, Final

from freezeframe_schemas.errors import WireError

CODINGS: Final = frozenset({"gzip", "x-gzip", "deflate", "zstd", "br"})
MAX_MEMBERS: Final = 10_000
"""Members of a gzip body and frames of a zstd body: each takes some microseconds, even if it is empty."""
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
"""zlib detects which of the two headers the data has."""
_RAW: Final = -zlib.MAX_WBITS
_STEP: Final = 1 << 14
"""Bytes that zlib gets at a time. The rest of them after a member's end is copied."""
_ZSTD_STEP: Final = 1 << 7
"""A zstd block of 4 bytes can hold 128 KiB, so 128 bytes give at most 4 MiB."""
_PIECE: Final = 1 << 20


class UnpacksTooFarError(WireError):
    """A body that unpacks to more bytes than the limit, or has more than `MAX_MEMBERS`."""


class CutShortError(WireError):
    """A body whose end is missing; everything readable was yielded before."""


def decompressed(body: bytes, coding: str, limit_bytes: int) -> Iterator[bytes]:
    """Yield the body's content in pieces of a few megabytes at most, and `limit_bytes` in total.

    Raises:
        UnpacksTooFarError: it holds more.
        CutShortError: its end is missing.
        WireError: the bytes are not of this coding, something follows them, or the module that decodes it is not installed.
    """
    size = 0
    for piece in _pieces(body, coding):
        size += len(piece)
        if size > limit_bytes:
            raise UnpacksTooFarError(f"{len(body)} bytes of {coding} unpack to more than {limit_bytes:,} bytes, the limit")
        yield piece


def _pieces(body: bytes, coding: str) -> Iterator[bytes]:
    match coding:
        case "gzip" | "x-gzip":
            return _inflated(body, coding, _GZIP_OR_ZLIB)
        case "deflate":
            return _deflated(body)
        case "zstd":
            return _unzstd(body)
        case "br":
            return _unbrotlied(body)
        case _:
            raise WireError(f"content-encoding: found {coding[:40]!r}, expected {', '.join(sorted(CODINGS))}")


def _deflated(body: bytes) -> Iterator[bytes]:
    """Yield the pieces of a zlib body, or of a raw one, which many senders mean by the name."""
    pieces = _inflated(body, "deflate", _GZIP_OR_ZLIB)
    try:
        first = next(pieces, b"")
    except CutShortError:
        raise
    except WireError:
        return _inflated(body, "deflate", _RAW)
    return chain([first], pieces)


def _inflated(body: bytes, coding: str, window_bits: int) -> Iterator[bytes]:
    view, at, members = memoryview(body), 0, 0
    try:
        while not members or at < len(body):
            if members and coding == "deflate":
                raise WireError(f"{len(body) - at} bytes follow the {coding} body")
            members = _one_more(members, body, coding)
            engine = zlib.decompressobj(window_bits)
            while not engine.eof:
                step = view[at : at + _STEP]
                piece = engine.decompress(step, _PIECE)
                at += len(step) - len(engine.unused_data if engine.eof else engine.unconsumed_tail)
                if piece:
                    yield piece
                elif not step and not engine.eof:
                    raise CutShortError(f"the {coding} body is cut short ({len(body)} bytes)")
    except zlib.error:
        raise _damaged(body, coding) from None


def _unzstd(body: bytes) -> Iterator[bytes]:
    try:
        module = import_module("zstandard")
    except ImportError:
        raise _missing("zstd", "zstandard") from None
    decompressor = module.ZstdDecompressor(max_window_size=1 << 27)
    view, at, frames = memoryview(body), 0, 0
    try:
        while not frames or at < len(body):
            frames = _one_more(frames, body, "zstd")
            engine = decompressor.decompressobj()
            while not engine.eof:
                step = view[at : at + _ZSTD_STEP]
                if not step:
                    raise CutShortError(f"the zstd body is cut short ({len(body)} bytes)")
                yield engine.decompress(step)
                at += len(step) - len(engine.unused_data)
    except module.ZstdError:
        raise _damaged(body, "zstd") from None


def _unbrotlied(body: bytes) -> Iterator[bytes]:
    for name in ("brotli", "brotlicffi"):
        try:
            module = import_module(name)
            engine: Any = module.Decompressor()
            feed = engine.process if name == "brotli" else engine.decompress
            feed(b"", output_buffer_limit=_PIECE)
        except (ImportError, TypeError):  # before 1.2 neither has a limit
            continue
        break
    else:
        raise _missing("br", "brotli>=1.2")
    at = 0
    try:
        while not engine.is_finished():
            step = body[at : at + _STEP] if engine.can_accept_more_data() else b""
            at += len(step)
            piece = feed(step, output_buffer_limit=_PIECE)
            if piece:
                yield piece
            elif not step and at == len(body):
                raise CutShortError(f"the br body is cut short ({len(body)} bytes)")
    except module.error:
        raise _damaged(body, "br") from None
    if at < len(body):
        raise WireError(f"{len(body) - at} bytes follow the br body")


def _one_more(members: int, body: bytes, coding: str) -> int:
    if members >= MAX_MEMBERS:
        raise UnpacksTooFarError(f"{len(body)} bytes of {coding} have more than {MAX_MEMBERS:,} members, the limit")
    return members + 1


def _damaged(body: bytes, coding: str) -> WireError:
    return WireError(f"the body ({len(body)} bytes) is not valid {coding}")


def _missing(coding: str, what: str) -> WireError:
    return WireError(f"content-encoding: body is {coding} and no installed module decodes it", do=f"install {what}")
