"""Cohere chat (v2 and v1) and embed.

Source: https://docs.cohere.com/reference/chat, /chat-v1, /embed, and /docs/streaming
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.wire import prompts
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.dialect import WireDialect, ended_by, never_streamed, never_tells
from freezeframe_schemas.wire.document import (
    JsonObject,
    JsonValue,
    as_integer,
    as_list,
    as_object,
    as_objects,
    as_text,
)
from freezeframe_schemas.wire.frames import Body, Frame
from freezeframe_schemas.wire.messages import (
    Message,
    Part,
    TextPart,
    ToolCallPart,
    ToolCallResponsePart,
    finish_reason_of,
)
from freezeframe_schemas.wire.openai_content import read_message, read_tool

_SAMPLING_FIELDS: Final = frozenset(
    {
        "model",
        "stream",
        "seed",
        "temperature",
        "p",
        "k",
        "max_tokens",
        "stop_sequences",
        "frequency_penalty",
        "presence_penalty",
        "num_generations",
        "tools",
    }
)
_V2_FIELDS: Final = _SAMPLING_FIELDS | {"messages"}
_V1_FIELDS: Final = _SAMPLING_FIELDS | {"message", "chat_history", "preamble", "tool_results", "conversation_id"}
_ROLES: Final = {"chatbot": "assistant"}


def _read_sampling(document: JsonObject, out: AttributeWriter) -> None:
    out.text(genai.REQUEST_MODEL, document.get("model"))
    out.flag(genai.REQUEST_STREAM, document.get("stream"))
    out.integer(genai.REQUEST_SEED, document.get("seed"))
    out.double(genai.REQUEST_TEMPERATURE, document.get("temperature"))
    out.double(genai.REQUEST_TOP_P, document.get("p"))
    out.double(genai.REQUEST_TOP_K, document.get("k"))
    out.integer(genai.REQUEST_MAX_TOKENS, document.get("max_tokens"))
    out.texts(genai.REQUEST_STOP_SEQUENCES, document.get("stop_sequences"))
    out.double(genai.REQUEST_FREQUENCY_PENALTY, document.get("frequency_penalty"))
    out.double(genai.REQUEST_PRESENCE_PENALTY, document.get("presence_penalty"))
    out.integer(genai.REQUEST_CHOICE_COUNT, document.get("num_generations"))
    form = as_text(as_object(document.get("response_format")).get("type"))
    if form is not None:
        out.text(genai.OUTPUT_TYPE, {"json_object": "json"}.get(form, form))


def read_usage(usage: JsonObject, out: AttributeWriter) -> None:
    """Write token counts: what the model saw (``tokens``), where given, else what was billed."""
    if not usage:
        return
    counts = as_object(usage.get("tokens")) or as_object(usage.get("billed_units"))
    out.integer(genai.USAGE_INPUT_TOKENS, counts.get("input_tokens"))
    out.integer(genai.USAGE_OUTPUT_TOKENS, counts.get("output_tokens"))
    out.integer(genai.USAGE_CACHE_READ_TOKENS, usage.get("cached_tokens"))
    out.json(genai.USAGE_DETAILS, usage)


# -- chat v2 ------------------------------------------------------------------------------------------------------------
def read_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a v2 chat request; its messages are OpenAI's."""
    _read_sampling(document, out)
    out.messages(genai.INPUT_MESSAGES, [read_message(m) for m in as_objects(document.get("messages"))])
    out.tools(document.get("tools"), [read_tool(tool) for tool in as_objects(document.get("tools"))])
    out.rest(document, _V2_FIELDS)


def read_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a v2 chat answer."""
    out.text(genai.RESPONSE_ID, document.get("id"))
    reason = as_text(document.get("finish_reason"))
    out.texts(genai.RESPONSE_FINISH_REASONS, reason)
    read_usage(as_object(document.get("usage")), out)
    message = document.get("message")
    if isinstance(message, dict):
        out.messages(genai.OUTPUT_MESSAGES, [read_message(message, reason)])


def assemble(frames: Sequence[Frame]) -> JsonObject:
    """Return the v2 answer that the events amount to."""
    document: JsonObject = {}
    message: JsonObject = {}
    blocks: dict[int, JsonObject] = {}
    calls: dict[int, JsonObject] = {}
    citations: list[JsonValue] = []
    for frame in frames:
        event = as_object(frame.value)
        delta = as_object(event.get("delta"))
        piece = as_object(delta.get("message"))
        index = as_integer(event.get("index")) or 0
        match event.get("type"):
            case "message-start":
                document["id"] = event.get("id")
                message["role"] = piece.get("role")
            case "content-start":
                blocks[index] = dict(as_object(piece.get("content")))
            case "content-delta":
                _extend(blocks.setdefault(index, {"type": "text"}), as_object(piece.get("content")))
            case "tool-plan-delta":
                _extend(message, piece)
            case "tool-call-start":
                calls[index] = dict(as_object(piece.get("tool_calls")))
            case "tool-call-delta":
                call = calls.setdefault(index, {"type": "function"})
                function = dict(as_object(call.get("function")))
                _extend(function, as_object(as_object(piece.get("tool_calls")).get("function")))
                call["function"] = function
            case "citation-start":
                citations.append(piece.get("citations"))
            case "message-end":
                document.update(delta)
            case _:
                pass
    if blocks:
        message["content"] = [blocks[index] for index in sorted(blocks)]
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    if citations:
        message["citations"] = citations
    if message:
        document["message"] = message
    return document


def _extend(target: JsonObject, delta: JsonObject) -> None:
    for key, value in delta.items():
        before = target.get(key)
        target[key] = before + value if isinstance(before, str) and isinstance(value, str) else value


# -- chat v1, and command-r behind Bedrock ------------------------------------------------------------------------------
def read_v1_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a v1 chat request: the history, then the message, then tool results."""
    _read_sampling(document, out)
    out.text(genai.CONVERSATION_ID, document.get("conversation_id"))
    preamble = as_text(document.get("preamble"))
    out.parts(genai.SYSTEM_INSTRUCTIONS, [TextPart(content=preamble)] if preamble else [])
    messages = [_v1_message(item) for item in as_objects(document.get("chat_history"))]
    if text := as_text(document.get("message")):
        messages.append(Message(role="user", parts=(TextPart(content=text),)))
    if results := as_objects(document.get("tool_results")):
        messages.append(Message(role="tool", parts=tuple(_v1_result(result) for result in results)))
    out.messages(genai.INPUT_MESSAGES, messages)
    out.tools(document.get("tools"), [_v1_tool(tool) for tool in as_objects(document.get("tools"))])
    out.rest(document, _V1_FIELDS)


