"""OpenAI's wire, as the local provider speaks it: chat completions (sync and streamed) and embeddings."""

import base64
import hashlib
import json
import math
import re
import struct
import time
from collections.abc import Iterator
from typing import cast

from aiohttp import web
from model import Conversation, Reply, Tool, Turn

from wire import (
    RANDOM,
    JsonObject,
    RequestRefused,
    as_list,
    as_object,
    count_tokens,
    dated_model,
    pieces,
    reply_tokens,
    required_of,
    stream,
    text_of,
    think,
    token,
)

_EMBEDDING_DIMENSIONS = 256


async def chat_completions(request: web.Request) -> web.StreamResponse:
    """Answer `POST /v1/chat/completions`."""
    body = await _body(request)
    conversation = _conversation(body)
    started = time.monotonic()
    reply = await think(request, conversation)
    frame: JsonObject = {
        "id": f"chatcmpl-{token(29)}",
        "created": int(time.time()),
        "model": dated_model(body),
        "service_tier": "default",
        "system_fingerprint": f"fp_{RANDOM.getrandbits(40):010x}",
    }
    calls: list[JsonObject] = [
        {
            "id": f"call_{token(24)}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for call in reply.calls
    ]
    finish_reason = "tool_calls" if calls else "stop"
    usage = _usage(body, reply)
    headers = _headers(started)
    if body.get("stream"):
        wants_usage = as_object(body.get("stream_options")).get("include_usage") is True
        events = _chat_events(frame, reply.text, calls, finish_reason, usage if wants_usage else None)
        return await stream(request, events, headers)
    message: JsonObject = {"role": "assistant", "content": reply.text or None, "refusal": None, "annotations": []}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
    return web.json_response(
        {"object": "chat.completion", **frame, "choices": [choice], "usage": usage},
        headers=headers,
    )


def _chat_events(
    frame: JsonObject, text: str, calls: list[JsonObject], finish_reason: str, usage: JsonObject | None
) -> Iterator[bytes]:
    def event(delta: JsonObject | None, finish: str | None = None, usage: JsonObject | None = None) -> bytes:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
        chunk = {"object": "chat.completion.chunk", **frame, "choices": choices, "usage": usage}
        return b"data: " + json.dumps(chunk, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"

    yield event({"role": "assistant", "content": None if calls else "", "refusal": None})
    for piece in pieces(text):
        yield event({"content": piece})
    for index, call in enumerate(calls):
        function = cast("dict[str, str]", call["function"])
        opening = {**call, "function": {**function, "arguments": ""}}
        yield event({"tool_calls": [{"index": index, **opening}]})
        for piece in pieces(function["arguments"]):
            yield event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield event({}, finish_reason)
    if usage is not None:
        yield event(None, usage=usage)
    yield b"data: [DONE]\n\n"


async def embeddings(request: web.Request) -> web.StreamResponse:
    """Answer `POST /v1/embeddings` with hashed bags of words, a little noisy like hosted ones."""
    body = await _body(request)
    started = time.monotonic()
    given = body.get("input")
    texts = [given] if isinstance(given, str) else [t for t in as_list(given) if isinstance(t, str)]
    if not texts:
        raise RequestRefused(400, "invalid_request_error", "'$.input' is invalid.", param="input")
    as_base64 = body.get("encoding_format") == "base64"
    data: list[JsonObject] = []
    for index, text in enumerate(texts):
        vector = _embedding(text)
        packed = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        data.append({"object": "embedding", "index": index, "embedding": packed if as_base64 else vector})
    tokens = sum(count_tokens(text) for text in texts)
    return web.json_response(
        {
            "object": "list",
            "data": data,
            "model": dated_model(body),
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        },
        headers=_headers(started),
    )


def _embedding(text: str) -> list[float]:
    vector = [RANDOM.gauss(0, 1e-6) for _ in range(_EMBEDDING_DIMENSIONS)]
    for word in re.findall(r"[^\W\d_]{3,}", text.casefold()):
        # Five letters replace stemming: "return" matches "returns", "refund" matches "refunded".
        digest = hashlib.blake2b(word[:5].encode(), digest_size=4).digest()
        vector[int.from_bytes(digest, "big") % _EMBEDDING_DIMENSIONS] += 1.0
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]


async def _body(request: web.Request) -> JsonObject:
    if not request.headers.get("authorization", "").startswith("Bearer "):
        raise RequestRefused(
            401,
            "invalid_request_error",
            "You didn't provide an API key. You need to provide your API key in an Authorization header"
            " using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        )
    try:
        body = as_object(json.loads(await request.read()))
    except ValueError as error:
        raise RequestRefused(
            400,
            "invalid_request_error",
            "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP"
            f" library correctly. The OpenAI API expects a JSON payload, but what was sent was not: {error})",
        ) from None
    if not body.get("model"):
        raise RequestRefused(400, "invalid_request_error", "you must provide a model parameter")
    return body


def _conversation(body: JsonObject) -> Conversation:
    """Read the conversation out of a chat-completions request."""
    messages = [as_object(message) for message in as_list(body.get("messages"))]
    if not messages:
        raise RequestRefused(
            400,
            "invalid_request_error",
            "Missing required parameter: 'messages'.",
            param="messages",
            code="missing_required_parameter",
        )
    names: dict[object, str] = {}
    turns: list[Turn] = []
    for position, message in enumerate(messages):
        for call in map(as_object, as_list(message.get("tool_calls"))):
            names[call.get("id")] = str(as_object(call.get("function")).get("name"))
        text = text_of(message.get("content"))
        match message.get("role"):
            case "system" | "developer":
                turns.append(Turn(role="system", text=text))
            case "user":
                turns.append(Turn(role="user", text=text))
            case "assistant":
                turns.append(Turn(role="assistant", text=text))
            case "tool" if message.get("tool_call_id") in names:
                turns.append(Turn(role="tool", text=text, tool_name=names[message.get("tool_call_id")]))
            case role:
                raise RequestRefused(
                    400,
                    "invalid_request_error",
                    f"Invalid parameter: messages with role '{role}' must be a response to a preceding message"
                    " with 'tool_calls', or have a known role.",
                    param=f"messages.[{position}].role",
                )
    functions = [as_object(as_object(tool).get("function")) for tool in as_list(body.get("tools"))]
    return Conversation(
        turns=tuple(turns),
        tools=tuple(
            Tool(name=str(f.get("name")), required=required_of(f.get("parameters"))) for f in functions if f.get("name")
        ),
    )


def _usage(body: JsonObject, reply: Reply) -> JsonObject:
    prompt, completion = count_tokens(json.dumps(body)), reply_tokens(reply)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _headers(started: float) -> dict[str, str]:
    return {
        "x-request-id": f"req_{RANDOM.getrandbits(128):032x}",
        "openai-version": "2020-10-01",
        "openai-processing-ms": str(round((time.monotonic() - started) * 1000)),
        "x-ratelimit-limit-requests": "10000",
        "x-ratelimit-remaining-requests": str(RANDOM.randint(9000, 9999)),
    }
