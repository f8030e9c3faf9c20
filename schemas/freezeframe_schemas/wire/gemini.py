"""Gemini generateContent, on the Gemini API and on Vertex, and the embeddings of both.

The model and whether it streams are in the URL. Protobuf's JSON accepts field names in camelCase and snake_case; so do we.

Source: https://ai.google.dev/api/generate-content and https://ai.google.dev/api/embeddings
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.wire import messages as msg
from freezeframe_schemas.wire import prompts
from freezeframe_schemas.wire.answer import Answer
from freezeframe_schemas.wire.attributes import AttributeWriter, Fields, UsageCounts
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
)
from freezeframe_schemas.wire.frames import Form
from freezeframe_schemas.wire.gemini_stream import assemble, camel, disassemble, has_ended

_REQUEST_FIELDS: Final = frozenset({"contents", "systemInstruction", "tools", "model"})
_CONFIGURED: Final[Fields] = {
    "temperature": (AttributeWriter.double, genai.REQUEST_TEMPERATURE),
    "topP": (AttributeWriter.double, genai.REQUEST_TOP_P),
    "topK": (AttributeWriter.double, genai.REQUEST_TOP_K),
    "maxOutputTokens": (AttributeWriter.integer, genai.REQUEST_MAX_TOKENS),
    "stopSequences": (AttributeWriter.texts, genai.REQUEST_STOP_SEQUENCES),
    "candidateCount": (AttributeWriter.integer, genai.REQUEST_CHOICE_COUNT),
    "seed": (AttributeWriter.integer, genai.REQUEST_SEED),
    "presencePenalty": (AttributeWriter.double, genai.REQUEST_PRESENCE_PENALTY),
    "frequencyPenalty": (AttributeWriter.double, genai.REQUEST_FREQUENCY_PENALTY),
}
_ANSWER_FIELDS: Final = frozenset({"candidates", "usageMetadata", "modelVersion", "responseId", "createTime", "error"})
_CANDIDATE_FIELDS: Final = frozenset({"index", "content", "finishReason", "logprobsResult"})
_NUMBERED_REASONS: Final = ("", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER")
_ROLES: Final = {"model": "assistant", "function": "tool"}


# -- request ------------------------------------------------------------------------------------------------------------
def read_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a generateContent request."""
    document = camel(document)
    configuration = camel(as_object(document.get("generationConfig")))
    out.fields(configuration, _CONFIGURED)
    thinking = camel(as_object(configuration.get("thinkingConfig")))
    out.text(genai.REQUEST_REASONING_LEVEL, thinking.get("thinkingLevel"))
    mime = as_text(configuration.get("responseMimeType"))
    if mime is not None:
        out.text(genai.OUTPUT_TYPE, {"application/json": "json", "text/plain": "text"}.get(mime, mime))
    system = document.get("systemInstruction")
    out.parts(genai.SYSTEM_INSTRUCTIONS, _parts(system) if isinstance(system, dict) else msg.texts(system))
    out.messages(genai.INPUT_MESSAGES, _contents(document.get("contents")))
    out.tools(document.get("tools"), _tools(document.get("tools")))
    rest = {key: value for key, value in configuration.items() if key not in _CONFIGURED}
    out.rest({**document, "generationConfig": rest or None}, _REQUEST_FIELDS)


def _tools(tools: JsonValue) -> list[JsonValue]:
    """Return one definition per function, and one per server tool (``{"googleSearch": {}}``)."""
    definitions: list[JsonValue] = []
    for tool in as_objects(tools):
        for key, value in camel(tool).items():
            if key == "functionDeclarations":
                definitions.extend({"type": "function", "name": "", **declaration} for declaration in as_objects(value))
            else:
                definitions.append({"type": key, "name": key, "configuration": value})
    return definitions


# -- messages -----------------------------------------------------------------------------------------------------------
def _contents(contents: JsonValue) -> list[msg.Message]:
    items = as_list(contents) if isinstance(contents, list) else [contents]
    return [read_content(item) for item in items if isinstance(item, dict)]


def read_content(content: JsonObject, finish_reason: str | None = None) -> msg.Message:
    """Return one content; Gemini's ``model`` is the conventions' ``assistant``."""
    role = as_text(content.get("role")) or ("assistant" if finish_reason else "user")
    parts = _parts(content)
    reason = msg.finish_reason_with(parts, finish_reason)
    return msg.Message(role=_ROLES.get(role, role), parts=tuple(parts), finish_reason=reason)


