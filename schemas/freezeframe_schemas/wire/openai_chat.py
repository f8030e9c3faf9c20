"""OpenAI chat completions, and the many providers that speak it with additions of their own.

Covered additions: DeepSeek and others' ``reasoning_content``, OpenRouter's ``reasoning`` and ``reasoning_details``, Mistral's
``thinking`` content and ``random_seed``, Groq's ``x_groq``, Azure's empty first chunk, audio, legacy ``functions``.

Source: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.dialect import WireDialect
from freezeframe_schemas.wire.document import (
    JsonObject,
    JsonValue,
    as_integer,
    as_list,
    as_object,
    as_objects,
    as_text,
)
from freezeframe_schemas.wire.frames import Frame
from freezeframe_schemas.wire.messages import (
    BlobPart,
    FilePart,
    GenericPart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolCallResponsePart,
    UriPart,
    modality_of,
)

TRANSIENT_FIELDS: Final = frozenset({"user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"})

FINISH_REASONS: Final = {"tool_calls": "tool_call", "function_call": "tool_call"}
"""OpenAI's word -> the conventions' word, where they differ. The attribute keeps the provider's, messages have the other."""

_REQUEST_FIELDS: Final = frozenset(
    {
        "model",
        "messages",
        "stream",
        "seed",
        "random_seed",
        "temperature",
        "top_p",
        "top_k",
        "max_tokens",
        "max_completion_tokens",
        "n",
        "frequency_penalty",
        "presence_penalty",
        "stop",
        "reasoning_effort",
        "service_tier",
        "tools",
        "functions",
    }
)
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
_OUTPUT_TYPES: Final = {"json_object": "json", "json_schema": "json", "text": "text"}


