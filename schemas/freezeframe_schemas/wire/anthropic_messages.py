"""Anthropic messages, also through Vertex (``rawPredict``) and Bedrock (``invoke``).

Source: https://docs.anthropic.com/en/api/messages and /messages-streaming
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.wire import messages as msg
from freezeframe_schemas.wire import prompts
from freezeframe_schemas.wire.answer import Answer, Split, error_object, pieces_of, without_keys
from freezeframe_schemas.wire.attributes import SAMPLING, AttributeWriter, Fields, UsageCounts
from freezeframe_schemas.wire.dialect import Documents, Streams, WireDialect, ended_by_event
from freezeframe_schemas.wire.document import (
    JsonObject,
    JsonValue,
    as_integer,
    as_list,
    as_object,
    as_objects,
    as_text,
    make_object,
    parse,
)
from freezeframe_schemas.wire.frames import METRICS, Frame

_SAMPLED: Final[Fields] = {
    **SAMPLING,
    "top_k": (AttributeWriter.double, genai.REQUEST_TOP_K),
    "max_tokens": (AttributeWriter.integer, genai.REQUEST_MAX_TOKENS),
    "stop_sequences": (AttributeWriter.texts, genai.REQUEST_STOP_SEQUENCES),
}
_REQUEST_FIELDS: Final = frozenset({*_SAMPLED, "messages", "system", "service_tier", "tools"})
_ANSWER_FIELDS: Final = frozenset({"id", "type", "role", "model", "content", "stop_reason", "usage", "error", METRICS})
_TEXT_FIELDS: Final = frozenset({"type", "text"})
_THINKING_FIELDS: Final = frozenset({"type", "thinking"})
_USE_FIELDS: Final = frozenset({"type", "id", "name", "input"})
_RESULT_FIELDS: Final = frozenset({"type", "tool_use_id", "content"})
_SOURCE_FIELDS: Final = frozenset({"type", "source"})


# -- request ------------------------------------------------------------------------------------------------------------
def read_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a messages request."""
    out.fields(document, _SAMPLED)
    configuration = as_object(document.get("output_config"))
    out.text(genai.REQUEST_REASONING_LEVEL, configuration.get("effort"))
    form = as_object(configuration.get("format")) or as_object(document.get("output_format"))
    if form.get("type") == "json_schema":
        out.text(genai.OUTPUT_TYPE, "json")
    out.parts(genai.SYSTEM_INSTRUCTIONS, read_content(document.get("system")))
    out.messages(genai.INPUT_MESSAGES, [read_message(m) for m in as_objects(document.get("messages"))])
    out.tools(document.get("tools"), [_tool(tool) for tool in as_objects(document.get("tools"))])
    out.rest(document, _REQUEST_FIELDS)


def _tool(tool: JsonObject) -> JsonValue:
    """Name the schema as the conventions do; a server tool (``"type": "web_search_..."``) stays unchanged."""
    flat: JsonObject = {("parameters" if key == "input_schema" else key): value for key, value in tool.items()}
    kind = as_text(tool.get("type"))
    flat["type"] = "function" if kind in (None, "custom") else kind
    flat.setdefault("name", kind or "function")
    return flat


# -- messages -----------------------------------------------------------------------------------------------------------
def read_message(message: JsonObject) -> msg.Message:
    return msg.Message(
        role=as_text(message.get("role")) or "user",
        parts=tuple(read_content(message.get("content"))),
        extra={key: value for key, value in message.items() if key not in ("role", "content")} if len(message) > 2 else {},
    )


def read_content(content: JsonValue) -> list[msg.Part]:
    """Return the parts of a content: text, or an array of blocks."""
    if not isinstance(content, list):
        return msg.texts(content)
    return [
        read_block(block) if isinstance(block, dict) else msg.TextPart(content=block)
        for block in content
        if isinstance(block, dict | str)
    ]


