"""Content-encoding: decode a body as its headers say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from freezeframe_schemas.decompression import UnpacksTooFarError, decompressed
from freezeframe_schemas.errors import WireError

_ENCODING: Final = "content-encoding"
_MAX_BYTES: Final = 256 << 20
"""Bytes of an unpacked body. The largest recorded answers are a few megabytes; a zip bomb must not kill the process."""


def decode_body(body: bytes, headers: Iterable[tuple[str, str]], *, limit: int = _MAX_BYTES) -> bytes:
    """Return `body` without its ``content-encoding``. Of a body that was cut, return what can be read.

    Raises:
        UnpacksTooFarError: it unpacks to more than `limit` bytes, or has too many members.
        WireError: the coding is unknown, needs a module that is not installed (``br``, ``zstd``), or the bytes do not match it.
    """
    codings = [
        coding.strip().lower()
        for name, value in headers
        if len(name) == len(_ENCODING) and name.lower() == _ENCODING
        for coding in value.split(",")
    ]
    for coding in reversed(codings):
        if body and coding not in ("", "identity"):
            body = _decode(body, coding, limit)
    return body


def _decode(body: bytes, coding: str, limit: int) -> bytes:
    out = bytearray()
    try:
        for piece in decompressed(body, coding, limit):
            out += piece
    except UnpacksTooFarError:
        raise
    except WireError:
        if not out:
            raise
    return bytes(out)
