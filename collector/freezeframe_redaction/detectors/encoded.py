"""Text inside base64, also compressed by gzip: found, read, and put back in the same alphabet, padding and lines."""

from __future__ import annotations

import base64
import binascii
import gzip
import re
import zlib
from collections.abc import Callable

from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules

CLASS = "ENCODED"
"""Not a class of values: the redactor looks inside and reports what it finds there."""
_MAX_CHARACTERS = 65_536
_BLOB = re.compile(r"[A-Za-z0-9+/_-]{24,65536}(?:\r?\n[A-Za-z0-9+/_-]{1,80})*={0,2}")
_GZIP = "H4sI"
"""How base64 of gzip begins. Source: RFC 1952, section 2.3.1."""
_MAX_UNPACKED = 1 << 20
_LINE_END = re.compile(r"\r?\n")
_TEXT = re.compile(r"[\t\n\r -~\u00a0-\U0010ffff]*")


_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def _letters(wanted: Callable[[int], bool]) -> str:
    """Return the class of the letters of base64 whose six bits are wanted (``-`` and ``_`` stand for ``+`` and ``/``)."""
    held = "".join(char for bits, char in enumerate(_ALPHABET) if wanted(bits))
    return f"[{held}]".replace("+", "+\\-").replace("/", "/_")


def _group() -> str:
    """Return what four letters look like that spell three bytes of UTF-8 text.

    Their first six bits show whether the first byte is plain, continues a character or leads one; a leading byte has a
    continuing one after it, a plain one does not. Identifiers, paths and hashes fail this within a few groups.
    """
    plain = _letters(lambda bits: bits in (2, 3) or 8 <= bits < 32) + _letters(lambda bits: bits & 15 not in (1, 8, 9, 10, 11))
    leading = _letters(lambda bits: 48 <= bits < 62) + _letters(lambda bits: 8 <= bits & 15 < 12)
    continuing = _letters(lambda bits: 32 <= bits < 48) + _ANY
    return f"(?:{plain}|{leading}|{continuing}){_ANY}{{2}}"


_ANY = r"[A-Za-z0-9+/_\-]"


def decode(blob: str) -> str | None:
    """Return the text that the blob spells, or None if it does not spell one."""
    body = _LINE_END.sub("", blob).rstrip("=")
    if len(body) % 4 == 1 or len(blob) > _MAX_CHARACTERS:
        return None
    try:
        raw = base64.b64decode(body.replace("-", "+").replace("_", "/") + "=" * (-len(body) % 4), validate=True)
        text = (_unpacked(raw) if body.startswith(_GZIP) else raw).decode()
    except (binascii.Error, ValueError, zlib.error):
        return None
    return text if _TEXT.fullmatch(text) else None


def _unpacked(raw: bytes) -> bytes:
    """Return what was compressed.

    Raises:
        ValueError, zlib.error: it is cut off, something follows it, or it is too large.
    """
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    data = unpacker.decompress(raw, _MAX_UNPACKED)
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("not one whole gzip member of a reasonable size")
    return data


def _packed(raw: bytes) -> bytes:
    """Return a gzip member, the same on every machine: stored, since what else zlib makes depends on its version."""
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
        if len(line.group()) > width or (end and width < _LEAST_LINE):
            break
        end = line.end()
        if len(line.group()) < width:
            break
    return lines[:end]


_LEAST_LINE = 60
"""Letters of a line of wrapped base64; most have 64 or 76."""


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    match = _BLOB.match(text, at - 24, min(high, at + _MAX_CHARACTERS))
    if match is None:
        return ()
    blob = _one_blob(match.group())
    if blob != match.group():
        match = _BLOB.match(text, match.start(), match.start() + len(blob))
        assert match is not None
    examined = (Candidate(match.start(), match.end(), ""),)
    # Words, paths, hashes and identifiers have no capitals, or no small letters.
    if blob.islower() or blob.isupper() or blob.isdigit() or match.end() - match.start() > _MAX_CHARACTERS:
        return examined
    if match.end() < high and text[match.end()].isalnum():
        return examined
    # The first characters distinguish text from noise before the rest is decoded.
    if not blob.startswith(_GZIP) and all(decode(blob[:most]) is None for most in (24, 20, 16)):
        return examined
    return (Candidate(match.start(), match.end(), CLASS),) if decode(blob) is not None else examined


DETECTORS = made_of(Rules("encoded", {"group": _group()}), _find)
