"""OpenInference (Arize), versions 0.1.30 to now: ``llm.input_messages.N.message.*``, ``llm.token_count.*``, span kinds.

Source: https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord, StatusCode
from freezeframe_schemas.vendors.dialect import Dialect, in_order, indexed, json_of, operation_of, plain
from freezeframe_schemas.vendors.genai_history import provider_of
from freezeframe_schemas.vendors.haystack import read_texts
from freezeframe_schemas.wire import openai_chat, openai_responses
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list, as_object, as_text, parse
from freezeframe_schemas.wire.messages import GenericPart, Message, TextPart, ToolCallResponsePart
from freezeframe_schemas.wire.openai_chat import read_sampling
from freezeframe_schemas.wire.openai_content import read_message, read_tool

_KIND: Final = "openinference.span.kind"
_LLAMA_INDEX: Final = "openinference.instrumentation.llama_index"
_SMOLAGENTS: Final = "openinference.instrumentation.smolagents"
_ROLES: Final = {"tool-call": "assistant", "tool-response": "user"}
"""Roles of smolagents -> those that it sends."""
_TOKENS: Final = {
    "llm.token_count.prompt": genai.USAGE_INPUT_TOKENS,
    "llm.token_count.completion": genai.USAGE_OUTPUT_TOKENS,
    "llm.token_count.prompt_details.cache_read": genai.USAGE_CACHE_READ_TOKENS,
    "llm.token_count.prompt_details.cache_write": genai.USAGE_CACHE_WRITE_TOKENS,
    "llm.token_count.completion_details.reasoning": genai.USAGE_REASONING_TOKENS,
}

_ANSWERS: Final = {"response": openai_responses.DIALECT, "chat.completion": openai_chat.DIALECT}
"""Readers of an answer that is kept whole, by the name that it gives itself."""


def _fits(span: SpanRecord) -> bool:
    return _KIND in span.attributes


def _derive(span: SpanRecord, out: AttributeWriter) -> None:
    kind = (span.text(_KIND) or "").upper()
    # Of LlamaIndex, private methods are marked, too: the preparation of a request, and the inner half of a retrieval.
    is_inner = span.scope.name == _LLAMA_INDEX and kind in ("LLM", "RETRIEVER") and "._" in span.name
    if not is_inner:
        out.text(genai.OPERATION_NAME, operation_of(kind))
    out.text(genai.PROVIDER_NAME, provider_of(span.text("llm.provider") or span.text("llm.system")))
    out.text(genai.CONVERSATION_ID, span.text("session.id"))
    out.double(genai.USAGE_COST_USD, plain(span.attributes.get("llm.cost.total")))
    for name, conventional in _TOKENS.items():
        out.integer(conventional, span.integer(name))
    match kind:
        case "LLM":
            _model_call(span, out)
        case "TOOL":
            out.text(genai.TOOL_NAME, span.text("tool.name"))
            out.text(genai.TOOL_DESCRIPTION, span.text("tool.description"))
            out.text(genai.TOOL_CALL_ID, span.text("tool.id"))
            out.text(genai.TOOL_CALL_ARGUMENTS, span.text("input.value"))
            out.text(genai.TOOL_CALL_RESULT, span.text("output.value"))
        case "AGENT":
            out.text(genai.AGENT_NAME, span.text("agent.name") or span.text("graph.node.id"))
        case "RETRIEVER":
            out.text(genai.RETRIEVAL_QUERY, span.text("input.value"))
            documents: list[JsonValue] = [_document(item) for item in indexed(span.attributes, "retrieval.documents")]
            out.json(genai.RETRIEVAL_DOCUMENTS, documents or None)
        case "EMBEDDING":
            out.text(genai.REQUEST_MODEL, span.text("embedding.model_name"))
        case _:
            return


def _model_call(span: SpanRecord, out: AttributeWriter) -> None:
    parameters = as_object(json_of(span, "llm.invocation_parameters"))
    read_sampling(parameters, out)
    out.text(genai.REQUEST_PREVIOUS_RESPONSE_ID, parameters.get("previous_response_id"))
    answer = as_object(json_of(span, "output.value"))
    # The instrumentation names the model that answered; the one that was asked for is in the parameters, if anywhere. If no
    # model answered, it names the one that was asked for.
    failed = span.status_code is StatusCode.ERROR
    if not failed:
        out.text(genai.RESPONSE_MODEL, span.text("llm.model_name"))
    if as_text(parameters.get("model")) is None and (failed or "object" not in answer):
        out.text(genai.REQUEST_MODEL, span.text("llm.model_name"))
    out.text(genai.RESPONSE_ID, answer.get("id"))
    out.text(genai.OPENAI_SYSTEM_FINGERPRINT, answer.get("system_fingerprint"))
    reason = span.text("llm.finish_reason")
    out.texts(genai.RESPONSE_FINISH_REASONS, reason)
    dialect = _ANSWERS.get(as_text(answer.get("object")) or "")
    if reason is None and dialect is not None:
        # Missing for OpenAI's Responses and in earlier versions; the answer itself has it.
        writer = AttributeWriter()
        dialect.documents.read_response(answer, writer)
        reasons = writer.attributes.get(genai.RESPONSE_FINISH_REASONS)
        out.texts(genai.RESPONSE_FINISH_REASONS, [str(reason) for reason in reasons] if isinstance(reasons, tuple) else None)
    history = read_texts(as_object(json_of(span, "input.value")).get("messages"))
    replies = read_texts(answer.get("replies"))
    out.texts(genai.RESPONSE_FINISH_REASONS, [word for _, word in replies if word])
    messages = [read_message(message) for message, _ in history]
    messages = messages or [_message(item) for item in indexed(span.attributes, "llm.input_messages")]
    out.messages(genai.INPUT_MESSAGES, _as_sent(messages) if span.scope.name == _SMOLAGENTS else messages)
    out.messages(
        genai.OUTPUT_MESSAGES,
        [read_message(message, word) for message, word in replies]
        or [_message(item, reason) for item in indexed(span.attributes, "llm.output_messages")],
    )
    definitions = [_definition(item) for item in indexed(span.attributes, "llm.tools")]
    out.tools(definitions, definitions)


def _message(item: JsonObject, finish_reason: str | None = None) -> Message:
    """Return the message of ``{"message": {"role", "content", "contents": {"0": ...}, "tool_calls": {"0": ...}}}``."""
    found = as_object(item.get("message"))
    message: JsonObject = {key: found[key] for key in ("role", "content", "name", "tool_call_id") if key in found}
    contents: list[JsonValue] = [_content(as_object(part.get("message_content"))) for part in in_order(found.get("contents"))]
    if contents and "content" not in found:
        message["content"] = contents
    calls: list[JsonValue] = [_tool_call(as_object(call.get("tool_call"))) for call in in_order(found.get("tool_calls"))]
    if calls:
        message["tool_calls"] = calls
    made = read_message(message, finish_reason)
    if made.role == "tool" and "content" not in message:  # Haystack's result is lost: not the same as an empty one
        lost = GenericPart(type=ToolCallResponsePart.type, extra={"id": message.get("tool_call_id")})
        return replace(made, parts=(lost,))
    return made


def _as_sent(messages: list[Message]) -> list[Message]:
    """Return messages as smolagents sends them: with roles of the API, and adjacent texts of one role joined by a line's end.

    Source: smolagents/models.py, ``get_clean_message_list``
    """
    sent: list[Message] = []
    for found in messages:
        message = replace(found, role=_ROLES.get(found.role, found.role))
        match (sent[-1].role, sent[-1].parts, message.parts) if sent else None:
            case (message.role, (*before, TextPart(content=text)), (TextPart(content=more), *rest)):
                sent[-1] = replace(sent[-1], parts=(*before, TextPart(content=f"{text}\n{more}"), *rest))
            case _:
                sent.append(message)
    return sent


def _content(part: JsonObject) -> JsonValue:
    """Return a part as a block of OpenAI's: a medium in its data URL, or at the place where the sender put it."""
    kind = next((kind for kind in _MEDIA if kind in part), "")
    medium = as_object(as_object(part.get(kind)).get(kind))
    if "url" not in medium:
        return part
    return {"type": f"{kind}_url", f"{kind}_url": {key: value for key, value in medium.items() if key in ("url", "mime_type")}}


