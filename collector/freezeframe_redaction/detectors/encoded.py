"""Text inside base64, also compressed by gzip: found, read, and put back in the same alphabet, padding and lines."""

from __future__ import annotations

import base64
import binascii
import gzip
import re

from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import EXAMINED, Candidate
from freezeframe_redaction.rules.read import Rules
from freezeframe_schemas.decompression import decompressed
from freezeframe_schemas.errors import WireError

CLASS = "ENCODED"
"""Not a class of values: the redactor looks inside and reports what it finds there."""
_MAX_CHARACTERS = 65_536
_BLOB = re.compile(r"[A-Za-z0-9+/_-]{24,65536}(?:\r?\n[A-Za-z0-9+/_-]{1,80})*={0,2}")
_GZIP = "H4sI"
"""Start of gzip in base64. Source: RFC 1952, section 2.3.1."""
_MAX_UNPACKED = 1 << 20
_LINE_END = re.compile(r"\r?\n")
_TEXT = re.compile(r"[\t\n\r -~\u00a0-\U0010ffff]*")


def decode(blob: str) -> str | None:
    """Return the text that the blob spells, or None if it does not spell one."""
    body = _LINE_END.sub("", blob).rstrip("=")
    if len(body) % 4 == 1 or len(blob) > _MAX_CHARACTERS:
        return None
    try:
        raw = base64.b64decode(body.replace("-", "+").replace("_", "/") + "=" * (-len(body) % 4), validate=True)
        text = (b"".join(decompressed(raw, "gzip", _MAX_UNPACKED)) if body.startswith(_GZIP) else raw).decode()
    except (binascii.Error, ValueError, WireError):
        return None
    return text if _TEXT.fullmatch(text) else None


def _packed(raw: bytes) -> bytes:
    """Return a gzip member, the same on every machine: stored uncompressed, since zlib's compression depends on its version."""
    made = bytearray(gzip.compress(raw, compresslevel=0, mtime=0))
    made[_FLAGS_AND_SYSTEM] = b"\x00\xff"
    return bytes(made)


_FLAGS_AND_SYSTEM = slice(8, 10)


def encode(text: str, like: str) -> str:
    """Return the text in base64, compressed if `like` is, with its alphabet and padding."""
    raw = text.encode()
    made = base64.b64encode(_packed(raw) if like.startswith(_GZIP) else raw).decode()
    if "-" in like or "_" in like:
        made = made.replace("+", "-").replace("/", "_")
    ending = _LINE_END.search(like)
    letters = _LINE_END.sub("", like)
    if not letters.endswith("=") and len(letters) % 4:
        made = made.rstrip("=")
    if ending is None:
        return made
    width = ending.start()
    return ending.group().join(made[at : at + width] for at in range(0, len(made), width))


def _one_blob(lines: str) -> str:
    """Return the lines that belong together: all as long as the first, except the last."""
    width = len(_LINE_END.split(lines, 1)[0])
    end = 0
    for line in re.finditer(r"[^\r\n]+", lines):
        if len(line.group()) > width or (end and width < _MIN_LINE_LENGTH):
            break
        end = line.end()
        if len(line.group()) < width:
            break
    return lines[:end]


_MIN_LINE_LENGTH = 60
"""Letters of a line of wrapped base64; most have 64 or 76."""


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    match = _BLOB.match(text, at - 24, min(high, at + _MAX_CHARACTERS))
    if match is None:
        return ()
    start, blob = match.start(), _one_blob(match.group())
    end = start + len(blob)
    # Words, paths, hashes and identifiers have no capitals, or no small letters.
    is_plain = blob.islower() or blob.isupper() or blob.isdigit() or len(blob) > _MAX_CHARACTERS
    if is_plain or (end < high and text[end].isalnum()):
        return (Candidate(start, end, EXAMINED),)
    # The first characters distinguish text from noise before the rest is decoded.
    begins = blob.startswith(_GZIP) or any(decode(blob[:most]) is not None for most in (24, 20, 16))
    return (Candidate(start, end, CLASS if begins and decode(blob) is not None else EXAMINED),)


DETECTORS = made_of(Rules("encoded"), _find)
