"""The provider's answers: read a request and write the model's answer with freezeframe's dialects of both wires."""

import asyncio
import contextlib
import hashlib
import json
import math
import re
import string
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from random import SystemRandom

from aiohttp import web
from model import Conversation, RuleModel, Tool, Turn

from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Request
from freezeframe_schemas.meaning import messages_of
from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.wire import WireDialect, anthropic_messages, openai_chat, openai_embeddings
from freezeframe_schemas.wire.answer import Answer, ToolCall
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list, as_object, as_objects, as_text, parse
from freezeframe_schemas.wire.frames import Form

MODEL = web.AppKey("model", RuleModel)
RANDOM = SystemRandom()
_EMBEDDING_DIMENSIONS = 256
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Wire:
    """Wire format of one of the two providers."""

    dialect: WireDialect
    answer_id: str
    """Prefix of an answer's id."""
    call_id: str = ""
    needs: tuple[str, ...] = ("model", "messages")


WIRES = {
    "/v1/chat/completions": Wire(dialect=openai_chat.DIALECT, answer_id="chatcmpl-", call_id="call_"),
    "/v1/embeddings": Wire(dialect=openai_embeddings.DIALECT, answer_id="", needs=("model", "input")),
    "/v1/messages": Wire(
        dialect=anthropic_messages.DIALECT,
        answer_id="msg_01",
        call_id="toolu_01",
        needs=("model", "messages", "max_tokens"),
    ),
}
ANTHROPIC = "/v1/messages"


async def answer(request: web.Request) -> web.StreamResponse:
    """Answer a request for a chat completion, a message or embeddings."""
    wire, started, body = WIRES[request.path], time.monotonic(), await request.read()
    request_document = _checked(request, wire, body)
    model = str(request_document["model"])
    made = Answer(id=f"{wire.answer_id}{_token(24)}", model=_DATED.get(model, model))
    if wire.dialect.operation == genai.OP_EMBEDDINGS:
        document = _embedded(made, request_document)
    else:
        document = await _said(request.app[MODEL], wire, made, request_document, body)
    form = wire.dialect.requested_form(Request(method="POST", url=str(request.url), body=body))
    written = b"".join(
        chunk.data for chunk in wire.dialect.write(document, form=form, split=lambda text: tuple(_pieces(text))).chunks
    )
    headers = _headers(request, started)
    if form is Form.DOCUMENT:
        return web.Response(body=written, content_type="application/json", headers=headers)
    return await _streamed(request, written, headers)


async def _said(model: RuleModel, wire: Wire, made: Answer, asked: JsonObject, body: bytes) -> JsonObject:
    """Return the model's reply as the synchronous answer of its wire."""
    conversation = _conversation(wire.dialect.request_attributes(body))
    await asyncio.sleep(RANDOM.uniform(0.005, 0.04))
    reply = await asyncio.to_thread(model.reply, conversation)
    answer = Answer(
        id=made.id,
        model=made.model,
        pieces=(reply.text,) if reply.text else (),
        tool_calls=[
            ToolCall(id=f"{wire.call_id}{_token(22)}", name=call.name, arguments=call.arguments) for call in reply.calls
        ],
        input_tokens=_count_tokens(body.decode()),
        output_tokens=_count_tokens(reply.text + json.dumps([call.arguments for call in reply.calls])),
    )
    document = wire.dialect.documents.compose(answer, asked)
    if wire.dialect is openai_chat.DIALECT:
        fingerprint = f"fp_{RANDOM.getrandbits(40):010x}"
        document |= {"created": int(time.time()), "service_tier": "default", "system_fingerprint": fingerprint}
    return document


def _embedded(made: Answer, asked: JsonObject) -> JsonObject:
    """Return hashed bags of words, a little noisy like hosted ones."""
    inputs = asked["input"]
    texts = [text for text in ([inputs] if isinstance(inputs, str) else as_list(inputs)) if isinstance(text, str)]
    if not texts:
        raise RequestRefused(400, "invalid_request_error", "'$.input' is invalid.", param="input")
    tokens = sum(map(_count_tokens, texts))
    document = openai_embeddings.compose(Answer(model=made.model, vectors=list(map(_embedding, texts))), asked)
    return {**document, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}


