"""A response body as what it is: one JSON document, or a stream of frames (SSE, JSON lines, AWS event stream).

The content type decides; where it is missing or wrong (197 of 2,236 recorded exchanges have none) the bytes do. Never raises.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from freezeframe_schemas.wire import eventstream, sse
from freezeframe_schemas.wire.document import JsonValue, as_object, parse

_LINE_TYPES: Final = ("ndjson", "stream+json", "jsonl", "json-seq")
_DONE: Final = b"[DONE]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One JSON value of a stream, with the name its event carried (None where the format has no names)."""

    value: JsonValue
    event: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A decoded body: `document` of a synchronous answer, or `frames` of a streamed one (then `document` is None)."""

    document: JsonValue = None
    frames: Sequence[Frame] | None = None
    done: bool = False
    """The stream came to the event ``[DONE]``, with which OpenAI and those who speak as it does end theirs."""


def read_body(body: bytes, content_type: str) -> Body:
    """Return what the body holds; an unreadable one holds None."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return _sse(body)
    if kind == eventstream.CONTENT_TYPE:
        return _eventstream(body)
    if kind.endswith(_LINE_TYPES):
        return _lines(body)
    document = parse(body)
    if document is not None:
        return Body(document=document)
    return _sniff(body)


def _sniff(body: bytes) -> Body:
    start = body.lstrip()[:7]
    if start.startswith((b"data:", b"event:", b":", b"id:", b"retry:")):
        return _sse(body)
    if start.startswith(b"{"):
        lines = _lines(body)
        return lines if lines.frames else Body()
    if start.startswith(b"["):
        return _array(body)
    events = _eventstream(body)
    return events if events.frames else Body()


def _sse(body: bytes) -> Body:
    frames: list[Frame] = []
    done = False
    for event in sse.parse_events(body):
        if event.data == _DONE:
            done = True
        elif (value := parse(event.data)) is not None:
            frames.append(Frame(event=event.event, value=value))
    if not frames and (document := parse(body)) is not None:
        return Body(document=document)  # an error answered as JSON under the stream's content type
    return Body(frames=frames, done=done)


def _lines(body: bytes) -> Body:
    values = (parse(line) for line in body.splitlines())
    return Body(frames=[Frame(value=value) for value in values if value is not None])


def _array(body: bytes) -> Body:
    """Return the whole items of a JSON array that was cut (Gemini streams one, where nobody asked for SSE)."""
    text = body.decode("utf-8", "replace").lstrip()
    decoder = json.JSONDecoder(strict=False)
    frames: list[Frame] = []
    position = 1
    try:
        while True:
            position += len(text) - position - len(text[position:].lstrip(" \r\n\t,"))
            value, position = decoder.raw_decode(text, position)
            frames.append(Frame(value=value))
    except (ValueError, RecursionError):
        return Body(frames=frames)


def _unwrapped(piece: str) -> JsonValue:
    try:
        return parse(b64decode(piece))
    except ValueError:
        return None


def _eventstream(body: bytes) -> Body:
    frames: list[Frame] = []
    for message in eventstream.parse(body):
        value = parse(message.payload)
        if isinstance(piece := as_object(value).get("bytes"), str):  # Bedrock's invoke wraps the model's own event
            value = _unwrapped(piece)
        name = message.headers.get(":event-type") or message.headers.get(":exception-type")
        if value is not None:
            frames.append(Frame(event=name if isinstance(name, str) else None, value=value))
    if not frames and (document := parse(body)) is not None:
        return Body(document=document)
    return Body(frames=frames)