def _v1_tool(tool: JsonObject) -> JsonValue:
    return {"type": "function", "name": "", **tool}


def _v1_message(item: JsonObject) -> Message:
    role = (as_text(item.get("role")) or "user").lower()
    results = [_v1_result(result) for result in as_objects(item.get("tool_results"))]
    return Message(role=_ROLES.get(role, role), parts=(*_v1_parts(item, "message"), *results))


def _v1_parts(item: JsonObject, key: str) -> list[Part]:
    text = as_text(item.get(key))
    parts: list[Part] = [TextPart(content=text)] if text else []
    parts.extend(
        ToolCallPart(name=as_text(call.get("name")) or "", arguments=call.get("parameters"))
        for call in as_objects(item.get("tool_calls"))
    )
    return parts


def _v1_result(result: JsonObject) -> Part:
    return ToolCallResponsePart(response=result.get("outputs"), extra={"call": result.get("call")})


def read_v1_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a v1 chat answer."""
    out.text(genai.RESPONSE_ID, document.get("response_id") or document.get("generation_id"))
    reason = as_text(document.get("finish_reason"))
    out.texts(genai.RESPONSE_FINISH_REASONS, reason)
    read_usage(as_object(document.get("meta")), out)
    parts = _v1_parts(document, "text")
    if parts or reason:
        message = Message(role="assistant", parts=tuple(parts), finish_reason=finish_reason_of(reason))
        out.messages(genai.OUTPUT_MESSAGES, [message])


def assemble_v1(frames: Sequence[Frame]) -> JsonObject:
    """Return the v1 answer of ``stream-end``, or of a stream that was cut the text so far."""
    document: JsonObject = {}
    texts: list[str] = []
    for frame in frames:
        event = as_object(frame.value)
        match event.get("event_type"):
            case "stream-start":
                document["generation_id"] = event.get("generation_id")
            case "text-generation":
                texts.append(as_text(event.get("text")) or "")
            case "tool-calls-generation":
                document["tool_calls"] = event.get("tool_calls")
            case "stream-end":
                document.update(as_object(event.get("response")))
                document["finish_reason"] = event.get("finish_reason") or document.get("finish_reason")
            case _:
                pass
    if texts and "text" not in document:
        document["text"] = "".join(texts)
    return document


# -- embed --------------------------------------------------------------------------------------------------------------
def read_embed_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of an embed request."""
    out.text(genai.REQUEST_MODEL, document.get("model"))
    out.texts(genai.REQUEST_ENCODING_FORMATS, document.get("embedding_types"))
    out.integer(genai.EMBEDDINGS_DIMENSION_COUNT, document.get("output_dimension"))
    out.rest(document, {"model", "texts", "images", "inputs", "embedding_types", "output_dimension"})


def read_embed_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the length of the first vector of a whole-number or float type, and the tokens billed."""
    out.text(genai.RESPONSE_ID, document.get("id"))
    embeddings = document.get("embeddings")
    by_type = embeddings if isinstance(embeddings, dict) else {"float": embeddings}
    for kind, vectors in by_type.items():
        first = next(iter(as_list(vectors)), None)
        if isinstance(first, list) and kind in ("float", "int8", "uint8"):  # the binary types pack eight to a byte
            out.integer(genai.EMBEDDINGS_DIMENSION_COUNT, len(first))
    read_usage(as_object(document.get("meta")), out)


def has_ended(body: Body) -> bool | None:
    """Tell whether ``message-end`` came."""
    return body.done or ended_by(
        body,
        lambda frame: as_object(frame.value).get("type") == "message-end",
        lambda frame: "type" in as_object(frame.value),
    )


def has_ended_v1(body: Body) -> bool | None:
    """Tell whether ``stream-end`` came."""
    return ended_by(
        body,
        lambda frame: as_object(frame.value).get("event_type") == "stream-end",
        lambda frame: "event_type" in as_object(frame.value),
    )


DIALECT: Final = WireDialect(
    name="cohere.chat",
    operation=genai.OP_CHAT,
    provider="cohere",
    read_request=read_request,
    read_response=read_response,
    assemble=assemble,
    has_ended=has_ended,
    set_system=prompts.message,
)

V1: Final = WireDialect(
    name="cohere.chat_v1",
    operation=genai.OP_CHAT,
    provider="cohere",
    read_request=read_v1_request,
    read_response=read_v1_response,
    assemble=assemble_v1,
    has_ended=has_ended_v1,
    set_system=prompts.field("preamble"),
)

EMBED: Final = WireDialect(
    name="cohere.embed",
    operation=genai.OP_EMBEDDINGS,
    provider="cohere",
    read_request=read_embed_request,
    read_response=read_embed_response,
    assemble=never_streamed,
    has_ended=never_tells,
    set_system=prompts.without,
)
