"""OpenAI responses: items in, items out, and a stream of events about them.

Source: https://platform.openai.com/docs/api-reference/responses and /responses-streaming
"""

from __future__ import annotations

import json
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.wire import messages as msg
from freezeframe_schemas.wire import prompts
from freezeframe_schemas.wire.answer import Answer, Thought
from freezeframe_schemas.wire.attributes import SAMPLING, AttributeWriter, Fields, UsageCounts
from freezeframe_schemas.wire.dialect import Documents, Streams, WireDialect
from freezeframe_schemas.wire.document import (
    JsonObject,
    JsonValue,
    as_object,
    as_objects,
    as_text,
)
from freezeframe_schemas.wire.openai_chat import TRANSIENT_FIELDS
from freezeframe_schemas.wire.openai_content import read_url
from freezeframe_schemas.wire.openai_responses_stream import assemble, disassemble, has_ended

_UNFINISHED: Final = frozenset({"in_progress", "queued"})
_SAMPLED: Final[Fields] = {
    **SAMPLING,
    "max_output_tokens": (AttributeWriter.integer, genai.REQUEST_MAX_TOKENS),
    "previous_response_id": (AttributeWriter.text, genai.REQUEST_PREVIOUS_RESPONSE_ID),
    "service_tier": (AttributeWriter.text, genai.OPENAI_SERVICE_TIER_REQUEST),
}
_REQUEST_FIELDS: Final = frozenset({*_SAMPLED, "input", "instructions", "conversation", "tools"})
_COUNTS: Final = UsageCounts(
    input=("input_tokens",),
    output=("output_tokens",),
    cache_read=("input_tokens_details.cached_tokens",),
    cache_write=("input_tokens_details.cache_write_tokens",),
    reasoning=("output_tokens_details.reasoning_tokens",),
)
_OUTPUT_TYPES: Final = {"json_object": "json", "json_schema": "json"}


