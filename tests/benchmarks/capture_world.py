"""The provider and the collector of the capture benchmark, one process that answers both and keeps nothing.

python tests/benchmarks/capture_world.py      prints its port, and serves until it is ended
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

_CHAT: Final = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o-2024-08-06",
        "system_fingerprint": "fp_1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello there."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
    }
).encode()


def _sse(value: Any, event: str | None = None) -> bytes:
    lead = f"event: {event}\n" if event else ""
    return f"{lead}data: {json.dumps(value)}\n\n".encode()


def _openai_events() -> list[bytes]:
    def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _sse({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o", "choices": [choice]})

    return [*(chunk({"role": "assistant", "content": f"word{i} "}) for i in range(6)), chunk({}, "stop"), b"data: [DONE]\n\n"]


def _anthropic_events() -> list[bytes]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 1},
    }
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"w{i} "}} for i in range(3)),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]
    return [_sse(event, str(event["type"])) for event in events]


def _chunked(pieces: list[bytes]) -> bytes:
    body = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces) + b"0\r\n\r\n"
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + body


def _plain(body: bytes, content_type: str = "application/json") -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


async def serve() -> None:
    """Answer provider and collector requests; print the port."""
    answers = {"chat": _plain(_CHAT), "openai": _chunked(_openai_events()), "anthropic": _chunked(_anthropic_events())}

    received = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
                body = await reader.readexactly(length)
                path = head.partition(b" ")[2].partition(b" ")[0]
                if path == b"/received":
                    writer.write(_plain(str(received).encode()))
                elif not path.endswith((b"/chat/completions", b"/messages")):  # OTLP, or a vendor's own way
                    received += length
                    writer.write(_plain(b"", "application/x-protobuf"))
                elif b"/messages" in head:
                    writer.write(answers["anthropic"])
                else:
                    streamed = b'"stream":true' in body or b'"stream": true' in body
                    writer.write(answers["openai" if streamed else "chat"])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
