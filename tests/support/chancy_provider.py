"""A model provider on loopback whose every answer is random, and whose faults the model's name asks for.

`gpt-4o-busy2` refuses equal requests twice with 429 and answers the third; `-down2` does so with 500; `-dies` cuts the stream
midway; `-slow` takes longer than the others; `-never` does not answer within any test; `-tools2` calls a tool in its first two
turns. So a generated agent says in its own text what the provider does, and concurrent agents cannot take each other's faults.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from loopback import LoopbackProvider, QuietHandler

_DIRECTIVE: Final = re.compile(r"-(busy|down|tools)(\d)")
_WORDS: Final = "the parcel was sent on Monday to the depot and waits for a free van 🙂 naïve ünïcode".split()
_PEOPLE: Final = ("Maria Keller", "maria.keller@example.com", "+49 30 901820", "12 Elm Street, Springfield", "Tom O'Brien")


class ChancyProvider(LoopbackProvider):
    """The server; `url` is where it is."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.asked: Counter[str] = Counter()
        """Path and body -> how often that was asked; since the last answer, if it was refused at first."""
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()
        super().stop()


class _Handler(QuietHandler):
    provider: ChancyProvider

    def do_GET(self) -> None:
        self._json({"price": random.randrange(10**6)})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        body: dict[str, Any] = json.loads(raw)
        model: str = body["model"]
        directives = {name: int(count) for name, count in _DIRECTIVE.findall(model)}
        attempt = self._count(raw)
        time.sleep(random.uniform(0, 0.004) + 0.03 * ("-slow" in model))
        if "-never" in model:
            self.provider.stopped.wait(300)
            self.close_connection = True
        elif attempt < directives.get("busy", 0):
            self._json({"error": {"message": f"busy {random.random()}"}}, 429, {"retry-after-ms": "1"})
        elif attempt < directives.get("down", 0):
            self._json({"error": {"message": f"down {random.random()}"}}, 500, {"retry-after-ms": "1"})
        else:
            if directives.keys() & {"busy", "down"}:
                self.provider.asked[self._key(raw)] = 0  # the next run of the program is refused as often
            self._answer(body, directives.get("tools", 0), dies="-dies" in model)

    def _key(self, raw: bytes) -> str:
        return self.path + raw.decode(errors="replace")

    def _count(self, raw: bytes) -> int:
        key = self._key(raw)
        self.provider.asked[key] += 1
        return self.provider.asked[key] - 1

    def _answer(self, body: dict[str, Any], turns: int, *, dies: bool) -> None:
        text = _random_text()
        if self.path.endswith("/responses"):
            self._json(_response(text))
        elif self.path.endswith("/messages"):
            self._stream(_message_events(text), dies=dies) if body.get("stream") else self._json(_message(text))
        elif body.get("stream"):
            self._stream(_chat_events(text), dies=dies)
        else:
            done = sum(item["role"] == "tool" for item in body["messages"])
            self._json(_chat(text, body["tools"][0]["function"]["name"] if done < turns else None))

    def _json(self, value: Any, status: int = 200, extra: dict[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self._head(status, {"content-type": "application/json", "content-length": str(len(data)), **(extra or {})})
        self.wfile.write(data)

    def _stream(self, events: Iterator[bytes], *, dies: bool) -> None:
        self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        for number, event in enumerate(events):
            if dies and number == 3:
                self.close_connection = True
                self.connection.shutdown(2)
                return
            self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            self.wfile.flush()
            time.sleep(0.001)  # so that chunks arrive one by one
        self.wfile.write(b"0\r\n\r\n")

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def _random_text() -> str:
    words = [*random.choices(_WORDS, k=6), str(random.randrange(10**9))]
    if random.random() < 0.3:
        words.append(random.choice(_PEOPLE))
    return " ".join(words)


def _chat(text: str, tool: str | None) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if tool is not None:
        function = {"name": tool, "arguments": json.dumps({"item": text})}
        call = {"id": f"call_{random.randrange(10**9)}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {
        **_chat_head("chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": "stop" if tool is None else "tool_calls"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
    }


def _chat_events(text: str) -> Iterator[bytes]:
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
    for number, piece in enumerate([*pieces, None]):
        delta = {} if piece is None else {"role": "assistant", "content": piece} if not number else {"content": piece}
        choice = {"index": 0, "delta": delta, "finish_reason": "stop" if piece is None else None}
        yield _event({**_chat_head("chat.completion.chunk"), "choices": [choice]})
    yield b"data: [DONE]\n\n"


def _chat_head(kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{random.randrange(10**9)}", "object": kind, "created": 1_700_000_000, "model": "gpt-4o-2024-08-06"}


def _response(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": list[Any]()}]
    return {
        "id": f"resp_{random.randrange(10**9)}",
        "object": "response",
        "created_at": 1,
        "model": "gpt-4o-2024-08-06",
        "status": "completed",
        "output": [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _message(text: str) -> dict[str, Any]:
    return {
        "id": f"msg_{random.randrange(10**9)}",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 9},
    }


def _message_events(text: str) -> Iterator[bytes]:
    start = {**_message(""), "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text[at : at + 9]}}
            for at in range(0, len(text), 9)
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]
    for event in events:
        yield f"event: {event['type']}\n".encode() + _event(event)


def _event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"
