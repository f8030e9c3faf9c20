"""What both of the provider's wires share: refusing, thinking, streaming, and reading untrusted JSON."""

import asyncio
import contextlib
import json
import string
from collections.abc import AsyncIterator, Iterator
from random import SystemRandom
from typing import cast

from aiohttp import web
from model import Conversation, Reply, RuleModel

JsonObject = dict[str, object]

MODEL = web.AppKey("model", RuleModel)
RANDOM = SystemRandom()
_DATED = {
    "gpt-4o-mini": "gpt-4o-mini-2024-07-18",
    "gpt-4o": "gpt-4o-2024-08-06",
    "claude-haiku-4-5": "claude-haiku-4-5-20251001",
    "claude-3-5-haiku-latest": "claude-3-5-haiku-20241022",
}


class RequestRefused(Exception):
    """The request cannot be answered; carries what both wires need to report it."""

    def __init__(self, status: int, kind: str, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.param, self.code = status, kind, message, param, code


async def think(request: web.Request, conversation: Conversation) -> Reply:
    await asyncio.sleep(RANDOM.uniform(0.005, 0.04))
    return await asyncio.to_thread(request.app[MODEL].reply, conversation)


async def stream(request: web.Request, events: Iterator[bytes], headers: dict[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(headers={**headers, "cache-control": "no-cache"})
    response.content_type = "text/event-stream"
    response.charset = "utf-8"
    await response.prepare(request)
    # OpenAI's SDK hangs up at [DONE], before the last bytes of the body.
    with contextlib.suppress(ConnectionError):
        async for chunk in _cut_anywhere(b"".join(events)):
            await response.write(chunk)
        await response.write_eof()
    return response


async def _cut_anywhere(body: bytes) -> AsyncIterator[bytes]:
    """Yield a body in pieces whose borders fall anywhere, inside events and inside characters."""
    start = 0
    while start < len(body):
        end = start + RANDOM.randint(1, 900)
        yield body[start:end]
        start = end
        await asyncio.sleep(RANDOM.uniform(0.0, 0.004))


def pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces of a few characters, as tokens arrive."""
    start = 0
    while start < len(text):
        end = start + RANDOM.randint(1, 12)
        yield text[start:end]
        start = end


def dated_model(body: JsonObject) -> str:
    name = str(body["model"])
    return _DATED.get(name, name)


def token(length: int) -> str:
    return "".join(RANDOM.choices(string.ascii_letters + string.digits, k=length))


def count_tokens(text: str) -> int:
    return max(1, len(text) // 4)


def reply_tokens(reply: Reply) -> int:
    return count_tokens(reply.text + json.dumps([call.arguments for call in reply.calls]))


def required_of(schema: object) -> tuple[str, ...]:
    return tuple(str(name) for name in as_list(as_object(schema).get("required")))


def text_of(content: object) -> str:
    """Return the text of a message's content, which is a string or a list of typed parts."""
    if isinstance(content, str):
        return content
    parts = [as_object(part) for part in as_list(content)]
    return "\n".join(str(part["text"]) for part in parts if part.get("type") == "text")


def as_object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