# -- request ------------------------------------------------------------------------------------------------------------
def read_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a responses request."""
    out.text(genai.OPENAI_API_TYPE, "responses")
    out.fields(document, _SAMPLED)
    conversation = document.get("conversation")
    out.text(genai.CONVERSATION_ID, as_object(conversation).get("id") or conversation)
    out.text(genai.REQUEST_REASONING_LEVEL, as_object(document.get("reasoning")).get("effort"))
    output = as_text(as_object(as_object(document.get("text")).get("format")).get("type"))
    if output is not None:
        out.text(genai.OUTPUT_TYPE, _OUTPUT_TYPES.get(output, output))
    out.parts(genai.SYSTEM_INSTRUCTIONS, msg.texts(document.get("instructions")))
    out.messages(genai.INPUT_MESSAGES, _input(document.get("input")))
    out.tools(document.get("tools"), [_tool(tool) for tool in as_objects(document.get("tools"))])
    out.rest(document, _REQUEST_FIELDS)


def _input(value: JsonValue) -> list[msg.Message]:
    if isinstance(value, str):
        return [msg.Message(role="user", parts=(msg.TextPart(content=value),))]
    return [_input_item(item) for item in as_objects(value)]


def _input_item(item: JsonObject) -> msg.Message:
    kind = as_text(item.get("type")) or "message"
    if kind == "message":
        return msg.Message(
            role=as_text(item.get("role")) or "user",
            parts=tuple(_content(item.get("content"))),
            extra={key: item[key] for key in ("phase",) if key in item},
        )
    role = "tool" if kind.endswith("_output") else "assistant"
    return msg.Message(role=role, parts=tuple(read_item(item)))


def _tool(tool: JsonObject) -> JsonValue:
    kind = as_text(tool.get("type")) or "function"
    return {**tool, "type": kind, "name": as_text(tool.get("name")) or kind}


# -- items --------------------------------------------------------------------------------------------------------------
def read_item(item: JsonObject) -> list[msg.Part]:
    """Return the parts of one input or output item."""
    kind = as_text(item.get("type")) or "message"
    match kind:
        case "message":
            return _content(item.get("content"))
        case "reasoning":
            return [_reasoning(item)]
        case "function_call" | "custom_tool_call":
            extra: JsonObject = {"tool_type": "custom"} if kind == "custom_tool_call" else {}
            return [
                msg.ToolCallPart(
                    id=as_text(item.get("call_id")),
                    name=as_text(item.get("name")) or "",
                    arguments=item.get("arguments", item.get("input")),
                    extra=extra,
                )
            ]
        case _ if kind.endswith("_output"):
            return [msg.ToolCallResponsePart(id=as_text(item.get("call_id")), response=item.get("output"))]
        case _ if kind.endswith("_call"):
            return [_other_call(kind, item)]
        case _:
            return [msg.GenericPart(type=kind, extra={key: v for key, v in item.items() if key != "type"})]


def _other_call(kind: str, item: JsonObject) -> msg.Part:
    """Return a built-in tool's call: one with a `call_id` waits for our answer (computer, shell, apply_patch), the others (web
    search, code interpreter, ...) are the provider's and include their outcome.
    """
    name = kind.removesuffix("_call")
    if not isinstance(call_id := item.get("call_id"), str):
        details: JsonObject = {key: value for key, value in item.items() if key not in ("id", "type")}
        return msg.ServerToolCallPart(id=as_text(item.get("id")), name=name, server_tool_call={"type": kind, **details})
    input_key = next((key for key in ("action", "operation", "arguments") if key in item), None)
    known_keys = {"id", "type", "call_id", "status", input_key}
    rest: JsonObject = {key: value for key, value in item.items() if key not in known_keys and value is not None}
    return msg.ToolCallPart(
        id=call_id, name=name, arguments=item[input_key] if input_key else None, extra={"tool_type": kind, **rest}
    )


def _reasoning(item: JsonObject) -> msg.Part:
    """Return the thinking itself if it is given, else its summary; the encrypted form is kept."""
    content, summary = as_objects(item.get("content")), as_objects(item.get("summary"))
    texts = [as_text(block.get("text")) for block in content or summary]
    extra: JsonObject = {
        key: value
        for key in ("id", "encrypted_content", "summary")
        if (value := item.get(key)) and not (key == "summary" and not content)
    }
    return msg.ReasoningPart(content="\n\n".join(text for text in texts if text), extra=extra)


def _content(content: JsonValue) -> list[msg.Part]:
    return msg.texts(content) + [_block(block) for block in as_objects(content)]


def _block(block: JsonObject) -> msg.Part:
    kind = as_text(block.get("type")) or "content"

    def extra(*taken: str) -> JsonObject:
        return {key: value for key, value in block.items() if key not in taken and value not in (None, [])}

    match kind, block:
        case "input_text" | "output_text" | "text", {"text": str(text)}:
            return msg.TextPart(content=text, extra=extra("type", "text"))
        case "refusal", {"refusal": str(text)}:
            return msg.GenericPart(type="refusal", extra={"content": text})
        case "input_image", {"image_url": str(url)}:
            return read_url(url, "image", extra("type", "image_url"))
        case "input_image", {"file_id": str(file_id)}:
            return msg.FilePart(modality="image", file_id=file_id, extra=extra("type", "file_id"))
        case "input_file", {"file_id": str(file_id)}:
            return msg.FilePart(modality="document", file_id=file_id, extra=extra("type", "file_id"))
        case "input_file", {"file_data": str(url)}:
            return read_url(url, "document", extra("type", "file_data"))
        case "input_file", {"file_url": str(url)}:
            return msg.UriPart(modality="document", uri=url, extra=extra("type", "file_url"))
        case "input_audio", {"input_audio": {"data": str(data), "format": str(form)}}:
            return msg.BlobPart(modality="audio", mime_type=f"audio/{form}", content=data)
        case _:
            return msg.GenericPart(type=kind, extra={key: v for key, v in block.items() if key != "type"})


# -- response -----------------------------------------------------------------------------------------------------------
def read_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a response; its output items are one assistant message."""
    out.text(genai.RESPONSE_ID, document.get("id"))
    out.text(genai.RESPONSE_MODEL, document.get("model"))
    out.text(genai.OPENAI_SERVICE_TIER_RESPONSE, document.get("service_tier"))
    reason = _finish_reason(document)
    out.texts(genai.RESPONSE_FINISH_REASONS, reason)
    out.usage(as_object(document.get("usage")), _COUNTS)
    items = as_objects(document.get("output"))
    if items:
        parts = tuple(part for item in items for part in read_item(item))
        answered = {part.id for part in parts if isinstance(part, msg.ToolCallResponsePart)}
        request_parts = [part for part in parts if not isinstance(part, msg.ToolCallPart) or part.id not in answered]
        message = msg.Message(role="assistant", parts=parts, finish_reason=msg.finish_reason_with(request_parts, reason))
        out.messages(genai.OUTPUT_MESSAGES, [message])