def _embedding(text: str) -> list[float]:
    vector = [RANDOM.gauss(0, 1e-6) for _ in range(_EMBEDDING_DIMENSIONS)]
    for word in re.findall(r"[^\W\d_]{3,}", text.casefold()):
        # Five letters replace stemming: "return" matches "returns", "refund" matches "refunded".
        digest = hashlib.blake2b(word[:5].encode(), digest_size=4).digest()
        vector[int.from_bytes(digest, "big") % _EMBEDDING_DIMENSIONS] += 1.0
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]


# -- reading ------------------------------------------------------------------------------------------------------------


def _checked(request: web.Request, wire: Wire, body: bytes) -> JsonObject:
    """Return the request's document."""
    # Anthropic's SDKs up to 1.x send the key as x-api-key, since 2.0 as a bearer token.
    is_anthropic, has_bearer = request.path == ANTHROPIC, request.headers.get("authorization", "").startswith("Bearer ")
    if not has_bearer and not (is_anthropic and request.headers.get("x-api-key")):
        kind = "authentication_error" if is_anthropic else "invalid_request_error"
        raise RequestRefused(401, kind, "x-api-key header is required" if is_anthropic else "You didn't provide an API key.")
    if is_anthropic and not request.headers.get("anthropic-version"):
        raise RequestRefused(400, "invalid_request_error", "anthropic-version: header is required")
    document = as_object(parse(body))
    for name in wire.needs:
        if not document.get(name):
            message = f"{name}: Field required" if is_anthropic else f"Missing required parameter: '{name}'."
            raise RequestRefused(400, "invalid_request_error", message, param=name, code="missing_required_parameter")
    return document


def _conversation(attributes: Mapping[str, AttributeValue]) -> Conversation:
    """Return the conversation that a request's attributes hold."""
    names: dict[str, str] = {}
    turns = [Turn(role="system", text=_text(parse(str(attributes.get(genai.SYSTEM_INSTRUCTIONS, "")))))]
    for message in messages_of(attributes, genai.INPUT_MESSAGES):
        parts = as_objects(message.get("parts"))
        names |= {str(part.get("id")): str(part.get("name")) for part in parts if part.get("type") == "tool_call"}
        for part in parts:
            if part.get("type") == "tool_call_response":
                if (name := names.get(str(part.get("id")))) is None:
                    raise RequestRefused(400, "invalid_request_error", "a tool's result answers no call before it")
                turns.append(Turn(role="tool", text=_text(part.get("response")), tool_name=name))
        if text := _text(message.get("parts")):
            turns.append(Turn(role="assistant" if message.get("role") == "assistant" else "user", text=text))
    tools = as_objects(parse(str(attributes.get(genai.TOOL_DEFINITIONS, ""))))
    return Conversation(turns=tuple(turns), tools=tuple(map(_tool, tools)))


def _tool(definition: JsonObject) -> Tool:
    required = as_list(as_object(definition.get("parameters")).get("required"))
    return Tool(name=str(definition.get("name")), required=tuple(map(str, required)))


def _text(content: JsonValue) -> str:
    """Return a text, or those of a list of parts."""
    if isinstance(content, str):
        return content
    parts = [part for part in as_objects(content) if part.get("type") == "text"]
    return "\n".join(as_text(part.get("content", part.get("text"))) or "" for part in parts)


# -- writing ------------------------------------------------------------------------------------------------------------


def _headers(request: web.Request, started: float) -> dict[str, str]:
    request_id = f"req_{RANDOM.getrandbits(128):032x}"
    if request.path == ANTHROPIC:
        return {"request-id": request_id, "anthropic-ratelimit-requests-remaining": str(RANDOM.randint(900, 999))}
    return {
        "x-request-id": request_id,
        "openai-version": "2020-10-01",
        "openai-processing-ms": str(round((time.monotonic() - started) * 1000)),
        "x-ratelimit-remaining-requests": str(RANDOM.randint(9000, 9999)),
    }


async def _streamed(request: web.Request, body: bytes, headers: dict[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(headers={**headers, "cache-control": "no-cache"})
    response.content_type, response.charset = "text/event-stream", "utf-8"
    await response.prepare(request)
    # OpenAI's SDK hangs up at [DONE], before the last bytes of the body.
    with contextlib.suppress(ConnectionError):
        async for chunk in _cut_anywhere(body):
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


def _pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces of a few characters, as tokens arrive."""
    start = 0
    while start < len(text):
        end = start + RANDOM.randint(1, 12)
        yield text[start:end]
        start = end


def _token(length: int) -> str:
    return "".join(RANDOM.choices(string.ascii_letters + string.digits, k=length))


def _count_tokens(text: str) -> int:
    return max(1, len(text) // 4)
