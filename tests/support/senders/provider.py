"""A provider on loopback that answers with recorded bytes: by API, streamed or not, before a result of a tool or after it.

It counts what it answered, so that it says what a sender should have reported.
"""

from __future__ import annotations

import json
from typing import Any, Final

from clients.libraries import anthropic, openai
from clients.provider import Turn, recorded, written
from loopback import LoopbackProvider, QuietHandler, send_json

from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.wire import find_dialect

ANSWERS: Final[dict[tuple[str, bool], tuple[Turn, ...]]] = {
    ("chat/completions", False): openai.TOOL,
    ("chat/completions", True): openai.TOOL_STREAM,
    ("responses", False): recorded("0b39b4fa32e54bf0", "9693131782c3ca73"),
    ("responses", True): recorded("9fdcacbffce3f36c", "b2fef1feb3e4e2a1"),
    ("messages", False): anthropic.TOOL,
    ("messages", True): recorded("1357ab1dfd0eb8a1", "c1a6fb9e8d261c5e"),
}
"""API and streamed -> the answer that asks for the tool, and the one after it."""
REFUSED: Final = "Nowhere"
"""A question with this word is refused, as recorded."""
_RESULTS: Final = ('"role":"tool"', '"function_call_output"', '"tool_result"', "40 C")
"""A request with the result of a tool has one of these."""


class Recorded(LoopbackProvider):
    """The server. `tokens` has what each answer cost."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.tokens: list[list[AttributeValue]] = []

    def variables(self) -> dict[str, str]:
        """Return what leads SDKs here."""
        keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "sk-none")
        return {**keys, "OPENAI_BASE_URL": f"{self.url}/v1", "ANTHROPIC_BASE_URL": self.url, "GOOGLE_GEMINI_BASE_URL": self.url}


class _Handler(QuietHandler):
    provider: Recorded

    def do_POST(self) -> None:
        body = self.read_body()
        if self.path.endswith("/input_tokens"):  # CrewAI has the provider count each prompt
            send_json(self, b'{"object": "response.input_tokens", "input_tokens": 61}')
            return
        request: dict[str, Any] = json.loads(body)
        api = next(api for api, _ in ANSWERS if self.path.endswith(api))
        has_result = any(sign in body.decode().replace(": ", ":") for sign in _RESULTS)
        turn = ANSWERS[api, bool(request.get("stream"))][has_result or not request.get("tools")]
        refused = REFUSED in body.decode()
        if refused:
            turn = anthropic.BAD_REQUEST if api == "messages" else openai.WRONG_KEY
        status, headers, pieces = written(turn)
        if not refused:
            self._count(body, headers, b"".join(pieces))
        self.send_response_only(status)
        for name, value in (*headers, ("content-length", str(sum(map(len, pieces))))):
            self.send_header(name, value)
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece)

    def _count(self, body: bytes, headers: list[tuple[str, str]], answer: bytes) -> None:
        match = find_dialect("POST", f"https://api.openai.com{self.path}", (), body)
        assert match is not None
        reported = match.dialect.response_attributes(answer, content_type=dict(headers)["content-type"], status=200)
        self.provider.tokens.append([reported[name] for name in (genai.USAGE_INPUT_TOKENS, genai.USAGE_OUTPUT_TOKENS)])