def _finish_reason(document: JsonObject) -> str | None:
    status = as_text(document.get("status"))
    if status in _UNFINISHED:
        return None
    return as_text(as_object(document.get("incomplete_details")).get("reason")) or status


# -- writing ------------------------------------------------------------------------------------------------------------
def _write_thought(thought: Thought, made_id: str) -> JsonObject:
    """Return a reasoning item; its text is a summary, unless a summary is next to it."""
    text: JsonObject = {"type": "summary_text", "text": thought.text}
    extra = thought.only("id", "encrypted_content", "summary")
    if "summary" in extra:
        text["type"] = "reasoning_text"
        return {"id": made_id, "type": "reasoning", "content": [text], **extra}
    return {"id": made_id, "type": "reasoning", "summary": [text] if thought.text else [], **extra}


def compose(answer: Answer, request: JsonObject) -> JsonObject:
    """Return a response whose items are a message and the calls."""
    del request
    output: list[JsonValue] = [_write_thought(thought, f"rs_{answer.id}_{n}") for n, thought in enumerate(answer.thoughts)]
    if answer.pieces:
        content: JsonObject = {"type": "output_text", "text": answer.text, "annotations": []}
        message: JsonObject = {"id": f"msg_{answer.id}", "type": "message", "status": "completed", "role": "assistant"}
        output.append({**message, "content": [content]})
    for call in answer.tool_calls:
        item: JsonObject = {"id": f"fc_{call.id}", "type": "function_call", "status": "completed", "call_id": call.id}
        output.append({**item, "name": call.name, "arguments": json.dumps(dict(call.arguments), ensure_ascii=False)})
    into, out = answer.input_tokens, answer.output_tokens
    usage: JsonObject = {"input_tokens": into, "output_tokens": out, "total_tokens": into + out}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    cut = answer.finish({"stop": "", "length": "max_output_tokens", "content_filter": "content_filter"})
    document: JsonObject = {
        "id": answer.id,
        "object": "response",
        "created_at": 0,
        "model": answer.model,
        "status": "incomplete" if cut else "completed",
    }
    document |= {
        "error": None,
        "incomplete_details": {"reason": cut} if cut else None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
    }
    return {**document, "tool_choice": "auto", "tools": [], "output": output, "usage": usage}


DIALECT: Final = WireDialect(
    name="openai.responses",
    operation=genai.OP_CHAT,
    provider="openai",
    documents=Documents(read_request, read_response, compose),
    streams=Streams(assemble, has_ended, disassemble, error_frame=lambda error: None),
    transient_fields=TRANSIENT_FIELDS,
    set_system=prompts.field("instructions"),
    call_path="/responses",
    honours_retry_after=True,
)
