"""Messages of OpenAI chat completions, as values of the conventions.

Covered additions of other providers: DeepSeek's ``reasoning_content``, OpenRouter's ``reasoning``, Mistral's ``thinking``
content and bare ``image_url`` texts, legacy ``function_call``. Other message keys stay on the message.
"""

from __future__ import annotations

import json
from typing import Final

from freezeframe_schemas.wire import messages as msg
from freezeframe_schemas.wire.answer import ToolCall
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_objects, as_text

_MESSAGE_FIELDS: Final = frozenset(
    {
        "role",
        "content",
        "name",
        "refusal",
        "reasoning",
        "reasoning_content",
        "tool_calls",
        "function_call",
        "tool_call_id",
        "audio",
    }
)
_TOOL_ROLES: Final = frozenset({"tool", "function"})
_RARE_FIELDS: Final = ("refusal", "audio", "function_call")
_CALL_FIELDS: Final = frozenset({"id", "type", "index", "function"})


def read_message(message: JsonObject, finish_reason: str | None = None) -> msg.Message:
    """Return one message of a request, or the message of a choice."""
    role, content = message.get("role"), message.get("content")
    if isinstance(role, str) and role in _TOOL_ROLES:
        parts: list[msg.Part] = [msg.ToolCallResponsePart(id=as_text(message.get("tool_call_id")), response=content)]
    elif len(message) == 2 and finish_reason is None and isinstance(role, str) and isinstance(content, str):
        # Nine of ten messages are a role and a text; requests carry hundreds of them.
        return msg.Message(role=role, parts=(msg.TextPart(content=content),) if content else ())
    else:
        parts = _spoken_parts(message)
    extra: JsonObject = {}
    if not message.keys() <= _MESSAGE_FIELDS:
        extra = {key: value for key, value in message.items() if key not in _MESSAGE_FIELDS and value not in (None, [], {})}
    return msg.Message(
        role=as_text(role) or "assistant",
        parts=tuple(parts),
        name=as_text(message.get("name")),
        finish_reason=msg.finish_reason_of(finish_reason),
        extra=extra,
    )


def _spoken_parts(message: JsonObject) -> list[msg.Part]:
    parts: list[msg.Part] = []
    thinking = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thinking, str) and thinking:
        parts.append(msg.ReasoningPart(content=thinking))
    content = message.get("content")
    if isinstance(content, str):
        if content:
            parts.append(msg.TextPart(content=content))
    elif isinstance(content, list):
        parts += [read_content(block) for block in content]
    elif content is not None:
        parts.append(msg.GenericPart(type="content", extra={"content": content}))
    for key in _RARE_FIELDS:
        if key in message:
            parts += _rare_parts(key, message[key])
    if calls := message.get("tool_calls"):
        parts += [_tool_call(call) for call in as_objects(calls)]
    return parts


def _rare_parts(key: str, value: JsonValue) -> list[msg.Part]:
    match key, value:
        case "refusal", str() if value:
            return [msg.GenericPart(type="refusal", extra={"content": value})]
        case "audio", dict():
            return [_audio(value)]
        case "function_call", dict():
            return [_tool_call({"function": value})]
        case _:
            return []


def read_content(block: JsonValue) -> msg.Part:
    """Return one item of a content array."""
    if isinstance(block, str):
        return msg.TextPart(content=block)
    block = as_object(block)
    kind = as_text(block.get("type")) or "content"
    extra: JsonObject = {key: value for key, value in block.items() if key not in ("type", kind)}
    inner = block.get(kind)
    match kind:
        case "text" if isinstance(inner, str):
            return msg.TextPart(content=inner, extra=extra)
        case "thinking" if isinstance(inner, list | str):
            items = [inner] if isinstance(inner, str) else inner
            texts = [item if isinstance(item, str) else as_object(item).get("text") for item in items]
            return msg.ReasoningPart(content="".join(text for text in texts if isinstance(text, str)), extra=extra)
        case "image_url" | "video_url" | "audio_url" | "document_url":
            return _located(kind.removesuffix("_url"), inner, extra)
        case "input_audio" if isinstance(inner, dict) and isinstance(data := inner.get("data"), str):
            form = as_text(inner.get("format"))
            mime = f"audio/{form}" if form else None
            return msg.BlobPart(modality="audio", mime_type=mime, content=data, extra=extra)
        case "file" if isinstance(inner, dict):
            return _file(inner, extra)
        case _:
            return msg.GenericPart(type=kind, extra={key: v for key, v in block.items() if key != "type"})


def _located(modality: str, target: JsonValue, extra: JsonObject) -> msg.Part:
    """Return the part of ``{"url": ..., "detail": ...}`` or of a bare URL; data URLs become blobs."""
    details = as_object(target)
    url = as_text(details.get("url")) or as_text(target) or ""
    extra = {**extra, **{key: value for key, value in details.items() if key != "url"}}
    return read_url(url, modality, extra)


def read_url(url: str, modality: str, extra: JsonObject) -> msg.Part:
    """Return a blob for a ``data:`` URL with base64, else a URI."""
    if url.startswith("data:"):
        head, _, data = url[5:].partition(",")
        mime, *parameters = head.split(";")
        if "base64" in parameters:
            return msg.BlobPart(modality=modality, mime_type=mime or None, content=data, extra=extra)
    return msg.UriPart(modality=modality, uri=url, extra=extra)


def _file(file: JsonObject, extra: JsonObject) -> msg.Part:
    extra = {**extra, **{key: value for key, value in file.items() if key not in ("file_id", "file_data")}}
    if isinstance(file_id := file.get("file_id"), str):
        return msg.FilePart(modality="document", file_id=file_id, extra=extra)
    part = read_url(as_text(file.get("file_data")) or "", "document", extra)
    if isinstance(part, msg.BlobPart):
        return msg.BlobPart(
            modality=msg.modality_of(part.mime_type), mime_type=part.mime_type, content=part.content, extra=extra
        )
    return msg.GenericPart(type="file", extra=file)


def _audio(audio: JsonObject) -> msg.Part:
    extra: JsonObject = {key: value for key, value in audio.items() if key not in ("data", "type")}
    if isinstance(data := audio.get("data"), str):
        return msg.BlobPart(modality="audio", content=data, extra=extra)
    return msg.GenericPart(type="audio", extra=extra)  # a request names earlier audio by id


def _tool_call(call: JsonObject) -> msg.Part:
    kind = as_text(call.get("type")) or "function"
    inner = as_object(call.get(kind)) or as_object(call.get("function"))
    extra: JsonObject = {}
    if not call.keys() <= _CALL_FIELDS:
        extra = {key: value for key, value in call.items() if key not in _CALL_FIELDS and key != kind}
    if kind != "function":
        extra["tool_type"] = kind
    arguments = inner.get("arguments", inner.get("input"))
    return msg.ToolCallPart(id=as_text(call.get("id")), name=as_text(inner.get("name")) or "", arguments=arguments, extra=extra)


def read_tool(tool: JsonObject) -> JsonValue:
    """Return the definition flat: ``{"type": "function", "function": {"name", ...}}`` is ``{"type", "name", ...}``."""
    kind = as_text(tool.get("type")) or "function"
    inner = tool.get(kind)
    outer: JsonObject = {key: value for key, value in tool.items() if key != kind}
    flat: JsonObject = {**outer, **inner, "type": kind} if isinstance(inner, dict) else {**tool, "type": kind}
    return flat if "name" in flat else {**flat, "name": kind}


def write_call(call: ToolCall) -> JsonObject:
    """Return a call that the model asks for."""
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