def _parts(content: JsonObject) -> list[msg.Part]:
    parts = content.get("parts")
    items = as_list(parts) if isinstance(parts, list) else [parts]
    return [read_part(camel(item)) for item in items if isinstance(item, dict)]


def read_part(part: JsonObject) -> msg.Part:
    """Return one part: an object whose main key is its type."""

    def extra(*taken: str) -> JsonObject:
        return {key: value for key, value in part.items() if key not in taken} if len(part) > 1 else {}

    match part:
        case {"text": str(text), "thought": True}:
            return msg.ReasoningPart(content=text, extra=extra("text", "thought"))
        case {"text": str(text)}:
            return msg.TextPart(content=text, extra=extra("text", "thought"))
        case {"functionCall": {"name": str(name)} as call}:
            rest = {key: value for key, value in call.items() if key not in ("id", "name", "args")}
            return msg.ToolCallPart(
                id=as_text(call.get("id")), name=name, arguments=call.get("args"), extra={**rest, **extra("functionCall")}
            )
        case {"functionResponse": dict(answer)}:
            named: JsonObject = {"name": answer["name"]} if "name" in answer else {}
            return msg.ToolCallResponsePart(
                id=as_text(answer.get("id")),
                response=answer.get("response"),
                extra={**named, **extra("functionResponse")},
            )
        case {"inlineData": dict(data)}:
            data = camel(data)
            mime = as_text(data.get("mimeType"))
            content = as_text(data.get("data")) or ""
            return msg.BlobPart(modality=msg.modality_of(mime), mime_type=mime, content=content, extra=extra("inlineData"))
        case {"fileData": dict(data)}:
            data = camel(data)
            mime = as_text(data.get("mimeType"))
            uri = as_text(data.get("fileUri")) or ""
            return msg.UriPart(modality=msg.modality_of(mime), mime_type=mime, uri=uri, extra=extra("fileData"))
        case {"executableCode": dict(code)}:
            return msg.ServerToolCallPart(
                id=as_text(code.get("id")),
                name="code_execution",
                server_tool_call={"type": "executableCode", **code},
                extra=extra("executableCode"),
            )
        case {"codeExecutionResult": dict(result)}:
            return msg.ServerToolCallResponsePart(
                id=as_text(result.get("id")),
                server_tool_call_response={"type": "codeExecutionResult", **result},
                extra=extra("codeExecutionResult"),
            )
        case _:
            kind = next(iter(part), "part")
            return msg.GenericPart(type=kind, extra={"content": part.get(kind), **extra(kind, "type")})


# -- response -----------------------------------------------------------------------------------------------------------
def read_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a generateContent answer; a blocked prompt has no candidate, only the reason."""
    document = camel(document)
    out.text(genai.RESPONSE_ID, document.get("responseId"))
    out.text(genai.RESPONSE_MODEL, document.get("modelVersion"))
    candidates = [camel(candidate) for candidate in as_objects(document.get("candidates"))]
    reasons = [_reason(candidate.get("finishReason")) for candidate in candidates]
    blocked = as_text(camel(as_object(document.get("promptFeedback"))).get("blockReason"))
    out.texts(genai.RESPONSE_FINISH_REASONS, [reason for reason in (*reasons, blocked) if reason])
    out.usage(camel(as_object(document.get("usageMetadata"))), COUNTS)
    out.messages(genai.OUTPUT_MESSAGES, [_answer(*pair) for pair in zip(candidates, reasons, strict=True)])
    out.rest(document, _ANSWER_FIELDS, genai.RESPONSE_DETAILS)


def _answer(candidate: JsonObject, reason: str | None) -> msg.Message:
    """Return the message of a candidate; what is next to its content (grounding, citations, safety) is kept."""
    message = read_content({"role": "model", **as_object(candidate.get("content"))}, reason)
    return replace(message, extra={key: value for key, value in candidate.items() if key not in _CANDIDATE_FIELDS})


def _reason(value: JsonValue) -> str | None:
    """Return the finish reason by name; a client over gRPC or protobuf may write the enum's number."""
    number = as_integer(value)
    if number is not None:
        return _NUMBERED_REASONS[number] if 0 < number < len(_NUMBERED_REASONS) else str(number)
    return as_text(value)


