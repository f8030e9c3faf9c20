"""A response body as one JSON document or as a stream of frames (SSE, JSON lines, AWS event stream). And back.

The content type decides; if it is missing or wrong (197 of 2,236 recorded exchanges have none), the bytes do. Never raises.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from freezeframe_schemas.wire import eventstream, sse
from freezeframe_schemas.wire.document import JsonValue, as_object, dump, parse

_LINE_TYPES: Final = ("ndjson", "stream+json", "jsonl", "json-seq")
_DONE: Final = b"[DONE]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One JSON value of a stream, with the name its event carried (None if the format has no names)."""

    value: JsonValue
    event: str | None = None


class Form(StrEnum):
    """Framing of an answer in a body. The value is its content type."""

    DOCUMENT = "application/json"
    EVENTS = "text/event-stream; charset=utf-8"
    LINES = "application/x-ndjson"
    STREAM_JSON = "application/stream+json"
    """Lines, as Cohere sends them."""
    AWS_EVENTS = "application/vnd.amazon.eventstream"
    ARRAY = "application/json; charset=UTF-8"
    """One JSON array, as Gemini sends it."""


DONE: Final = Frame(value="[DONE]")
"""The event that ends the streams of OpenAI and compatible APIs."""
METRICS: Final = "amazon-bedrock-invocationMetrics"
"""Key that Bedrock adds to the last event of a stream: token counts, for every maker's models."""
CHUNK: Final = "chunk"
"""Name of a frame that AWS wraps: the event of the model's maker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedBody:
    """A decoded body: `document` of a synchronous answer, or `frames` of a streamed one (then `document` is None)."""

    document: JsonValue = None
    frames: Sequence[Frame] | None = None
    done: bool = False
    """The stream reached the event ``[DONE]``."""
    form: Form = Form.DOCUMENT


def read_body(body: bytes, content_type: str) -> DecodedBody:
    """Return the content of the body; an unreadable one has none."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return _sse(body)
    if kind == eventstream.CONTENT_TYPE:
        return _eventstream(body)
    if kind.endswith(_LINE_TYPES):
        return replace(_lines(body), form=Form.STREAM_JSON) if kind == Form.STREAM_JSON else _lines(body)
    return _document(body) or _sniff(body)


def _document(body: bytes) -> DecodedBody | None:
    document = parse(body)
    if isinstance(document, list):
        # Gemini without alt=sse streams one JSON array; its errors also come in one.
        return DecodedBody(frames=[Frame(value=item) for item in document], form=Form.ARRAY)
    return None if document is None else DecodedBody(document=document)


def _sniff(body: bytes) -> DecodedBody:
    start = body.lstrip()[:7]
    if start.startswith((b"data:", b"event:", b":", b"id:", b"retry:")):
        return _sse(body)
    if start.startswith(b"{"):
        lines = _lines(body)
        return lines if lines.frames else DecodedBody()
    if start.startswith(b"["):
        return _array(body)
    events = _eventstream(body)
    return events if events.frames else DecodedBody()


def _sse(body: bytes) -> DecodedBody:
    frames: list[Frame] = []
    done = False
    for event in sse.parse_events(body):
        if event.data == _DONE:
            done = True
        elif (value := parse(event.data)) is not None:
            frames.append(Frame(event=event.event, value=value))
    if not frames and (document := _document(body)) is not None:
        return document  # an error answered as JSON under the stream's content type
    return DecodedBody(frames=frames, done=done, form=Form.EVENTS)


def _lines(body: bytes) -> DecodedBody:
    values = (parse(line) for line in body.splitlines())
    return DecodedBody(frames=[Frame(value=value) for value in values if value is not None], form=Form.LINES)


def _array(body: bytes) -> DecodedBody:
    """Return the whole items of a JSON array that was cut (Gemini streams one if the client did not ask for SSE)."""
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
        return DecodedBody(frames=frames, form=Form.ARRAY)


def _unwrapped(piece: str) -> JsonValue:
    try:
        return parse(b64decode(piece))
    except ValueError:
        return None


def _eventstream(body: bytes) -> DecodedBody:
    frames: list[Frame] = []
    for message in eventstream.parse(body):
        value = parse(message.payload)
        if isinstance(piece := as_object(value).get("bytes"), str):  # Bedrock's invoke wraps the model's own event
            value = _unwrapped(piece)
        name = message.headers.get(":event-type") or message.headers.get(":exception-type")
        if value is not None:
            frames.append(Frame(event=name if isinstance(name, str) else None, value=value))
    if not frames and (document := _document(body)) is not None:
        return document
    return DecodedBody(frames=frames, form=Form.AWS_EVENTS)


def write_frames(frames: Iterable[Frame], form: Form) -> list[bytes]:
    """Return the pieces of a body that holds the frames, one per frame."""
    match form:
        case Form.EVENTS:
            return [_write_event(frame) for frame in frames]
        case Form.AWS_EVENTS:
            return [eventstream.encode([_write_message(frame)]) for frame in frames]
        case Form.ARRAY:
            pieces = [dump(frame.value).encode() for frame in frames]
            return [*(before + piece for before, piece in zip([b"[", *[b",\r\n"] * len(pieces)], pieces, strict=False)), b"]"]
        case _:
            return [dump(frame.value).encode() + b"\n" for frame in frames]


def _write_event(frame: Frame) -> bytes:
    data = _DONE if frame is DONE else dump(frame.value).encode()
    return sse.encode([sse.SseEvent(event=frame.event, data=data)])


def _write_message(frame: Frame) -> eventstream.EventMessage:
    payload = dump(frame.value).encode()
    name = frame.event or CHUNK
    if name == CHUNK:
        payload = dump({"bytes": b64encode(payload).decode()}).encode()
    kind = "exception" if name.endswith("Exception") else "event"
    headers = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    return eventstream.EventMessage(headers=headers, payload=payload)