# -- request ------------------------------------------------------------------------------------------------------------
def read_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a chat completions request."""
    out.text(genai.OPENAI_API_TYPE, "chat_completions")
    read_sampling(document, out)
    choices = document.get("n")
    out.integer(genai.REQUEST_CHOICE_COUNT, choices)
    effort = document.get("reasoning_effort") or as_object(document.get("reasoning")).get("effort")
    out.text(genai.REQUEST_REASONING_LEVEL, effort)
    output = as_text(as_object(document.get("response_format")).get("type"))
    if "audio" in as_list(document.get("modalities")):
        out.text(genai.OUTPUT_TYPE, "speech")
    elif output is not None:
        out.text(genai.OUTPUT_TYPE, _OUTPUT_TYPES.get(output, output))
    out.messages(genai.INPUT_MESSAGES, [read_message(m) for m in as_objects(document.get("messages"))])
    tools, functions = as_objects(document.get("tools")), as_objects(document.get("functions"))
    out.tools(
        document.get("tools") or document.get("functions"),
        [_tool(tool) for tool in tools] + [{"type": "function", **function} for function in functions],
    )
    out.rest(document, _REQUEST_FIELDS)


def read_sampling(document: JsonObject, out: AttributeWriter) -> None:
    """Write the parameters that chat and text completions share."""
    out.text(genai.REQUEST_MODEL, document.get("model"))
    out.flag(genai.REQUEST_STREAM, document.get("stream"))
    seed = document.get("seed")
    out.integer(genai.REQUEST_SEED, seed if seed is not None else document.get("random_seed"))
    out.double(genai.REQUEST_TEMPERATURE, document.get("temperature"))
    out.double(genai.REQUEST_TOP_P, document.get("top_p"))
    out.double(genai.REQUEST_TOP_K, document.get("top_k"))
    out.double(genai.REQUEST_FREQUENCY_PENALTY, document.get("frequency_penalty"))
    out.double(genai.REQUEST_PRESENCE_PENALTY, document.get("presence_penalty"))
    most = document.get("max_completion_tokens")
    out.integer(genai.REQUEST_MAX_TOKENS, most if most is not None else document.get("max_tokens"))
    out.texts(genai.REQUEST_STOP_SEQUENCES, document.get("stop"))
    out.text(genai.OPENAI_SERVICE_TIER_REQUEST, document.get("service_tier"))


def _tool(tool: JsonObject) -> JsonValue:
    """Flatten ``{"type": "function", "function": {"name", ...}}`` to ``{"type", "name", ...}``."""
    kind = as_text(tool.get("type")) or "function"
    inner = tool.get(kind)
    outer: JsonObject = {key: value for key, value in tool.items() if key != kind}
    flat: JsonObject = {**outer, **inner, "type": kind} if isinstance(inner, dict) else {**tool, "type": kind}
    return flat if "name" in flat else {**flat, "name": kind}


# -- messages, both ways ------------------------------------------------------------------------------------------------
def read_message(message: JsonObject, finish_reason: str | None = None) -> Message:
    """Return one message of a request, or the message of a choice."""
    role = as_text(message.get("role")) or "assistant"
    content = message.get("content")
    if role in ("tool", "function"):
        parts: list[Part] = [
            ToolCallResponsePart(
                id=as_text(message.get("tool_call_id")),
                response=content,
                extra={"name": name} if (name := as_text(message.get("name"))) else {},
            )
        ]
    else:
        parts = _spoken_parts(message)
    return Message(
        role=role,
        parts=tuple(parts),
        name=as_text(message.get("name")),
        finish_reason=FINISH_REASONS.get(finish_reason, finish_reason) if finish_reason else None,
        extra={
            key: value
            for key, value in message.items()
            if key not in _MESSAGE_FIELDS and value is not None and value != [] and value != {}
        }
        if len(message) > 2
        else {},
    )


def _spoken_parts(message: JsonObject) -> list[Part]:
    content = message.get("content")
    parts: list[Part] = []
    if len(message) > 2:
        thinking = message.get("reasoning_content") or message.get("reasoning")
        if isinstance(thinking, str) and thinking:
            parts.append(ReasoningPart(content=thinking))
    if isinstance(content, str):
        if content:
            parts.append(TextPart(content=content))
    elif isinstance(content, list):
        parts.extend(read_content(block) for block in content)
    elif content is not None:
        parts.append(GenericPart(type="content", extra={"content": content}))
    if len(message) > 2:
        refusal = as_text(message.get("refusal"))
        if refusal:
            parts.append(GenericPart(type="refusal", extra={"content": refusal}))
        audio = message.get("audio")
        if isinstance(audio, dict):
            parts.append(_audio(audio))
        parts.extend(_tool_call(call) for call in as_objects(message.get("tool_calls")))
        function = message.get("function_call")
        if isinstance(function, dict):
            parts.append(_tool_call({"function": function}))
    return parts


def read_content(block: JsonValue) -> Part:
    """Return one item of a content array."""
    if isinstance(block, str):
        return TextPart(content=block)
    block = as_object(block)
    kind = as_text(block.get("type")) or "content"
    extra: JsonObject = {key: value for key, value in block.items() if key not in ("type", kind)}
    inner = block.get(kind)
    match kind:
        case "text" if isinstance(inner, str):
            return TextPart(content=inner, extra=extra)
        case "thinking" if isinstance(inner, list | str):
            items = [inner] if isinstance(inner, str) else inner
            texts = [item if isinstance(item, str) else as_object(item).get("text") for item in items]
            return ReasoningPart(content="".join(text for text in texts if isinstance(text, str)), extra=extra)
        case "image_url" | "video_url" | "audio_url" | "document_url":
            return _located(kind.removesuffix("_url"), inner, extra)
        case "input_audio" if isinstance(inner, dict) and isinstance(data := inner.get("data"), str):
            form = as_text(inner.get("format"))
            mime = f"audio/{form}" if form else None
            return BlobPart(modality="audio", mime_type=mime, content=data, extra=extra)
        case "file" if isinstance(inner, dict):
            return _file(inner, extra)
        case _:
            return GenericPart(type=kind, extra={key: v for key, v in block.items() if key != "type"})


def _located(modality: str, target: JsonValue, extra: JsonObject) -> Part:
    """Return the part of ``{"url": ..., "detail": ...}`` or of a bare URL; data URLs become blobs."""
    details = as_object(target)
    url = as_text(details.get("url")) or as_text(target) or ""
    extra = {**extra, **{key: value for key, value in details.items() if key != "url"}}
    return read_url(url, modality, extra)


def read_url(url: str, modality: str, extra: JsonObject) -> Part:
    """Return a blob for a ``data:`` URL with base64, else a URI."""
    if url.startswith("data:"):
        head, _, data = url[5:].partition(",")
        mime, *parameters = head.split(";")
        if "base64" in parameters:
            return BlobPart(modality=modality, mime_type=mime or None, content=data, extra=extra)
    return UriPart(modality=modality, uri=url, extra=extra)


def _file(file: JsonObject, extra: JsonObject) -> Part:
    extra = {**extra, **{key: value for key, value in file.items() if key not in ("file_id", "file_data")}}
    if isinstance(file_id := file.get("file_id"), str):
        return FilePart(modality="document", file_id=file_id, extra=extra)
    part = read_url(as_text(file.get("file_data")) or "", "document", extra)
    if isinstance(part, BlobPart):
        return BlobPart(modality=modality_of(part.mime_type), mime_type=part.mime_type, content=part.content, extra=extra)
    return GenericPart(type="file", extra=file)


def _audio(audio: JsonObject) -> Part:
    extra: JsonObject = {key: value for key, value in audio.items() if key not in ("data", "type")}
    if isinstance(data := audio.get("data"), str):
        return BlobPart(modality="audio", content=data, extra=extra)
    return GenericPart(type="audio", extra=extra)  # a request names earlier audio by id


def _tool_call(call: JsonObject) -> Part:
    kind = as_text(call.get("type")) or "function"
    inner = as_object(call.get(kind)) or as_object(call.get("function"))
    extra: JsonObject = {key: value for key, value in call.items() if key not in ("id", "type", "index", "function", kind)}
    if kind != "function":
        extra["tool_type"] = kind
    arguments = inner.get("arguments", inner.get("input"))
    return ToolCallPart(id=as_text(call.get("id")), name=as_text(inner.get("name")) or "", arguments=arguments, extra=extra)


# -- response -----------------------------------------------------------------------------------------------------------
def read_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a chat completion."""
    choices = as_objects(document.get("choices"))
    reasons = [as_text(choice.get("finish_reason")) for choice in choices]
    read_completion(document, reasons, out)
    out.messages(
        genai.OUTPUT_MESSAGES,
        [read_message(as_object(choice.get("message")), reason) for choice, reason in zip(choices, reasons, strict=True)],
    )


