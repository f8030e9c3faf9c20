"""Server-sent events: bytes to events and back, with the byte range of each event.

It reads recordings, so it must accept what a server or a cut connection left: ``\\r\\n``, ``\\r``, comments, a missing
last blank line. It never raises.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class SseEvent:
    """One event: its name (``event:`` field, None if absent), its data, and its place in the body."""

    event: str | None = None
    data: bytes = b""
    """``data:`` lines joined by ``\\n``. Bytes: a delta may be cut, or not be UTF-8."""
    start: int = 0
    end: int = 0
    """Byte range ``[start, end)``, from the first line of the block (comments before it included) through its blank line."""
    complete: bool = True
    """False for a last block without its blank line: a browser or SDK would not have dispatched it."""


def parse_events(body: bytes) -> list[SseEvent]:
    """Return the events of `body` in order; blocks without data and name (comments, keep-alives) are skipped."""
    events: list[SseEvent] = []
    name: str | None = None
    data: list[bytes] = []
    start = 0
    position = len(_BYTE_ORDER_MARK) if body.startswith(_BYTE_ORDER_MARK) else 0
    size = len(body)
    # Splitting on "\n" is several times faster than the general rule, and every provider measured follows it.
    lone_returns = b"\r" in body.replace(b"\r\n", b"")
    while position < size:
        if lone_returns:
            match = _LINE_END.search(body, position)
            line_end, following = (match.start(), match.end()) if match else (size, size)
        else:
            found = body.find(b"\n", position)
            line_end, following = (found, found + 1) if found >= 0 else (size, size)
        line = body[position:line_end].removesuffix(b"\r")
        position = following
        if line.startswith(b"data:"):
            data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line.startswith(b"event:"):
            name = line[6:].strip().decode("utf-8", "replace")
        elif line == b"data":
            data.append(b"")
        elif not line and (data or name is not None):
            events.append(SseEvent(event=name, data=b"\n".join(data), start=start, end=position))
            name, data = None, []
            start = position
    if data or name is not None:
        events.append(SseEvent(event=name, data=b"\n".join(data), start=start, end=size, complete=False))
    return events


def encode(events: Iterable[SseEvent]) -> bytes:
    """Return the events as a body; the byte ranges they carry are ignored."""
    out = bytearray()
    for event in events:
        if event.event is not None:
            out += b"event: " + event.event.encode() + b"\n"
        for line in event.data.split(b"\n"):
            out += b"data: " + line + b"\n"
        out += b"\n"
    return bytes(out)
