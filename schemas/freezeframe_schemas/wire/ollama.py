"""Ollama's own API: chat, generate and embed (its ``/v1`` paths use OpenAI's). Streams are JSON lines.

Source: https://github.com/ollama/ollama/blob/main/docs/api.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.wire import messages as msg
from freezeframe_schemas.wire import prompts
from freezeframe_schemas.wire.answer import Answer, Split, pieces_of, without_keys
from freezeframe_schemas.wire.attributes import AttributeWriter, Fields, UsageCounts
from freezeframe_schemas.wire.dialect import Documents, Streams, WireDialect, ended_by_event
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list, as_object, as_objects, as_text
from freezeframe_schemas.wire.frames import Form, Frame
from freezeframe_schemas.wire.openai_content import read_tool

_REQUEST_FIELDS: Final = frozenset({"model", "messages", "prompt", "system", "images", "input", "stream", "tools"})
_OPTIONS: Final[Fields] = {
    "temperature": (AttributeWriter.double, genai.REQUEST_TEMPERATURE),
    "seed": (AttributeWriter.integer, genai.REQUEST_SEED),
    "top_p": (AttributeWriter.double, genai.REQUEST_TOP_P),
    "top_k": (AttributeWriter.double, genai.REQUEST_TOP_K),
    "num_predict": (AttributeWriter.integer, genai.REQUEST_MAX_TOKENS),
    "stop": (AttributeWriter.texts, genai.REQUEST_STOP_SEQUENCES),
    "frequency_penalty": (AttributeWriter.double, genai.REQUEST_FREQUENCY_PENALTY),
    "presence_penalty": (AttributeWriter.double, genai.REQUEST_PRESENCE_PENALTY),
}


# -- request ------------------------------------------------------------------------------------------------------------
def read_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a chat or generate request."""
    out.text(genai.REQUEST_MODEL, document.get("model"))
    out.flag(genai.REQUEST_STREAM, document.get("stream"))
    options = as_object(document.get("options"))
    out.fields(options, _OPTIONS)
    out.text(genai.REQUEST_REASONING_LEVEL, document.get("think"))
    if document.get("format"):  # "json" or a schema
        out.text(genai.OUTPUT_TYPE, "json")
    out.parts(genai.SYSTEM_INSTRUCTIONS, msg.texts(document.get("system")))
    messages = [read_message(message) for message in as_objects(document.get("messages"))]
    if prompt := as_text(document.get("prompt")):
        messages.append(read_message({"role": "user", "content": prompt, "images": document.get("images")}))
    out.messages(genai.INPUT_MESSAGES, messages)
    out.tools(document.get("tools"), [read_tool(tool) for tool in as_objects(document.get("tools"))])
    rest = {key: value for key, value in options.items() if key not in _OPTIONS}
    out.rest({**document, "options": rest or None}, _REQUEST_FIELDS)


def read_message(message: JsonObject, finish_reason: str | None = None) -> msg.Message:
    """Return one message; tool arguments are JSON here, not text."""
    role = as_text(message.get("role")) or "assistant"
    content = as_text(message.get("content")) or ""
    thinking = as_text(message.get("thinking"))
    parts: list[msg.Part] = [msg.ReasoningPart(content=thinking)] if thinking else []
    if role == "tool":
        name = as_text(message.get("tool_name")) or as_text(message.get("name"))
        call_id = as_text(message.get("tool_call_id"))
        parts.append(msg.ToolCallResponsePart(id=call_id, response=content, extra={"name": name} if name else {}))
    else:
        parts += msg.texts(content)
    parts.extend(
        msg.BlobPart(modality="image", content=image) for image in as_list(message.get("images")) if isinstance(image, str)
    )
    for call in as_objects(message.get("tool_calls")):
        function = as_object(call.get("function"))
        parts.append(
            msg.ToolCallPart(
                id=as_text(call.get("id")),
                name=as_text(function.get("name")) or "",
                arguments=function.get("arguments"),
            )
        )
    return msg.Message(role=role, parts=tuple(parts), finish_reason=msg.finish_reason_with(parts, finish_reason))