def read_completion(document: JsonObject, reasons: Sequence[str | None], out: AttributeWriter) -> None:
    """Write what chat and text completions share: id, model, fingerprint, finish reasons, usage."""
    out.text(genai.RESPONSE_ID, document.get("id"))
    out.text(genai.RESPONSE_MODEL, document.get("model"))
    out.text(genai.OPENAI_SYSTEM_FINGERPRINT, document.get("system_fingerprint"))
    out.text(genai.OPENAI_SERVICE_TIER_RESPONSE, document.get("service_tier"))
    out.texts(genai.RESPONSE_FINISH_REASONS, [reason for reason in reasons if reason])
    usage = as_object(document.get("usage")) or as_object(as_object(document.get("x_groq")).get("usage"))
    read_usage(usage, out)


def read_usage(usage: JsonObject, out: AttributeWriter) -> None:
    """Write token counts; OpenAI's totals include cached and reasoning tokens, as the conventions ask."""
    if not usage:
        return
    prompt = as_object(usage.get("prompt_tokens_details") or usage.get("prompt_token_details"))
    completion = as_object(usage.get("completion_tokens_details") or usage.get("completion_token_details"))
    out.integer(genai.USAGE_INPUT_TOKENS, usage.get("prompt_tokens"))
    out.integer(genai.USAGE_OUTPUT_TOKENS, usage.get("completion_tokens"))
    read = (
        prompt.get("cached_tokens"),
        usage.get("prompt_cache_hit_tokens"),
        usage.get("cached_tokens"),
        usage.get("cache_read_input_tokens"),
    )
    written = (prompt.get("cache_write_tokens"), usage.get("cache_creation_input_tokens"))
    out.integer(genai.USAGE_CACHE_READ_TOKENS, _first_integer(read))
    out.integer(genai.USAGE_CACHE_WRITE_TOKENS, _first_integer(written))
    out.integer(genai.USAGE_REASONING_TOKENS, completion.get("reasoning_tokens"))
    out.json(genai.USAGE_DETAILS, usage)


def _first_integer(values: Sequence[JsonValue]) -> int | None:
    return next((number for value in values if (number := as_integer(value)) is not None), None)


