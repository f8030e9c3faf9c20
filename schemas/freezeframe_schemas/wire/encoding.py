"""Content-encoding: decode a body as its headers say."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from importlib import import_module
from typing import Final

from freezeframe_schemas.errors import WireError

_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
"""zlib detects which of the two headers the data has."""
_LARGEST_TEXT: Final = "256 MiB"
_LARGEST: Final = 256 * 1024 * 1024
"""The limit of an unpacked body. The largest recorded answers are a few megabytes; a zip bomb must not kill the process."""


def decode_body(body: bytes, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return `body` without its ``content-encoding``. Of a body that was cut, return what can be read.

    Raises:
        WireError: the coding is unknown, needs a module that is not installed (``br``, ``zstd``), the bytes do not match it, or
            they unpack to more than 256 MiB.
    """
    codings = [
        coding.strip().lower() for name, value in headers if name.lower() == "content-encoding" for coding in value.split(",")
    ]
    for coding in reversed(codings):
        body = _decode(body, coding)
    return body


def _decode(body: bytes, coding: str) -> bytes:
    if not body or coding in ("", "identity"):
        return body
    match coding:
        case "gzip" | "x-gzip":
            return _inflate(body, coding, _GZIP_OR_ZLIB)
        case "deflate":
            try:
                return _inflate(body, coding, _GZIP_OR_ZLIB)
            except WireError:
                return _inflate(body, coding, -zlib.MAX_WBITS)  # many servers send it without the zlib header
        case "br":
            return _decode_with(("brotli", "brotlicffi"), body, coding)
        case "zstd":
            return _decode_with(("zstandard",), body, coding)
        case _:
            raise WireError(f"content-encoding: expected gzip, deflate, br or zstd, found {coding!r}")


def _inflate(body: bytes, coding: str, window_bits: int) -> bytes:
    out = bytearray()
    rest = body
    try:
        while rest:
            decoder = zlib.decompressobj(window_bits)
            out += decoder.decompress(rest, _LARGEST + 1 - len(out))
            if len(out) > _LARGEST:
                raise WireError(f"content-encoding: {len(body)} bytes of {coding} unpack to more than {_LARGEST_TEXT}")
            rest = decoder.unused_data  # gzip allows one member after another
    except zlib.error as error:
        if out:
            return bytes(out)
        raise WireError(f"content-encoding: body ({len(body)} bytes) is not valid {coding}: {error}") from error
    return bytes(out)


def _decode_with(modules: tuple[str, ...], body: bytes, coding: str) -> bytes:
    for name in modules:
        try:
            module = import_module(name)
        except ImportError:
            continue
        try:
            if coding == "zstd":
                return bytes(module.ZstdDecompressor().decompressobj().decompress(body))
            return bytes(module.decompress(body))
        except Exception as error:  # each library has its own error class, known only if it is installed
            raise WireError(f"content-encoding: body ({len(body)} bytes) is not valid {coding}: {error}") from error
    raise WireError(
        f"content-encoding: body is {coding} and no installed module decodes it",
        do=f"install one of: {', '.join(modules)}",
    )
