"""Bedrock converse and converse-stream, and Nova's format under ``invoke``, which is the same except for its counts.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html and _ConverseStream
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.wire import messages as msg
from freezeframe_schemas.wire import prompts
from freezeframe_schemas.wire.answer import Answer, Split, pieces_of, without_keys
from freezeframe_schemas.wire.attributes import AttributeWriter, UsageCounts
from freezeframe_schemas.wire.dialect import Documents, Streams, WireDialect
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
from freezeframe_schemas.wire.frames import METRICS, DecodedBody, Form, Frame

_REQUEST_FIELDS: Final = frozenset({"modelId", "messages", "system", "inferenceConfig", "schemaVersion"})
SETTINGS: Final = frozenset({"maxTokens", "temperature", "topP", "topK", "stopSequences"})
_ANSWER_FIELDS: Final = frozenset({"output", "stopReason", "usage", "metrics", "error", METRICS})
_MEDIA: Final = frozenset({"image", "video", "audio", "document"})


# -- request ------------------------------------------------------------------------------------------------------------
def read_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a converse request; the model is in the URL."""
    inference = as_object(document.get("inferenceConfig"))
    out.double(genai.REQUEST_TEMPERATURE, inference.get("temperature"))
    out.double(genai.REQUEST_TOP_P, inference.get("topP"))
    top_k = as_object(document.get("additionalModelRequestFields")).get("top_k")
    out.double(genai.REQUEST_TOP_K, inference.get("topK", top_k))
    most = inference.get("maxTokens")
    out.integer(genai.REQUEST_MAX_TOKENS, most if most is not None else inference.get("max_new_tokens"))
    out.texts(genai.REQUEST_STOP_SEQUENCES, inference.get("stopSequences"))
    text_format = as_object(as_object(document.get("outputConfig")).get("textFormat"))
    if text_format.get("type") == "json_schema":
        out.text(genai.OUTPUT_TYPE, "json")
    out.parts(genai.SYSTEM_INSTRUCTIONS, [read_block(block) for block in as_objects(document.get("system"))])
    out.messages(genai.INPUT_MESSAGES, [read_message(m) for m in as_objects(document.get("messages"))])
    tools = as_object(document.get("toolConfig")).get("tools")
    out.tools(tools, [_tool(tool) for tool in as_objects(tools)])
    out.rest(document, _REQUEST_FIELDS)


def _tool(tool: JsonObject) -> JsonValue:
    specification = tool.get("toolSpec")
    if not isinstance(specification, dict):  # {"cachePoint": {...}}, {"systemTool": {...}}
        kind = next(iter(tool), "tool")
        return {"type": kind, "name": as_text(as_object(tool.get(kind)).get("name")) or kind, **tool}
    flat: JsonObject = {key: value for key, value in specification.items() if key != "inputSchema"}
    schema = as_object(specification.get("inputSchema"))
    return {"type": "function", "name": "", **flat, "parameters": schema.get("json", specification.get("inputSchema"))}


# -- messages -----------------------------------------------------------------------------------------------------------
def read_message(message: JsonObject, finish_reason: str | None = None) -> msg.Message:
    """Return one message of a request, or the one of an answer."""
    return msg.Message(
        role=as_text(message.get("role")) or "assistant",
        parts=tuple(read_block(block) for block in as_objects(message.get("content"))),
        finish_reason=msg.finish_reason_of(finish_reason),
    )


def read_block(block: JsonObject) -> msg.Part:
    """Return one content block: an object whose only key is its type."""
    match block:
        case {"text": str(text)}:
            return msg.TextPart(content=text)
        case {"toolUse": {"name": str(name)} as use}:
            return msg.ToolCallPart(
                id=as_text(use.get("toolUseId")),
                name=name,
                arguments=use.get("input"),
                extra=_rest(use, "toolUseId", "name", "input"),
            )
        case {"toolResult": dict(result)}:
            return msg.ToolCallResponsePart(
                id=as_text(result.get("toolUseId")),
                response=result.get("content"),
                extra=_rest(result, "toolUseId", "content"),
            )
        case {"reasoningContent": {"reasoningText": {"text": str(text)} as thinking}}:
            return msg.ReasoningPart(content=text, extra=_rest(thinking, "text"))
        case _:
            kind = next(iter(block), "content")
            media = block.get(kind)
            if kind in _MEDIA and isinstance(media, dict):
                return _media(kind, media)
            return msg.GenericPart(type=kind, extra={"content": media})


def _media(kind: str, media: JsonObject) -> msg.Part:
    form = as_text(media.get("format"))
    mime = f"{'application' if kind == 'document' else kind}/{form}" if form else None
    extra = _rest(media, "format", "source")
    match media.get("source"):
        case {"bytes": str(data)}:
            return msg.BlobPart(modality=kind, mime_type=mime, content=data, extra=extra)
        case {"s3Location": {"uri": str(uri)}}:
            return msg.UriPart(modality=kind, mime_type=mime, uri=uri, extra=extra)
        case _:
            return msg.GenericPart(type=kind, extra={"content": media})