# -- stream -------------------------------------------------------------------------------------------------------------
def assemble(frames: Sequence[Frame]) -> JsonObject:
    """Return the chat completion that the chunks amount to; a choice that was cut has no finish reason."""
    document: JsonObject = {}
    choices: dict[int, JsonObject] = {}
    for frame in frames:
        chunk = as_object(frame.value)
        merge_top_level(document, chunk)
        for part in as_objects(chunk.get("choices")):
            index = as_integer(part.get("index")) or 0
            choice = choices.setdefault(index, {"index": index, "message": {}})
            message = choice["message"]
            delta = part.get("delta")
            if isinstance(message, dict) and isinstance(delta, dict):
                _merge_delta(message, delta)
            for key, value in part.items():
                if value is not None and key not in ("delta", "index"):
                    choice[key] = value
    if choices:
        document["choices"] = [choices[index] for index in sorted(choices)]
    return document


def merge_top_level(document: JsonObject, chunk: JsonObject) -> None:
    """Lay a chunk's own fields over the document: the first id and model that say something, the last of the rest."""
    for key, value in chunk.items():
        if value is None or key in ("choices", "obfuscation"):
            continue
        if key in ("id", "model", "created"):
            document[key] = document.get(key) or value
        else:
            document[key] = value


def _merge_delta(message: JsonObject, delta: JsonObject) -> None:
    for key, value in delta.items():
        if value is None:
            continue
        if key == "tool_calls":
            _merge_calls(message, as_objects(value))
        elif key == "role":
            message["role"] = message.get("role") or value
        else:
            message[key] = _joined(message.get(key), value)


def _joined(before: JsonValue, more: JsonValue) -> JsonValue:
    """Return `more` added to what came before, as the SDKs accumulate deltas: text and arrays grow, objects merge."""
    match before, more:
        case str(), str():
            return before + more
        case list(), list():
            return _joined_blocks(before, more)
        case str(), list():  # Mistral: thinking blocks, then bare text, or the other way round
            return _joined_blocks([{"type": "text", "text": before}] if before else [], more)
        case list(), str():
            return _joined_blocks(before, [{"type": "text", "text": more}] if more else [])
        case dict(), dict():
            merged = dict(before)
            for key, value in more.items():
                if value is not None:
                    merged[key] = value if key in ("type", "id", "index") else _joined(merged.get(key), value)
            return merged
        case _:
            return more


def _joined_blocks(before: list[JsonValue], more: list[JsonValue]) -> list[JsonValue]:
    """Return the blocks with a continuation (same type, and same index where it has one) merged into the last."""
    blocks = list(before)
    for item in more:
        last = blocks[-1] if blocks else None
        if (
            isinstance(item, dict)
            and isinstance(last, dict)
            and isinstance(item.get("type"), str)
            and item.get("type") == last.get("type")
            and item.get("index") == last.get("index")
        ):
            blocks[-1] = _joined(last, item)
        else:
            blocks.append(item)
    return blocks


def _merge_calls(message: JsonObject, deltas: list[JsonObject]) -> None:
    calls = message.setdefault("tool_calls", [])
    if not isinstance(calls, list):
        return
    for delta in deltas:
        call = _call_of(calls, delta)
        for key, value in delta.items():
            if value is None:
                continue
            inner = call.get(key)
            if isinstance(value, dict) and isinstance(inner, dict):
                _extend_function(inner, value)
            elif isinstance(value, dict):
                call[key] = dict(value)
            else:
                call[key] = value


def _call_of(calls: list[JsonValue], delta: JsonObject) -> JsonObject:
    """Return the call that a delta continues: the one of its index; a new id under the same index is another call."""
    index, call_id = delta.get("index"), delta.get("id")
    for call in reversed(calls):
        if isinstance(call, dict) and call.get("index") == index:
            if call_id and call.get("id") and call_id != call.get("id"):
                break
            return call
    new: JsonObject = {}
    calls.append(new)
    return new


def _extend_function(function: JsonObject, delta: JsonObject) -> None:
    for key, value in delta.items():
        before = function.get(key)
        if key in ("arguments", "input") and isinstance(before, str) and isinstance(value, str):
            function[key] = before + value
        elif value or (value is not None and key in ("arguments", "input")):
            function[key] = value


DIALECT: Final = WireDialect(
    name="openai.chat",
    operation=genai.OP_CHAT,
    provider="openai",
    transient_fields=TRANSIENT_FIELDS,
    read_request=read_request,
    read_response=read_response,
    assemble=assemble,
)
