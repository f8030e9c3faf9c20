"""A provider on loopback for the capture tests: OpenAI chat completions and Anthropic messages, plain and streamed, and faults.

Every answer is different from the one before, so that a replay that went live would be seen.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterable
from typing import Any

from loopback import LoopbackProvider, QuietHandler


class Provider(LoopbackProvider):
    """The server; `requests` holds the paths asked for, `bodies` what was sent there.

    `faults` is what to do with the next requests instead of answering."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.requests: list[str] = []
        self.bodies: list[Any] = []
        self.faults: list[str] = []
        self.numbers = itertools.count(1)


class _Handler(QuietHandler):
    provider: Provider

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        raw = self.read_body()
        try:
            body = json.loads(raw)
        except ValueError:
            body = {}
        self._answer(body if isinstance(body, dict) else {})

    def _answer(self, body: dict[str, Any]) -> None:
        self.provider.requests.append(self.path)
        self.provider.bodies.append(body)
        number = next(self.provider.numbers)
        fault = self.provider.faults.pop(0) if self.provider.faults else ""
        if fault:
            self._fail(fault, number)
        elif self.path.endswith("/chat/completions"):
            self._stream(_chat_events(number)) if body.get("stream") else self._json(_chat(number, body))
        elif self.path.endswith("/messages"):
            self._stream(_message_events(number)) if body.get("stream") else self._json(_message(number))
        elif self.path.endswith("/responses"):
            self._json(_response(number))
        elif self.path.endswith("/events"):
            self._open_stream(number)
        elif self.path.endswith("/embeddings"):
            self._json(_embeddings(number))
        else:
            self._json({"price": number})

    def _fail(self, fault: str, number: int) -> None:
        if fault == "500":
            self._json(
                {"error": {"message": f"boom {number}", "type": "server_error"}}, status=500, extra={"retry-after-ms": "1"}
            )
        elif fault == "429":
            self._json({"error": {"message": f"busy {number}"}}, status=429, extra={"retry-after": "2", "retry-after-ms": "1"})
        elif fault == "late":
            self.connection.recv(1)  # later than the client waits: it has gone
            self.close_connection = True
        elif fault == "slow-stream":
            self._stream(_chat_events(number), pause_s=0.05)
        elif fault == "429-cut":
            self._head(429, {"content-type": "application/json", "content-length": "400", "x-should-retry": "false"})
            self.wfile.write(b'{"error": {"message": "Rate limit reached for')
            self._cut()
        elif fault == "stream-cut":
            self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
            for event in list(_chat_events(number))[:3]:
                self._chunk(event)
            self._cut()
        elif fault == "hang-up":
            self._cut()
        elif fault == "binary":
            self._bytes(b"\xff\xfe\x00" + number.to_bytes(2, "big"), "application/octet-stream")
        elif fault.startswith("big:"):
            self._json({**_chat(number, {}), "padding": "x" * int(fault[4:])})
        elif fault == "surrogate":
            self._bytes(json.dumps(_chat(number, {})).replace("Answer", "\\ud800 Answer").encode(), "application/json")
        elif fault == "odd-numbers":
            self._bytes(
                b'{"id": "x", "choices": [], "usage": {"prompt_tokens": 1e400, "n": NaN, "m": ' + b"9" * 30 + b"}}",
                "application/json",
            )
        else:
            raise AssertionError(f"unknown fault {fault}")

    def _json(self, value: Any, status: int = 200, extra: dict[str, str] | None = None) -> None:
        self._bytes(json.dumps(value).encode(), "application/json", status, extra)

    def _bytes(self, data: bytes, content_type: str, status: int = 200, extra: dict[str, str] | None = None) -> None:
        self._head(
            status,
            {"content-type": content_type, "content-length": str(len(data)), "set-cookie": "sid=secret", **(extra or {})},
        )
        self.wfile.write(data)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, events: Iterable[bytes], pause_s: float = 0.002) -> None:
        self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        try:
            for event in events:
                self._chunk(event)
                time.sleep(pause_s)  # so that chunks arrive one by one
            self.wfile.write(b"0\r\n\r\n")
        except OSError:  # the client hung up: the test expects that
            self.close_connection = True

    def _open_stream(self, number: int) -> None:
        """Send two events, then nothing until the client leaves."""
        self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        for place in range(2):
            self._chunk(f"data: event {number}.{place}\n\n".encode())
        self.connection.recv(1)
        self.close_connection = True

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _cut(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(2)


def _chat(number: int, body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": f"Answer {number}: ünï 🙂"}
    finish = "stop"
    spoken = body.get("messages") or []
    if body.get("tools") and not any(item.get("role") == "tool" for item in spoken):
        call = {
            "id": f"call_of_{number}",
            "type": "function",
            "function": {"name": body["tools"][0]["function"]["name"], "arguments": '{"order_id": "AC-1"}'},
        }
        message, finish = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "gpt-4o-2024-08-06",
        "system_fingerprint": "fp_1",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 9, "completion_tokens": number, "total_tokens": 9 + number},
    }


def _chat_events(number: int) -> Iterable[bytes]:
    for index, word in enumerate(["Hel", "lo ", f"no. {number} ", "🙂"]):
        delta = {"role": "assistant", "content": word} if index == 0 else {"content": word}
        yield _sse(
            {
                "id": f"chatcmpl-{number}",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "gpt-4o-2024-08-06",
                "choices": [{"index": 0, "delta": delta, "finish_reason": None}],
            }
        )
    yield _sse(
        {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "gpt-4o-2024-08-06",
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        }
    )
    yield b"data: [DONE]\n\n"


def _message(number: int) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [{"type": "text", "text": f"Summary {number}"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": number},
    }


def _message_events(number: int) -> Iterable[bytes]:
    start = {**_message(number), "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ]
    events += [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
        for word in ("Sum", "mary ", str(number))
    ]
    events += [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]
    for event in events:
        yield f"event: {event['type']}\n".encode() + _sse(event)


def _response(number: int) -> dict[str, Any]:
    text = {"type": "output_text", "text": f"Answer {number}", "annotations": list[Any]()}
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "model": "gpt-4o-2024-08-06",
        "status": "completed",
        "output": [{"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text]}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _embeddings(number: int) -> dict[str, Any]:
    return {
        "object": "list",
        "model": "text-embedding-3-small",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, number]}],
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }


def _sse(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"
