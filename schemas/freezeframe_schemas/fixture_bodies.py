"""The bodies of a fixture's steps: the most readable form that restores the same bytes. Writer and reader together."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from freezeframe_schemas.errors import FixtureError
from freezeframe_schemas.exchange import Chunk

BLOB_LIMIT: Final = 64 * 1024
"""Bodies over this many bytes go to their own file."""

BODY_FORMS: Final = frozenset({"body", "chunks", "chunks_base64", "offsets_ns", "sizes"})
"""Fields of a request or a response that hold its body in its most readable form."""

_FORMS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("compact", {"ensure_ascii": False, "separators": (",", ":")}),
    ("spaced", {"ensure_ascii": False}),
    ("compact-ascii", {"ensure_ascii": True, "separators": (",", ":")}),
    ("spaced-ascii", {"ensure_ascii": True}),
)
"""The ways in which JSON is commonly written; `form` in a body names the one that restores its bytes."""


def body_to_json(body: bytes, blobs: dict[str, bytes] | None = None) -> dict[str, Any]:
    """Return the most readable form that restores the bytes: JSON, text, base64, or, when large, the name of a blob."""
    if blobs is not None and len(body) > BLOB_LIMIT:
        name = hashlib.sha256(body).hexdigest()
        blobs[name] = body
        return {"blob": name, "size_bytes": len(body)}
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}
    if text[:1] in ("{", "["):
        for form, options in _FORMS:
            if (value := _same_json(text, options)) is not None:
                return {"json": value, "form": form}
    return {"text": text}


def _same_json(text: str, options: Mapping[str, Any]) -> Any:
    try:
        value = json.loads(text)
        return value if json.dumps(value, **options) == text and _encodable(text) else None
    except (ValueError, RecursionError):
        return None


def _encodable(text: str) -> bool:
    # "\ud800" is legal JSON but its value cannot be written to a UTF-8 file: so such a body stays text
    return "\\ud" not in text and "\\uD" not in text


def body_from_json(data: Mapping[str, Any], directory: Path | None, read: dict[str, bytes] | None = None) -> bytes:
    """Return the bytes of a body. `read` holds the blobs read so far, so that each is in memory once.

    Raises:
        FixtureError: its blob is missing or damaged.
    """
    if "json" in data:
        options = dict(_FORMS)[data["form"]]
        return json.dumps(data["json"], **options).encode()
    if "text" in data:
        return data["text"].encode()
    if "base64" in data:
        return base64.b64decode(data["base64"])
    name = str(data["blob"])
    if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
        raise FixtureError(f"step body: blob {name[:80]!r}: expected 64 hex digits")
    if read is not None and name in read:
        return read[name]
    path = (directory or Path()) / "blobs" / name
    try:
        body = path.read_bytes()
    except FileNotFoundError:
        raise FixtureError(f"{path}: not found, a step's body is kept there") from None
    if hashlib.sha256(body).hexdigest() != name:
        raise FixtureError(f"{path}: content does not match its name: edited or damaged")
    if read is not None:
        read[name] = body
    return body


def chunks_to_json(chunks: tuple[Chunk, ...], blobs: dict[str, bytes]) -> dict[str, Any]:
    """Return the chunks of a response with their borders and times; large bodies are put into `blobs`."""
    offsets = " ".join(str(chunk.offset_ns) for chunk in chunks)
    body = b"".join(chunk.data for chunk in chunks)
    if len(chunks) == 1 or len(body) > BLOB_LIMIT:
        sizes = None if len(chunks) == 1 else " ".join(str(len(chunk.data)) for chunk in chunks)
        return {"offsets_ns": offsets, "sizes": sizes, "body": body_to_json(body, blobs)}
    try:
        return {"offsets_ns": offsets, "chunks": [chunk.data.decode() for chunk in chunks]}
    except UnicodeDecodeError:
        return {"offsets_ns": offsets, "chunks_base64": [base64.b64encode(chunk.data).decode() for chunk in chunks]}


def chunks_from_json(data: Mapping[str, Any], directory: Path, read: dict[str, bytes]) -> tuple[Chunk, ...]:
    """Return the chunks of a response.

    Raises:
        FixtureError: a blob is missing or damaged.
        ValueError: chunks and offsets do not match.
    """
    offsets = [int(text) for text in data.get("offsets_ns", "").split()]
    if "chunks" in data:
        pieces = [text.encode() for text in data["chunks"]]
    elif "chunks_base64" in data:
        pieces = [base64.b64decode(text) for text in data["chunks_base64"]]
    else:
        body = body_from_json(data["body"], directory, read) if "body" in data else b""
        pieces = _cut(body, [int(text) for text in data["sizes"].split()]) if "sizes" in data else [body]
    if len(pieces) != len(offsets):
        raise ValueError(f"{len(pieces)} chunks, {len(offsets)} offsets")
    return tuple(Chunk(data=piece, offset_ns=offset) for piece, offset in zip(pieces, offsets, strict=True))


def _cut(body: bytes, sizes: list[int]) -> list[bytes]:
    pieces: list[bytes] = []
    start = 0
    for size in sizes:
        if size < 0:
            raise ValueError("a chunk of less than no bytes")
        pieces.append(body[start : start + size])
        start += size
    return pieces
