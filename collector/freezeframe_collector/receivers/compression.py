"""Decompression of request bodies, with a bound on what comes out: a small hostile body must not fill the memory."""

from __future__ import annotations

import zlib
from typing import Final

import zstandard

from freezeframe_schemas.errors import WireError

_STEP: Final = 1 << 20
_ZLIB_WINDOWS: Final = {"gzip": 31, "deflate": 15}


def decompress(body: bytes, encoding: str, limit_bytes: int) -> bytes:
    """Return the body as it was before `encoding` (the ``Content-Encoding`` header).

    Raises:
        WireError: an unknown encoding, damaged bytes, or more than `limit_bytes` come out.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        plain = body
    elif encoding in _ZLIB_WINDOWS:
        plain = _inflate(body, encoding, limit_bytes)
    elif encoding == "zstd":
        plain = _unzstd(body, limit_bytes)
    else:
        raise WireError(f"content encoding {encoding[:40]!r}, expected gzip, deflate, zstd or none")
    if len(plain) > limit_bytes:
        raise WireError(f"the body has {len(plain)} bytes or more, the limit is {limit_bytes}")
    return plain


def _inflate(body: bytes, encoding: str, limit_bytes: int) -> bytes:
    engine = zlib.decompressobj(_ZLIB_WINDOWS[encoding])
    try:
        plain = engine.decompress(body, limit_bytes + 1)
    except zlib.error:
        if encoding != "deflate":
            raise WireError(f"the body is no {encoding}") from None
        # Some senders mean the raw stream without the zlib header.
        engine = zlib.decompressobj(-15)
        try:
            plain = engine.decompress(body, limit_bytes + 1)
        except zlib.error:
            raise WireError("the body is no deflate") from None
    if not engine.eof and len(plain) <= limit_bytes:
        raise WireError(f"the {encoding} body is cut short")
    if engine.unused_data:
        raise WireError(f"{len(engine.unused_data)} bytes follow the {encoding} body")
    return plain


def _unzstd(body: bytes, limit_bytes: int) -> bytes:
    engine = zstandard.ZstdDecompressor(max_window_size=max(1 << 27, 1024)).decompressobj()
    parts: list[bytes] = []
    size = 0
    try:
        # Fed in steps: one step cannot come out larger than the format's own block bound times the blocks in it.
        for start in range(0, len(body), _ZSTD_STEP):
            part = engine.decompress(body[start : start + _ZSTD_STEP])
            parts.append(part)
            size += len(part)
            if size > limit_bytes:
                raise WireError(f"the body has more than {limit_bytes} bytes")
    except zstandard.ZstdError:
        raise WireError("the body is no zstd") from None
    if not engine.eof:
        raise WireError("the zstd body is cut short")
    return b"".join(parts)


_ZSTD_STEP: Final = 1 << 10
"""A zstd block of 4 bytes can hold 128 KiB: 1 KiB in gives at most 32 MiB out."""
