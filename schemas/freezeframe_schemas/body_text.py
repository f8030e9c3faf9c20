"""Read the bytes of a body as text, and write the text back as the same bytes.

Redaction and matching must read a body alike: the one must find whatever the other replaced. Nothing is lost on the way: bytes
that are not text come back unchanged.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from freezeframe_schemas.decompression import decompressed
from freezeframe_schemas.errors import WireError

_CHARSET: Final = re.compile(r"charset=[\"']?([A-Za-z0-9._:-]{1,40})", re.IGNORECASE)
_BOUNDARY: Final = re.compile(r"multipart/[^;]*;(?:[^;]*;)*? *boundary=(?:\"([^\"]{1,70})\"|([^\s;\"]{1,70}))", re.IGNORECASE)
_MARKS: Final = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_GZIP: Final = b"\x1f\x8b\x08"
_MAX_BYTES: Final = 64_000_000
_MIXED: Final = "mixed"
"""UTF-8 with parts that are not text, as in an upload: each byte of such a part is a lone surrogate."""
_BYTES: Final = "latin-1"
"""Every byte is a character."""


def read_text(body: bytes, content_type: str = "") -> tuple[str, str]:
    """Return the body as text and the codec that writes it back: UTF-8, else what `content_type` or a byte order mark says."""
    try:
        return body.decode(), "utf-8"
    except UnicodeDecodeError:
        pass
    declared = _CHARSET.search(content_type)
    for codec in (*(name for mark, name in _MARKS if body.startswith(mark)), declared[1] if declared else ""):
        text = _exactly(body, codec) if codec else None
        if text is not None:
            return text, codec
    if content_type.lower().startswith("multipart/"):
        return body.decode(errors="surrogateescape"), _MIXED
    return body.decode(_BYTES), _BYTES


def write_text(text: str, codec: str) -> bytes:
    """Return the bytes of a text that `read_text` read; a character that the codec lacks becomes ``?``."""
    if codec == "utf-8":
        return text.encode(errors="surrogatepass")
    if codec == _MIXED:
        return text.encode(errors="surrogateescape")
    return text.encode(codec, errors="replace")


def expanded(body: bytes) -> bytes:
    """Return the content of a gzip body, which does not depend on how and when it was compressed; any other body unchanged."""
    if not body.startswith(_GZIP):
        return body
    try:
        return b"".join(decompressed(body, "gzip", _MAX_BYTES))
    except WireError:
        return body


def boundary(content_type: str) -> str:
    """Return the boundary of a multipart body, which clients choose at random; empty for any other body."""
    match = _BOUNDARY.match(content_type.strip())
    return (match[1] or match[2]) if match else ""


def _exactly(body: bytes, codec: str) -> str | None:
    try:
        text = body.decode(codec)
        return text if text.encode(codec) == body else None
    except (LookupError, UnicodeError):
        return None
