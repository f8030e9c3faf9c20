"""Text inside base64: found, read, and put back in the same alphabet with the same padding."""

from __future__ import annotations

import base64
import binascii
import re

from freezeframe_redaction.model import Candidate, Detector, Example

CLASS = "ENCODED"
"""Not a class of values: the redactor looks inside and reports what it finds there."""
_MAX_CHARACTERS = 65_536
_BLOB = re.compile(r"[A-Za-z0-9+/_-]{24,65536}={0,2}")
_TEXT = re.compile(r"[\t\n\r -~\u00a0-\U0010ffff]*")


def decode(blob: str) -> str | None:
    """Return the text that the blob spells, or None where it spells none."""
    body = blob.rstrip("=")
    if len(body) % 4 == 1 or len(blob) > _MAX_CHARACTERS:
        return None
    try:
        raw = base64.b64decode(body.replace("-", "+").replace("_", "/") + "=" * (-len(body) % 4), validate=True)
        text = raw.decode()
    except (binascii.Error, ValueError):
        return None
    return text if _TEXT.fullmatch(text) else None


def encode(text: str, like: str) -> str:
    """Return the text in base64, with the alphabet and the padding of `like`."""
    made = base64.b64encode(text.encode()).decode()
    if "-" in like or "_" in like:
        made = made.replace("+", "-").replace("/", "_")
    return made if like.endswith("=") or len(like) % 4 == 0 else made.rstrip("=")


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    match = _BLOB.match(text, at - 24, min(high, at + _MAX_CHARACTERS))
    if match is None:
        return ()
    blob = match.group()
    examined = (Candidate(match.start(), match.end(), ""),)
    # Words, paths, hashes and identifiers: no capitals, or no small letters.
    if blob.islower() or blob.isupper() or blob.isdigit() or match.end() - match.start() > _MAX_CHARACTERS:
        return examined
    if match.end() < high and text[match.end()].isalnum():
        return examined
    # The first characters tell text from noise before the rest is decoded.
    if decode(blob[:24]) is None and decode(blob[:20]) is None and decode(blob[:16]) is None:
        return examined
    return (Candidate(match.start(), match.end(), CLASS),) if decode(blob) is not None else examined


DETECTORS = (
    Detector(
        name="base64",
        class_=CLASS,
        triggers=(r"(?:^|[^A-Za-z0-9+/_\-])[A-Za-z0-9+/_\-]{24}",),
        find=_find,
        examples=(
            Example(
                text="Y29udGFjdCBib2Iuc21pdGhAZ21haWwuY29tIHRvZGF5",
                value="Y29udGFjdCBib2Iuc21pdGhAZ21haWwuY29tIHRvZGF5",
                near_miss="sha512-5CHv4CEaw+fChFx/+7CHlpKV2hfwBfwC0fGBO8LLa0I5hLfZ1k04tnJhOtqO",
            ),
        ),
    ),
)
