"""Content-encoding: decode a body as its headers say."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Final

from freezeframe_schemas.errors import WireError

_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
"""zlib detects which of the two headers the data has."""
_LARGEST: Final = 256 << 20
"""Bytes of an unpacked body. The largest recorded answers are a few megabytes; a zip bomb must not kill the process."""
_PIECE: Final = 1 << 20


class UnpacksTooFarError(WireError):
    """A body that unpacks to more than the limit."""


def decode_body(body: bytes, headers: Iterable[tuple[str, str]], *, limit: int = _LARGEST) -> bytes:
    """Return `body` without its ``content-encoding``. Of a body that was cut, return what can be read.

    Raises:
        UnpacksTooFarError: it unpacks to more than `limit` bytes.
        WireError: the coding is unknown, needs a module that is not installed (``br``, ``zstd``), or the bytes do not match it.
    """
    codings = [
        coding.strip().lower() for name, value in headers if name.lower() == "content-encoding" for coding in value.split(",")
    ]
    for coding in reversed(codings):
        if body and coding not in ("", "identity"):
            body = _decode(body, coding, limit)
    return body


def _decode(body: bytes, coding: str, limit: int) -> bytes:
    match coding:
        case "gzip" | "x-gzip":
            pieces = _inflated(body, _GZIP_OR_ZLIB, limit)
        case "deflate":
            try:
                return _joined(_inflated(body, _GZIP_OR_ZLIB, limit), body, coding, limit)
            except UnpacksTooFarError:
                raise
            except WireError:  # many servers send it without the zlib header
                pieces = _inflated(body, -zlib.MAX_WBITS, limit)
        case "br":
            pieces = _unbrotlied(body, limit)
        case "zstd":
            pieces = _unzstd(body)
        case _:
            raise WireError(f"content-encoding: expected gzip, deflate, br or zstd, found {coding!r}")
    return _joined(pieces, body, coding, limit)


def _joined(pieces: Iterator[bytes], body: bytes, coding: str, limit: int) -> bytes:
    out = bytearray()
    try:
        for piece in pieces:
            out += piece
            if len(out) > limit:
                raise UnpacksTooFarError(f"content-encoding: {len(body)} bytes of {coding} unpack to more than {limit:,} bytes")
    except WireError:
        raise
    except Exception as error:  # each library has its own error class, known only if it is installed
        if not out:
            raise WireError(f"content-encoding: body ({len(body)} bytes) is not valid {coding}: {error}") from error
    return bytes(out)


def _inflated(body: bytes, window_bits: int, limit: int) -> Iterator[bytes]:
    while body:
        decoder = zlib.decompressobj(window_bits)
        yield decoder.decompress(body, limit + 1)
        body = decoder.unused_data  # gzip allows one member after another


def _unzstd(body: bytes) -> Iterator[bytes]:
    try:
        module = import_module("zstandard")
    except ImportError:
        raise _missing("zstd", "zstandard") from None
    reader = module.ZstdDecompressor().stream_reader(body, read_across_frames=True)
    while piece := reader.read(_PIECE):
        yield piece


def _unbrotlied(body: bytes, limit: int) -> Iterator[bytes]:
    for name in ("brotli", "brotlicffi"):
        try:
            decoder: Any = import_module(name).Decompressor()
            feed = decoder.process if name == "brotli" else decoder.decompress
            yield feed(body, output_buffer_limit=limit + 1)
        except (ImportError, TypeError):  # before 1.2 neither has a limit
            continue
        return
    raise _missing("br", "brotli>=1.2")


def _missing(coding: str, what: str) -> WireError:
    return WireError(f"content-encoding: body is {coding} and no installed module decodes it", do=f"install {what}")