def read_block(block: JsonObject) -> msg.Part:
    kind = as_text(block.get("type")) or "content"
    # Requests carry hundreds of blocks, nearly all of the first three kinds.
    match kind:
        case "text" if isinstance(text := block.get("text"), str):
            return msg.TextPart(content=text, extra=_rest(block, _TEXT_FIELDS))
        case "tool_use" if isinstance(name := block.get("name"), str):
            return msg.ToolCallPart(
                id=as_text(block.get("id")),
                name=name,
                arguments=block.get("input"),
                extra=_rest(block, _USE_FIELDS),
            )
        case "tool_result":
            return msg.ToolCallResponsePart(
                id=as_text(block.get("tool_use_id")),
                response=block.get("content"),
                extra=_rest(block, _RESULT_FIELDS),
            )
        case "thinking" if isinstance(text := block.get("thinking"), str):
            return msg.ReasoningPart(content=text, extra=_rest(block, _THINKING_FIELDS))
        case "server_tool_use" | "mcp_tool_use" if isinstance(name := block.get("name"), str):
            return msg.ServerToolCallPart(
                id=as_text(block.get("id")),
                name=name,
                server_tool_call={"type": kind, "input": block.get("input")},
                extra=_rest(block, _USE_FIELDS),
            )
        case "image" | "document" if isinstance(source := block.get("source"), dict):
            return _source(kind, source, _rest(block, _SOURCE_FIELDS))
        case _ if kind.endswith("_tool_result") and "tool_use_id" in block:
            return msg.ServerToolCallResponsePart(
                id=as_text(block["tool_use_id"]),
                server_tool_call_response={"type": kind, "content": block.get("content")},
                extra=_rest(block, _RESULT_FIELDS),
            )
        case _:
            return msg.GenericPart(type=kind, extra={key: value for key, value in block.items() if key != "type"})


def _rest(block: JsonObject, taken: frozenset[str]) -> JsonObject:
    if block.keys() <= taken:
        return {}
    return {key: value for key, value in block.items() if key not in taken and value is not None}


def _source(kind: str, source: JsonObject, extra: JsonObject) -> msg.Part:
    mime = as_text(source.get("media_type"))
    modality = kind if mime is None else msg.modality_of(mime)
    match source:
        case {"type": "base64", "data": str(data)}:
            return msg.BlobPart(modality=modality, mime_type=mime, content=data, extra=extra)
        case {"type": "url", "url": str(url)}:
            return msg.UriPart(modality=modality, mime_type=mime, uri=url, extra=extra)
        case {"type": "file", "file_id": str(file_id)}:
            return msg.FilePart(modality=modality, mime_type=mime, file_id=file_id, extra=extra)
        case _:
            return msg.GenericPart(type=kind, extra={"source": source, **extra})


