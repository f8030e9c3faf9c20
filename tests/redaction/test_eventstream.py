"""Binary event streams (Bedrock) through the redactor: botocore itself reads what comes out."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

import pytest
from bare_spans import bare_span
from botocore.eventstream import EventStreamBuffer

from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_schemas import genai

REDACTOR = Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))
NAME = "Katarzyna Vogelsang"


def _header(name: str, value: str) -> bytes:
    return bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()


def _frame(event: str, payload: bytes) -> bytes:
    headers = _header(":event-type", event) + _header(":content-type", "application/json") + _header(":message-type", "event")
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    body = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + payload
    return body + struct.pack(">I", zlib.crc32(body))


def _converse(text: str) -> bytes:
    return json.dumps({"contentBlockIndex": 0, "delta": {"text": text}, "p": "abcdefgh"}).encode()


def _invoke(text: str) -> bytes:
    event = json.dumps({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
    return json.dumps({"bytes": base64.b64encode(event.encode()).decode(), "p": "abcd"}).encode()


def _through(body: bytes, sizes: tuple[int, ...]) -> dict[str, Any]:
    headers = json.dumps([["Content-Type", "application/vnd.amazon.eventstream"]])
    span = bare_span({genai.RESPONSE_BODY: body, genai.RESPONSE_HEADERS: headers, genai.RESPONSE_CHUNK_SIZES: sizes})
    return dict(REDACTOR.redact_span(span).attributes)


def _events(body: bytes) -> list[dict[str, Any]]:
    buffer = EventStreamBuffer()
    buffer.add_data(body)
    return [json.loads(message.payload) for message in buffer]


def _text(event: dict[str, Any]) -> str:
    inner = json.loads(base64.b64decode(event["bytes"])) if "bytes" in event else event
    return inner["delta"]["text"]


@pytest.mark.parametrize("payload", [_converse, _invoke])
def test_a_value_split_over_frames_is_replaced_and_botocore_reads_the_frames(payload: Any) -> None:
    """Lengths and checksums are those of the new frames; the pieces spell the surrogate that the whole value has."""
    pieces = ["My name is Katar", "zyna Vogel", "sang, and my mail is kv", "@firma.pl."]
    frames = [_frame("chunk", payload(piece)) for piece in pieces]
    made = _through(b"".join(frames), tuple(map(len, frames)))
    body = made[genai.RESPONSE_BODY]
    said = "".join(map(_text, _events(body)))
    assert said == REDACTOR.redact(f"My name is {NAME}, and my mail is kv@firma.pl.").value
    assert sum(made[genai.RESPONSE_CHUNK_SIZES]) == len(body)
    assert len(made[genai.RESPONSE_CHUNK_SIZES]) == len(frames)


def test_a_stream_without_a_finding_stays_byte_exact_also_where_it_breaks_off() -> None:
    """The last frame is incomplete."""
    body = b"".join(_frame("chunk", _converse(text)) for text in ("All is ", "well", "."))
    for cut in (body, body[:-7]):
        assert _through(cut, (len(cut),))[genai.RESPONSE_BODY] == cut


def test_a_stream_with_a_wrong_checksum_is_left_out() -> None:
    """What cannot be read is not stored."""
    body = bytearray(_frame("chunk", _converse(f"My name is {NAME}")))
    body[-1] ^= 1
    made = _through(bytes(body), (len(body),))
    assert genai.RESPONSE_BODY not in made
    assert made[genai.RESPONSE_BODY_OMITTED] == f"cannot be redacted: broken event stream, {len(body)} bytes"