_MEDIA: Final = ("image", "document", "audio", "video")


def _tool_call(call: JsonObject) -> JsonValue:
    return {"type": "function", "id": call.get("id"), "function": call.get("function")}


def _definition(item: JsonObject) -> JsonValue:
    schema = as_object(item.get("tool")).get("json_schema")
    found = parse(schema) if isinstance(schema, str) else schema
    return read_tool(found) if isinstance(found, dict) else found


def embedded(span: SpanRecord) -> list[tuple[JsonValue, list[JsonValue]]]:
    """Return the embedded texts or lists of token ids of a span, each with its vector; nothing unless all have both."""
    items = [as_object(item.get("embedding")) for item in indexed(span.attributes, "embedding.embeddings")]
    inputs: list[JsonValue] = [as_text(item.get("text")) for item in items]
    if not any(inputs):  # token ids are only in the request
        inputs = embedding_inputs(as_object(parse(span.text("input.value") or "")).get("input"))
    rows = [(text, as_list(item.get("vector"))) for text, item in zip(inputs, items, strict=False)]
    found: list[tuple[JsonValue, list[JsonValue]]] = [(text, vector) for text, vector in rows if text is not None and vector]
    return found if len(found) == len(items) else []


def embedding_inputs(given: JsonValue) -> list[JsonValue]:
    """Return the inputs of an embedding request one by one; a lone text, or its token ids, is one input."""
    is_lone = not isinstance(given, list) or (bool(given) and all(isinstance(item, int) for item in given))
    return [given] if is_lone else as_list(given)


def _document(item: JsonObject) -> JsonValue:
    return as_object(item.get("document"))


DIALECT: Final = Dialect(name="openinference", fits=_fits, derive=_derive)
