"""A provider on loopback that speaks every wire format, by the formats' own writers: a tool call first, then text.

Every answer is different from the one before, so that a replay that went live would be seen.
"""

from __future__ import annotations

import itertools

from loopback import LoopbackProvider, QuietHandler

from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Request, Response
from freezeframe_schemas.wire import find_dialect
from freezeframe_schemas.wire.answer import Answer, ToolCall

_OWN_HOSTS = {"/api/chat": "http://127.0.0.1:11434", "/v2/chat": "https://api.cohere.com"}
"""Paths that mean nothing on another host -> theirs."""


class AnyProvider(LoopbackProvider):
    """The server; `asked` counts what came."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.asked = 0
        self.numbers = itertools.count(1)

    def variables(self) -> dict[str, str]:
        """Return what leads SDKs here."""
        keys = {"OPENAI_API_KEY": "sk-test", "ANTHROPIC_API_KEY": "sk-test"}
        hosts = ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "OLLAMA_HOST", "CO_API_URL")
        return {**keys, "OPENAI_BASE_URL": f"{self.url}/v1", **dict.fromkeys(hosts, self.url)}

    def answer(self, request: Request) -> Response:
        """Return the answer: a call of the first tool offered, until the request holds a result of one."""
        match = find_dialect(request.method, request.url, request.headers, request.body)
        assert match is not None, request.url
        self.asked += 1
        number = next(self.numbers)
        if match.dialect.operation == genai.OP_EMBEDDINGS:
            return match.dialect.write_answer(Answer(vectors=((number / 2, -1.0),), id=f"e_{number}"), request)
        attributes = match.dialect.request_attributes(request.body)
        offered = genai.TOOL_DEFINITIONS in attributes and "tool_call_response" not in str(attributes.get(genai.INPUT_MESSAGES))
        calls = (ToolCall(id=f"call_{number}", name="track", arguments={"order": f"AC-{number}"}),) if offered else ()
        pieces = () if calls else ("It is ", f"no. {number} ", "in Lyon 🙂.")
        return match.dialect.write_answer(Answer(pieces=pieces, tool_calls=calls, id=f"a_{number}", output_tokens=7), request)


class _Handler(QuietHandler):
    provider: AnyProvider

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        url = f"{_OWN_HOSTS.get(self.path, self.provider.url)}{self.path}"
        answer = self.provider.answer(Request(method="POST", url=url, headers=tuple(self.headers.items()), body=body))
        self.send_response(answer.status or 200)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for chunk in answer.chunks:
            self.wfile.write(f"{len(chunk.data):x}\r\n".encode() + chunk.data + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")
