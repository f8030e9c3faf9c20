"""Vercel AI SDK 4 to 6: ``ai.prompt.messages``, ``ai.response.*``, ``ai.toolCall.*``, ``ai.usage.*``.

Source: https://ai-sdk.dev/docs/ai-sdk-core/telemetry
"""

from __future__ import annotations

from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.vendors.dialect import Dialect, json_of, text_or_json
from freezeframe_schemas.vendors.genai_history import provider_of
from freezeframe_schemas.wire import messages as msg
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_objects, as_text, parse

_OPERATION: Final = "ai.operationId"
_TOOL_CALL: Final = "ai.toolCall"
_MODEL_CALLS: Final = (".doGenerate", ".doStream")
_TOKENS: Final = (
    (("ai.usage.inputTokens", "ai.usage.promptTokens"), genai.USAGE_INPUT_TOKENS),
    (("ai.usage.outputTokens", "ai.usage.completionTokens"), genai.USAGE_OUTPUT_TOKENS),
    (("ai.usage.cachedInputTokens",), genai.USAGE_CACHE_READ_TOKENS),
    (("ai.usage.reasoningTokens",), genai.USAGE_REASONING_TOKENS),
)


def _fits(span: SpanRecord) -> bool:
    return _OPERATION in span.attributes


def _derive(span: SpanRecord, out: AttributeWriter) -> None:
    operation = span.text(_OPERATION) or ""
    # Names that the user chose; these are the ones that tracing backends read.
    out.text(genai.USER_ID, span.text("ai.telemetry.metadata.userId"))
    out.text(genai.CONVERSATION_ID, span.text("ai.telemetry.metadata.sessionId"))
    if operation == _TOOL_CALL:
        out.text(genai.OPERATION_NAME, genai.OP_EXECUTE_TOOL)
        out.text(genai.TOOL_NAME, span.text("ai.toolCall.name"))
        out.text(genai.TOOL_CALL_ID, span.text("ai.toolCall.id"))
        out.text(genai.TOOL_CALL_ARGUMENTS, span.text("ai.toolCall.args") or span.text("ai.toolCall.input"))
        out.text(genai.TOOL_CALL_RESULT, span.text("ai.toolCall.result") or span.text("ai.toolCall.output"))
        return
    out.text(genai.PROVIDER_NAME, provider_of(span.text("ai.model.provider")))
    out.text(genai.REQUEST_MODEL, span.text("ai.model.id"))
    for names, conventional in _TOKENS:
        out.integer(conventional, next((n for name in names if (n := span.integer(name)) is not None), None))
    if "embed" in operation.lower():
        out.text(genai.OPERATION_NAME, genai.OP_EMBEDDINGS)
    elif operation.endswith(_MODEL_CALLS):
        out.text(genai.OPERATION_NAME, genai.OP_CHAT)
        out.flag(genai.REQUEST_STREAM, operation.endswith(".doStream"))
        _model_call(span, out)
    elif operation.startswith("ai."):
        # generateText and its like run the whole tool loop; the calls below them are the model's.
        out.text(genai.OPERATION_NAME, genai.OP_INVOKE_AGENT)
        out.text(genai.AGENT_NAME, span.text("ai.telemetry.functionId"))
        prompt = as_object(json_of(span, "ai.prompt"))
        prompt_text = prompt.get("prompt")
        messages = [_message(item) for item in as_objects(prompt.get("messages"))]
        if isinstance(prompt_text, str):
            messages.append(msg.Message(role="user", parts=(msg.TextPart(content=prompt_text),)))
        system = as_text(prompt.get("system"))
        out.parts(genai.SYSTEM_INSTRUCTIONS, [msg.TextPart(content=system)] if system else [])
        out.messages(genai.INPUT_MESSAGES, messages)
        out.messages(genai.OUTPUT_MESSAGES, _answer(span))


def _model_call(span: SpanRecord, out: AttributeWriter) -> None:
    out.text(genai.RESPONSE_ID, span.text("ai.response.id"))
    out.text(genai.RESPONSE_MODEL, span.text("ai.response.model"))
    out.texts(genai.RESPONSE_FINISH_REASONS, span.text("ai.response.finishReason"))
    first_ms = span.attributes.get("ai.response.msToFirstChunk")
    if isinstance(first_ms, int | float):
        out.double(genai.RESPONSE_TIME_TO_FIRST_CHUNK, first_ms / 1000)
    out.messages(genai.INPUT_MESSAGES, [_message(item) for item in as_objects(json_of(span, "ai.prompt.messages"))])
    out.messages(genai.OUTPUT_MESSAGES, _answer(span))
    tools = span.attributes.get("ai.prompt.tools")
    sent = [parse(tool) for tool in tools if isinstance(tool, str)] if isinstance(tools, tuple) else []
    out.tools(sent, [_definition(tool) for tool in as_objects(sent)])


def _answer(span: SpanRecord) -> list[msg.Message]:
    parts: list[msg.Part] = []
    if reasoning := span.text("ai.response.reasoning"):
        parts.append(msg.ReasoningPart(content=reasoning))
    if text := span.text("ai.response.text") or span.text("ai.response.object"):
        parts.append(msg.TextPart(content=text))
    parts.extend(_part(call) for call in as_objects(json_of(span, "ai.response.toolCalls")))
    reason = span.text("ai.response.finishReason")
    finish_reason = msg.finish_reason_of(reason.replace("-", "_") if reason else None)
    return [msg.Message(role="assistant", parts=tuple(parts), finish_reason=finish_reason)] if parts else []


def _message(item: JsonObject) -> msg.Message:
    content = item.get("content")
    if isinstance(content, str):
        parts: tuple[msg.Part, ...] = (msg.TextPart(content=content),)
    else:
        parts = tuple(_part(part) for part in as_objects(content))
    return msg.Message(role=as_text(item.get("role")) or "user", parts=parts)


def _part(part: JsonObject) -> msg.Part:
    kind = as_text(part.get("type"))
    text = as_text(part.get("text"))
    if kind == "text" and text is not None:
        return msg.TextPart(content=text)
    if kind == "reasoning" and text is not None:
        return msg.ReasoningPart(content=text)
    if kind == "tool-call" or (kind is None and "toolCallId" in part) or (kind == "function" and "toolName" in part):
        arguments = part.get("input", part.get("args"))
        return msg.ToolCallPart(
            id=as_text(part.get("toolCallId")), name=as_text(part.get("toolName")) or "", arguments=arguments
        )
    if kind == "tool-result":
        response = part.get("output", part.get("result"))
        return msg.ToolCallResponsePart(id=as_text(part.get("toolCallId")), response=response)
    if kind in ("image", "file"):
        return _data(part)
    return msg.GenericPart(type=kind or "unknown", extra={key: value for key, value in part.items() if key != "type"})


def _data(part: JsonObject) -> msg.Part:
    mime_type = as_text(part.get("mediaType")) or as_text(part.get("mimeType"))
    data = as_text(part.get("data")) or as_text(part.get("image")) or ""
    modality = msg.modality_of(mime_type) if mime_type else "image"
    if data.startswith(("http://", "https://")):
        return msg.UriPart(modality=modality, mime_type=mime_type, uri=data)
    return msg.BlobPart(modality=modality, mime_type=mime_type, content=data)


def _definition(tool: JsonObject) -> JsonValue:
    parameters = tool.get("inputSchema", tool.get("parameters"))
    rest: JsonObject = {key: value for key, value in tool.items() if key not in ("inputSchema", "parameters")}
    return {**rest, "parameters": text_or_json(parameters)}


DIALECT: Final = Dialect(name="vercel", fits=_fits, derive=_derive)