def _rest(value: JsonObject, *taken: str) -> JsonObject:
    return {key: item for key, item in value.items() if key not in taken and key != "type"}


# -- response -----------------------------------------------------------------------------------------------------------
def read_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a converse answer."""
    reason = as_text(document.get("stopReason"))
    out.texts(genai.RESPONSE_FINISH_REASONS, reason)
    out.usage(as_object(document.get("usage")), COUNTS)
    message = as_object(document.get("output")).get("message")
    if isinstance(message, dict):
        out.messages(genai.OUTPUT_MESSAGES, [read_message(message, reason)])
    out.rest(document, _ANSWER_FIELDS, genai.RESPONSE_DETAILS)


COUNTS: Final = UsageCounts(
    input=("inputTokens", "inputTokenCount"),
    output=("outputTokens", "outputTokenCount"),
    cache_read=("cacheReadInputTokens", "cacheReadInputTokenCount"),
    cache_write=("cacheWriteInputTokens", "cacheWriteInputTokenCount"),
    input_adds=("cache_read", "cache_write"),
)
_HEADER: Final = "x-amzn-bedrock-"


def read_headers(headers: Mapping[str, str], out: AttributeWriter) -> None:
    """Write what AWS says only in headers (lower-case names): the kind of error, and invoke's token counts."""
    if kind := headers.get("x-amzn-errortype"):  # "ThrottlingException:http://internal.amazon.com/..."
        out.text(genai.ERROR_TYPE, kind.partition(":")[0])
    if genai.USAGE_OUTPUT_TOKENS in out.attributes:
        return
    usage: JsonObject = {
        name: int(count)
        for name, header in {
            "inputTokenCount": "input-token-count",
            "outputTokenCount": "output-token-count",
            "cacheReadInputTokenCount": "cache-read-input-token-count",
            "cacheWriteInputTokenCount": "cache-write-input-token-count",
        }.items()
        if (count := headers.get(_HEADER + header, "")).isdecimal() and count.isascii() and len(count) < 19
    }
    out.usage(usage, COUNTS)


# -- stream -------------------------------------------------------------------------------------------------------------
def assemble(frames: Sequence[Frame]) -> JsonObject:
    """Return the converse answer that the events add up to; without ``messageStop`` it has no stop reason."""
    document: JsonObject = {}
    message: JsonObject = {}
    blocks: dict[int, JsonObject] = {}
    for frame in frames:
        kind, event = _named(frame)
        index = as_integer(event.get("contentBlockIndex")) or 0
        match kind:
            case "messageStart":
                message["role"] = event.get("role")
            case "contentBlockStart":
                for key, value in as_object(event.get("start")).items():
                    blocks[index] = {key: value}
            case "contentBlockDelta":
                _extend_block(blocks.setdefault(index, {}), as_object(event.get("delta")))
            case "messageStop":
                document.update({key: value for key, value in event.items() if key != "p"})
            case "metadata":
                document.update({key: value for key, value in event.items() if key != "p"})
            case _ if kind.endswith("Exception"):
                document["error"] = {"type": kind, **event}
            case _:
                pass
    if message or blocks:
        message["content"] = [_finished(blocks[index]) for index in sorted(blocks)]
        document["output"] = {"message": message}
    return document


def _named(frame: Frame) -> tuple[str, JsonObject]:
    """Return the event's name and body: the name is in the frame's header, or (Nova) ``{"messageStart": {...}}``."""
    value = as_object(frame.value)
    if frame.event not in (None, "chunk"):
        return frame.event or "", value
    for key, inner in value.items():
        if isinstance(inner, dict) and not key.startswith("amazon-bedrock-"):
            return key, inner
    return "", {}


def _extend_block(block: JsonObject, delta: JsonObject) -> None:
    match delta:
        case {"text": str(text)}:
            block["text"] = (as_text(block.get("text")) or "") + text
        case {"toolUse": {"input": str(text)}}:
            use = as_object(block.get("toolUse"))
            block["toolUse"] = {**use, "input": (as_text(use.get("input")) or "") + text}
        case {"reasoningContent": dict(piece)}:
            _extend_reasoning(block, piece)
        case {"citation": citation}:
            block["citations"] = [*as_list(block.get("citations")), citation]
        case _:
            block.update(delta)


def _extend_reasoning(block: JsonObject, piece: JsonObject) -> None:
    content = as_object(block.get("reasoningContent"))
    if "redactedContent" in piece:
        block["reasoningContent"] = {**content, **piece}
        return
    thinking = as_object(content.get("reasoningText"))
    for key, value in piece.items():
        if isinstance(value, str):
            thinking = {**thinking, key: (as_text(thinking.get(key)) or "") + value}
    block["reasoningContent"] = {"reasoningText": thinking}