# -- response -----------------------------------------------------------------------------------------------------------
def read_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a chat or generate answer."""
    out.text(genai.RESPONSE_MODEL, document.get("model"))
    reason = as_text(document.get("done_reason"))
    out.texts(genai.RESPONSE_FINISH_REASONS, reason)
    _read_usage(document, out)
    message = document.get("message")
    if not isinstance(message, dict) and "response" in document:
        message = {key: document.get(key) for key in ("thinking", "tool_calls")}
        message["content"] = document["response"]
    if isinstance(message, dict):
        out.messages(genai.OUTPUT_MESSAGES, [read_message({"role": "assistant", **message}, reason)])


def _read_usage(document: JsonObject, out: AttributeWriter) -> None:
    """Write token counts; Ollama has no usage object, so its fields are kept by their names."""
    usage = {key: value for key, value in document.items() if key.endswith(("eval_count", "_duration"))}
    out.usage(usage, UsageCounts(input=("prompt_eval_count",), output=("eval_count",)))


def assemble(frames: Sequence[Frame]) -> JsonObject:
    """Return the answer that the lines add up to; without the line that says ``done`` it has no finish reason."""
    document: JsonObject = {}
    texts: dict[str, list[str]] = {"content": [], "thinking": [], "response": []}
    calls: list[JsonObject] = []
    message: JsonObject = {}
    for frame in frames:
        line = as_object(frame.value)
        piece = as_object(line.get("message"))
        message.update({key: value for key, value in piece.items() if value is not None})
        for key, pieces in texts.items():
            if isinstance(text := piece.get(key, line.get(key)), str):
                pieces.append(text)
        calls.extend(as_objects(piece.get("tool_calls")) or as_objects(line.get("tool_calls")))
        document.update({key: value for key, value in line.items() if key != "message"})
    joined = {key: "".join(pieces) for key, pieces in texts.items()}
    if message:
        document["message"] = {
            **message,
            "content": joined["content"],
            "thinking": joined["thinking"],
            "tool_calls": [*calls],
        }
    elif texts["response"]:
        document.update({"response": joined["response"], "thinking": joined["thinking"], "tool_calls": [*calls]})
    return document


# -- writing ------------------------------------------------------------------------------------------------------------
def compose(answer: Answer, request: JsonObject) -> JsonObject:
    """Return a chat or (for a prompt) a generate answer."""
    calls: list[JsonValue] = [
        {"id": call.id, "function": {"name": call.name, "arguments": dict(call.arguments)}} for call in answer.tool_calls
    ]
    thinking: JsonObject = {"thinking": answer.thinking} if answer.thinking else {}
    content: JsonObject = {"response": answer.text, **thinking}
    if "messages" in request:
        message: JsonObject = {"role": "assistant", "content": answer.text, **thinking}
        content = {"message": {**message, **({"tool_calls": calls} if calls else {})}}
    head: JsonObject = {
        "model": answer.model,
        "created_at": "1970-01-01T00:00:00Z",
        **content,
        "done": True,
        "done_reason": answer.finish({"stop": "stop", "length": "length"}),
    }
    return {**head, "total_duration": 0, "prompt_eval_count": answer.input_tokens, "eval_count": answer.output_tokens}


def disassemble(document: JsonObject, split: Split) -> Iterator[Frame]:
    """Yield the lines of an answer; the last has everything that is not text."""
    head: JsonObject = {**{key: document[key] for key in ("model", "created_at") if key in document}, "done": False}
    message = document.get("message")
    if isinstance(message, dict):
        for key in ("thinking", "content"):
            if text := as_text(message.get(key)):
                for piece in pieces_of(text, split):
                    yield Frame(value={**head, "message": {"role": message.get("role"), "content": "", key: piece}})
        last: JsonObject = {**without_keys(message, "thinking"), "content": ""}
        yield Frame(value={**without_keys(document, "error"), "message": last})
        return
    for key in ("thinking", "response"):
        if text := as_text(document.get(key)):
            yield from (Frame(value={**head, "response": "", key: piece}) for piece in pieces_of(text, split))
    yield Frame(value={**without_keys(document, "error", "thinking"), **({"response": ""} if "response" in document else {})})


def _error_body(status: int, message: str) -> JsonObject:
    del status
    return {"error": message}


# -- embed --------------------------------------------------------------------------------------------------------------
def read_embed_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of an embed (``input``) or embeddings (``prompt``) request."""
    out.text(genai.REQUEST_MODEL, document.get("model"))
    out.integer(genai.EMBEDDINGS_DIMENSION_COUNT, document.get("dimensions"))
    out.rest(document, {"model", "input", "prompt", "dimensions"})


def read_embed_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the length of the first vector."""
    out.text(genai.RESPONSE_MODEL, document.get("model"))
    vector = next(iter(as_list(document.get("embeddings"))), document.get("embedding"))
    if isinstance(vector, list):
        out.integer(genai.EMBEDDINGS_DIMENSION_COUNT, len(vector))
    _read_usage(document, out)


def compose_embed(answer: Answer, request: JsonObject) -> JsonObject:
    """Return the vectors of embed, or the vector of embeddings, which asks with a prompt."""
    vectors = answer.embeddings()
    return {"embedding": vectors[0]} if "prompt" in request else {"model": answer.model, "embeddings": vectors}


CHAT: Final = WireDialect(
    name="ollama.chat",
    operation=genai.OP_CHAT,
    provider="ollama",
    documents=Documents(read_request, read_response, compose),
    streams=Streams(assemble, ended_by_event("done", True), disassemble, form=Form.LINES, unasked=True),
    transient_fields=frozenset({"keep_alive"}),
    error_body=_error_body,
    set_system=prompts.message,
    settings={"options": _OPTIONS},
)

GENERATE: Final = replace(
    CHAT,
    name="ollama.generate",
    operation=genai.OP_TEXT_COMPLETION,
    set_system=prompts.field("system"),
)


EMBED: Final = WireDialect(
    name="ollama.embed",
    operation=genai.OP_EMBEDDINGS,
    provider="ollama",
    documents=Documents(read_embed_request, read_embed_response, compose_embed),
    transient_fields=frozenset({"keep_alive"}),
    error_body=_error_body,
    set_system=prompts.without,
)
