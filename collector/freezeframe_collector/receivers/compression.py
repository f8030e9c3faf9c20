"""Decompress request bodies step by step, and count the output: a small hostile body cannot fill the memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from freezeframe_schemas.decompression import decompressed
from freezeframe_schemas.errors import WireError

_CODINGS: Final = frozenset({"gzip", "deflate", "zstd"})


def decompress(body: bytes, encoding: str, limit_bytes: int, grow: Callable[[int], None] = lambda size_bytes: None) -> bytes:
    """Return the body as it was before `encoding` (the ``Content-Encoding`` header).

    Args:
        grow: called with the bytes needed before each further piece; it may raise.

    Raises:
        WireError: the encoding is unknown, or the bytes are damaged.
        UnpacksTooFarError: more than `limit_bytes` come out, or the body has too many members.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        if len(body) > limit_bytes:
            raise WireError(f"the body has {len(body)} bytes, the limit is {limit_bytes}")
        return body
    if encoding not in _CODINGS:
        raise WireError(f"content encoding {encoding[:40]!r}, expected gzip, deflate, zstd or none")
    parts: list[bytes] = []
    for part in decompressed(body, encoding, limit_bytes):
        grow(len(part))
        parts.append(part)
    return b"".join(parts)