def _finished(block: JsonObject) -> JsonObject:
    """Return the block with tool input as JSON if it came whole, else as the text so far."""
    use = block.get("toolUse")
    if not isinstance(use, dict):
        return block
    text = use.get("input")
    if text is None or text == "":
        return {"toolUse": {**use, "input": {}}}
    arguments = parse(text) if isinstance(text, str) else text
    return {"toolUse": {**use, "input": arguments if arguments is not None else text}}


_STOP_REASONS: Final = {
    "stop": "end_turn",
    "tool_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "content_filtered",
}


# -- writing ------------------------------------------------------------------------------------------------------------
def compose(answer: Answer, request: JsonObject) -> JsonObject:
    del request
    into, out = answer.input_tokens, answer.output_tokens
    content: list[JsonValue] = [
        {"reasoningContent": {"reasoningText": {"text": thought.text, **thought.only("signature")}}}
        for thought in answer.thoughts
    ]
    content.extend([make_object(text=answer.text)] if answer.pieces else [])
    for call in answer.tool_calls:
        use = make_object(toolUseId=call.id, name=call.name, input=dict(call.arguments))
        content.append({"toolUse": use})
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": answer.finish(_STOP_REASONS),
        "usage": {"inputTokens": into, "outputTokens": out, "totalTokens": into + out},
        "metrics": {"latencyMs": 0},
    }


_AT_STOP: Final = ("stopReason", "additionalModelResponseFields")


def disassemble(document: JsonObject, split: Split) -> Iterator[Frame]:
    """Yield the events of a converse answer with their names."""
    message = as_object(document.get("output")).get("message")
    if isinstance(message, dict):
        yield Frame(event="messageStart", value={"role": message.get("role")})
        for index, block in enumerate(as_objects(message.get("content"))):
            at: JsonObject = {"contentBlockIndex": index}
            if "toolUse" in block:
                begun = without_keys(as_object(block["toolUse"]), "input")
                yield Frame(event="contentBlockStart", value={**at, "start": {"toolUse": begun}})
            for delta in _block_deltas(block, split):
                yield Frame(event="contentBlockDelta", value={**at, "delta": delta})
            yield Frame(event="contentBlockStop", value=at)
    stop: JsonObject = {key: document[key] for key in _AT_STOP if key in document}
    if stop:
        yield Frame(event="messageStop", value=stop)
    rest = without_keys(document, "output", "error", METRICS, *_AT_STOP)
    if rest:
        yield Frame(event="metadata", value=rest)


def _block_deltas(block: JsonObject, split: Split) -> Iterator[JsonObject]:
    match block:
        case {"text": str(text)}:
            for piece in pieces_of(text, split):
                yield {"text": piece}
            for citation in as_list(block.get("citations")):
                yield {"citation": citation}
        case {"toolUse": {"input": written}}:
            for piece in pieces_of(written, split):
                yield {"toolUse": {"input": piece}}
        case {"toolUse": _}:
            pass
        case {"reasoningContent": {"reasoningText": dict(thinking)}}:
            for piece in pieces_of(thinking.get("text") or "", split):
                yield {"reasoningContent": {"text": piece}}
            for key, value in without_keys(thinking, "text").items():
                yield {"reasoningContent": {key: value}}
        case _:
            yield block


_EXCEPTIONS: Final = {400: "ValidationException", 403: "AccessDeniedException", 429: "ThrottlingException"}


def error_body(status: int, message: str) -> JsonObject:
    """Return AWS's form of an error, with its kind in the body."""
    return {"__type": _EXCEPTIONS.get(status, "InternalServerException"), "message": message}


def error_frame(error: JsonValue) -> Frame:
    """Return the exception that ends a stream."""
    kind = as_text(as_object(error).get("type")) or "internalServerException"
    return Frame(event=kind, value=without_keys(as_object(error), "type"))


def has_ended(body: DecodedBody) -> bool | None:
    """Return whether ``metadata`` came, which is the last event; an answer that stopped may be whole without it."""
    kinds = [_named(frame)[0] for frame in body.frames or ()]
    if any(kind == "metadata" or kind.endswith("Exception") for kind in kinds):
        return True
    return None if "messageStop" in kinds else False


set_system: Final = prompts.field("system", lambda text: [{"text": text}])

DIALECT: Final = WireDialect(
    name="bedrock.converse",
    operation=genai.OP_CHAT,
    provider="aws.bedrock",
    documents=Documents(read_request, read_response, compose),
    streams=Streams(assemble, has_ended, disassemble, form=Form.AWS_EVENTS, error_frame=error_frame),
    transient_fields=frozenset({"requestMetadata"}),
    error_body=error_body,
    read_headers=read_headers,
    set_system=set_system,
    settings={"inferenceConfig": SETTINGS},
)