COUNTS: Final = UsageCounts(
    input=("promptTokenCount",),
    output=("candidatesTokenCount",),
    cache_read=("cachedContentTokenCount",),
    reasoning=("thoughtsTokenCount",),
    tools=("toolUsePromptTokenCount",),
    input_adds=("tools",),
    output_adds=("reasoning",),
)
_SIGNATURE: Final = "thoughtSignature"
_FINISH_REASONS: Final = {"stop": "STOP", "tool_call": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}


def compose(answer: Answer, request: JsonObject) -> JsonObject:
    """Return a generateContent answer."""
    del request
    parts: list[JsonValue] = [
        {"text": thought.text, "thought": True, **thought.only(_SIGNATURE)} for thought in answer.thoughts
    ]
    parts.extend([make_object(text=answer.text)] if answer.pieces else [])
    for call in answer.tool_calls:
        signed: JsonObject = {_SIGNATURE: call.extra[_SIGNATURE]} if _SIGNATURE in call.extra else {}
        parts.append(make_object(signed, functionCall=make_object(id=call.id, name=call.name, args=dict(call.arguments))))
    candidate: JsonObject = {
        "content": {"role": "model", "parts": parts},
        "finishReason": answer.finish(_FINISH_REASONS),
        "index": 0,
    }
    into, out = answer.input_tokens, answer.output_tokens
    usage: JsonObject = {"promptTokenCount": into, "candidatesTokenCount": out, "totalTokenCount": into + out}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": answer.model, "responseId": answer.id}


_STATUSES: Final = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}


def _error_body(status: int, message: str) -> JsonObject:
    return {"error": {"code": status, "message": message, "status": _STATUSES.get(status, "UNAVAILABLE")}}


# -- embeddings ---------------------------------------------------------------------------------------------------------
def read_embeddings_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of embedContent, batchEmbedContents, or Vertex's predict on an embedding model."""
    document = camel(document)
    first = next((camel(item) for item in as_objects(document.get("requests"))), document)
    settings = camel(as_object(document.get("parameters")))
    size = first.get("outputDimensionality")
    out.integer(genai.EMBEDDINGS_DIMENSION_COUNT, settings.get("outputDimensionality") if size is None else size)


def read_embeddings_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the length of the first vector, and the tokens that Vertex counts."""
    rows = as_objects(document.get("embeddings")) or [as_object(document.get("embedding"))]
    predictions = [as_object(row.get("embeddings")) for row in as_objects(document.get("predictions"))]
    first = next((row["values"] for row in (*rows, *predictions) if isinstance(row.get("values"), list)), None)
    if isinstance(first, list):
        out.integer(genai.EMBEDDINGS_DIMENSION_COUNT, len(first))
    counts = [as_object(row.get("statistics")).get("token_count") for row in predictions]
    if counts and all(isinstance(count, int | float) for count in counts):
        out.integer(genai.USAGE_INPUT_TOKENS, sum(count for count in counts if isinstance(count, int | float)))
    out.usage(camel(as_object(document.get("usageMetadata"))), COUNTS)


def compose_embeddings(answer: Answer, request: JsonObject) -> JsonObject:
    """Return the vectors as embedContent, batchEmbedContents or Vertex's predict does."""
    rows: list[JsonObject] = [{"values": vector} for vector in answer.embeddings()]
    if "instances" in request:
        return {"predictions": [{"embeddings": {**row, "statistics": {"token_count": 0}}} for row in rows]}
    return {"embeddings": [*rows]} if "requests" in request else {"embedding": rows[0]}


DIALECT: Final = WireDialect(
    name="gemini.generate_content",
    operation=genai.OP_GENERATE_CONTENT,
    provider="gcp.gemini",
    documents=Documents(read_request, read_response, compose),
    streams=Streams(assemble, has_ended, disassemble, form=Form.ARRAY, asks_for_events="alt=sse"),
    transient_fields=frozenset({"labels"}),
    error_body=_error_body,
    set_system=prompts.field("systemInstruction", lambda text: {"parts": [{"text": text}]}),
    settings={"generationConfig": _CONFIGURED},
)

EMBEDDINGS: Final = WireDialect(
    name="gemini.embeddings",
    operation=genai.OP_EMBEDDINGS,
    provider="gcp.gemini",
    documents=Documents(read_embeddings_request, read_embeddings_response, compose_embeddings),
    error_body=_error_body,
    set_system=prompts.without,
)
