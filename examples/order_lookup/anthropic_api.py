"""Anthropic's wire, as the local provider speaks it: messages, sync and streamed."""

import json
from collections.abc import Iterator

from aiohttp import web
from model import Conversation, Tool, Turn

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


async def messages(request: web.Request) -> web.StreamResponse:
    """Answer `POST /v1/messages`."""
    body = await _body(request)
    reply = await think(request, _conversation(body))
    content: list[JsonObject] = [{"type": "text", "text": reply.text}] if reply.text else []
    content.extend(
        {"type": "tool_use", "id": f"toolu_01{token(22)}", "name": call.name, "input": call.arguments} for call in reply.calls
    )
    usage: JsonObject = {
        "input_tokens": count_tokens(json.dumps(body)),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": reply_tokens(reply),
        "service_tier": "standard",
    }
    message: JsonObject = {
        "id": f"msg_01{token(22)}",
        "type": "message",
        "role": "assistant",
        "model": dated_model(body),
        "content": content,
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }
    headers = {
        "request-id": f"req_01{token(22)}",
        "anthropic-organization-id": "5f0e7a52-7c3d-4a0c-9c7e-2f7a1c1d9b10",
        "anthropic-ratelimit-requests-remaining": str(RANDOM.randint(900, 999)),
    }
    if body.get("stream"):
        return await stream(request, _message_events(message), headers)
    return web.json_response(message, headers=headers)


def _message_events(message: JsonObject) -> Iterator[bytes]:
    def event(kind: str, **fields: object) -> bytes:
        data = json.dumps({"type": kind, **fields}, ensure_ascii=False, separators=(",", ":"))
        return f"event: {kind}\ndata: {data}\n\n".encode()

    usage = as_object(message["usage"])
    opening = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield event("message_start", message=opening)
    for index, block in enumerate(map(as_object, as_list(message["content"]))):
        if block["type"] == "text":
            empty, whole, delta, key = {**block, "text": ""}, str(block["text"]), "text_delta", "text"
        else:
            empty, whole = {**block, "input": {}}, json.dumps(block["input"])
            delta, key = "input_json_delta", "partial_json"
        yield event("content_block_start", index=index, content_block=empty)
        if index == 0:
            yield event("ping")
        for piece in pieces(whole):
            yield event("content_block_delta", index=index, delta={"type": delta, key: piece})
        yield event("content_block_stop", index=index)
    yield event(
        "message_delta",
        delta={"stop_reason": message["stop_reason"], "stop_sequence": None},
        usage={"output_tokens": usage["output_tokens"]},
    )
    yield event("message_stop")


async def _body(request: web.Request) -> JsonObject:
    # SDKs up to 1.x send the key as x-api-key, since 2.0 as a bearer token.
    bearer = request.headers.get("authorization", "").startswith("Bearer ")
    if not (bearer or request.headers.get("x-api-key")):
        raise RequestRefused(401, "authentication_error", "x-api-key header is required")
    if not request.headers.get("anthropic-version"):
        raise RequestRefused(400, "invalid_request_error", "anthropic-version: header is required")
    try:
        body = as_object(json.loads(await request.read()))
    except ValueError as error:
        raise RequestRefused(400, "invalid_request_error", f"The request body is not valid JSON: {error}") from None
    for field in ("model", "messages", "max_tokens"):
        if not body.get(field):
            raise RequestRefused(400, "invalid_request_error", f"{field}: Field required")
    return body


def _conversation(body: JsonObject) -> Conversation:
    """Read the conversation out of a messages request."""
    names: dict[object, str] = {}
    turns = [Turn(role="system", text=text_of(body.get("system")))]
    for message in map(as_object, as_list(body.get("messages"))):
        content = message.get("content")
        blocks = [as_object(block) for block in as_list(content)]
        names |= {block.get("id"): str(block.get("name")) for block in blocks if block.get("type") == "tool_use"}
        turns += [
            Turn(role="tool", text=text_of(block.get("content")), tool_name=names.get(block.get("tool_use_id")))
            for block in blocks
            if block.get("type") == "tool_result"
        ]
        role = "user" if message.get("role") == "user" else "assistant"
        turns.append(Turn(role=role, text=text_of(content)))
    tools = [as_object(tool) for tool in as_list(body.get("tools"))]
    return Conversation(
        turns=tuple(turns),
        tools=tuple(Tool(name=str(t.get("name")), required=required_of(t.get("input_schema"))) for t in tools),
    )