# -- response -----------------------------------------------------------------------------------------------------------
def read_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a message."""
    out.text(genai.RESPONSE_ID, document.get("id"))
    out.text(genai.RESPONSE_MODEL, document.get("model"))
    reason = as_text(document.get("stop_reason"))
    out.texts(genai.RESPONSE_FINISH_REASONS, reason)
    out.usage(as_object(document.get("usage")), _COUNTS)
    if "content" in document:
        message = msg.Message(
            role=as_text(document.get("role")) or "assistant",
            parts=tuple(read_content(document["content"])),
            finish_reason=msg.finish_reason_of(reason),
        )
        out.messages(genai.OUTPUT_MESSAGES, [message])
    out.rest(document, _ANSWER_FIELDS, genai.RESPONSE_DETAILS)


_COUNTS: Final = UsageCounts(
    input=("input_tokens",),
    output=("output_tokens",),
    cache_read=("cache_read_input_tokens",),
    cache_write=("cache_creation_input_tokens",),
    reasoning=("output_tokens_details.thinking_tokens",),
    input_adds=("cache_read", "cache_write"),
)


# -- stream -------------------------------------------------------------------------------------------------------------
def assemble(frames: Sequence[Frame]) -> JsonObject:
    """Return the message that the events add up to; without ``message_delta`` it has no stop reason."""
    document: JsonObject = {}
    blocks: dict[int, JsonObject] = {}
    written: dict[int, list[str]] = {}
    for frame in frames:
        event = as_object(frame.value)
        index = as_integer(event.get("index")) or 0
        match event.get("type"):
            case "message_start":
                document = dict(as_object(event.get("message")))
            case "content_block_start":
                blocks[index] = dict(as_object(event.get("content_block")))
            case "content_block_delta":
                _extend_block(blocks.setdefault(index, {}), as_object(event.get("delta")), written, index)
            case "message_delta":
                document.update(as_object(event.get("delta")))
                _merge_present(document, "usage", as_object(event.get("usage")))
                rest = {key: v for key, v in event.items() if key not in ("type", "delta", "usage")}
                document.update(rest)
            case _:
                pass
    for index, pieces in written.items():
        text = "".join(pieces)
        arguments = parse(text)
        # Truncated or broken arguments stay as the text that the model wrote so far.
        blocks[index]["input"] = arguments if arguments is not None else text
    if document or blocks:
        started = document.get("content")
        document["content"] = [blocks[index] for index in sorted(blocks)] or started or []
    return document


def _extend_block(block: JsonObject, delta: JsonObject, written: dict[int, list[str]], index: int) -> None:
    match delta:
        case {"type": "text_delta", "text": str(text)}:
            block.setdefault("type", "text")
            block["text"] = (as_text(block.get("text")) or "") + text
        case {"type": "thinking_delta", "thinking": str(text)}:
            block.setdefault("type", "thinking")
            block["thinking"] = (as_text(block.get("thinking")) or "") + text
        case {"type": "signature_delta", "signature": str(text)}:
            block["signature"] = (as_text(block.get("signature")) or "") + text
        case {"type": "input_json_delta", "partial_json": str(text)}:
            if text:
                written.setdefault(index, []).append(text)
        case {"type": "citations_delta", "citation": citation}:
            before = block.get("citations")
            block["citations"] = [*(before if isinstance(before, list) else []), citation]
        case _:
            block.update({key: value for key, value in delta.items() if key != "type"})


def _merge_present(document: JsonObject, key: str, changes: JsonObject) -> None:
    """Update the object under `key` with the fields that are not null."""
    present = {name: value for name, value in changes.items() if value is not None}
    if present:
        document[key] = {**as_object(document.get(key)), **present}


_STOP_REASONS: Final = {"stop": "end_turn", "tool_call": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


# -- writing ------------------------------------------------------------------------------------------------------------
def compose(answer: Answer, request: JsonObject) -> JsonObject:
    del request
    content: list[JsonValue] = [
        {"type": "thinking", "thinking": thought.text, **thought.only("signature")} for thought in answer.thoughts
    ]
    content.extend([make_object(type="text", text=answer.text)] if answer.pieces else [])
    content.extend(
        make_object(type="tool_use", id=call.id, name=call.name, input=dict(call.arguments)) for call in answer.tool_calls
    )
    reason = answer.finish(_STOP_REASONS)
    usage: JsonObject = {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
    document: JsonObject = {"id": answer.id, "type": "message", "role": "assistant", "model": answer.model, "content": content}
    return {**document, "stop_reason": reason, "stop_sequence": None, "usage": usage}


def disassemble(document: JsonObject, split: Split) -> Iterator[Frame]:
    """Yield the events of a message."""
    if "content" not in document:
        return
    start = {**without_keys(document, "error"), "content": [], "stop_reason": None, "stop_sequence": None}
    yield _event("message_start", message=start)
    for index, block in enumerate(as_objects(document["content"])):
        begun, deltas = _split_block(block, split)
        yield _event("content_block_start", index=index, content_block=begun)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    if document.get("stop_reason") is None and "usage" not in document:
        return
    end: JsonObject = {key: document.get(key) for key in ("stop_reason", "stop_sequence")}
    count = as_object(document.get("usage")).get("output_tokens")
    yield _event("message_delta", delta=end, usage={} if count is None else {"output_tokens": count})
    if end["stop_reason"] is not None:
        yield _event("message_stop")


def _split_block(block: JsonObject, split: Split) -> tuple[JsonObject, list[JsonObject]]:
    """Return the block in its announced form, and the deltas that fill it."""
    match block:
        case {"type": "text", "text": str(text)}:
            deltas: list[JsonObject] = [{"type": "text_delta", "text": piece} for piece in pieces_of(text, split)]
            citations = as_list(block.get("citations"))
            deltas += [{"type": "citations_delta", "citation": citation} for citation in citations]
            return {**(without_keys(block, "citations") if citations else block), "text": ""}, deltas
        case {"type": "thinking", "thinking": str(text)}:
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces_of(text, split)]
            if isinstance(signature := block.get("signature"), str):
                deltas.append({"type": "signature_delta", "signature": signature})
            return {**block, "thinking": "", **({"signature": ""} if signature is not None else {})}, deltas
        case {"input": written} if written != {}:
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces_of(written, split)]
            return {**block, "input": {}}, deltas
        case _:
            return block, []


def _event(name: str, **content: JsonValue) -> Frame:
    return Frame(event=name, value={"type": name, **content})


def _error_body(status: int, message: str) -> JsonObject:
    return {"type": "error", **error_object(status, message)}


DIALECT: Final = WireDialect(
    name="anthropic.messages",
    operation=genai.OP_CHAT,
    provider="anthropic",
    documents=Documents(read_request, read_response, compose),
    streams=Streams(
        assemble,
        ended_by_event("type", "message_stop", "error"),
        disassemble,
        error_frame=lambda error: _event("error", error=error),
    ),
    transient_fields=frozenset({"metadata"}),
    error_body=_error_body,
    set_system=prompts.field("system"),
    honours_retry_after=True,
)
