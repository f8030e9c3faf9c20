"""LangSmith's OTel export: the run's inputs and outputs as JSON texts, ``langsmith.span.kind``, ``langsmith.metadata.*``.

The texts are those of the traced function: an OpenAI request and answer if the client is wrapped, LangChain's own messages
(plain or serialised as ``{"lc": 1, "kwargs": ...}``) if LangChain is traced.

Source: langsmith-sdk, python/langsmith/_internal/otel
"""

from __future__ import annotations

from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.vendors.dialect import Dialect, json_of, operation_of
from freezeframe_schemas.vendors.genai_history import provider_of
from freezeframe_schemas.wire import openai_chat, openai_responses
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list, as_object, as_objects, as_text, dump
from freezeframe_schemas.wire.messages import Message
from freezeframe_schemas.wire.openai_content import read_message

_KIND: Final = "langsmith.span.kind"
_ROLES: Final = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}
_SERIALISED_ROLES: Final = {"HumanMessage": "human", "AIMessage": "ai", "SystemMessage": "system", "ToolMessage": "tool"}


def _fits(span: SpanRecord) -> bool:
    return _KIND in span.attributes


def _derive(span: SpanRecord, out: AttributeWriter) -> None:
    kind = span.text(_KIND) or ""
    inputs = json_of(span, genai.PAST_PROMPT)
    outputs = as_object(json_of(span, genai.PAST_COMPLETION))
    out.text(genai.OPERATION_NAME, operation_of(kind))
    out.text(genai.PROVIDER_NAME, provider_of(span.text("langsmith.metadata.ls_provider")))
    out.text(genai.REQUEST_MODEL, span.text("langsmith.metadata.ls_model_name"))
    out.text(genai.CONVERSATION_ID, span.text("langsmith.metadata.session_id") or span.text("langsmith.metadata.thread_id"))
    # The SDK for JavaScript puts it into the answer.
    _usage(as_object(json_of(span, "langsmith.metadata.usage_metadata") or outputs.get("usage_metadata")), out)
    if kind == "llm":
        _model_call(as_object(inputs), outputs, out)
    elif kind == "tool":
        out.text(genai.TOOL_NAME, span.name)
        out.text(genai.TOOL_CALL_ARGUMENTS, span.text(genai.PAST_PROMPT))
        out.text(genai.TOOL_CALL_RESULT, _result(outputs.get("output")) or span.text(genai.PAST_COMPLETION))
    else:
        # A chain or graph: its input and its final state.
        out.messages(genai.INPUT_MESSAGES, _conversation(as_object(inputs).get("messages")))


def _model_call(inputs: JsonObject, outputs: JsonObject, out: AttributeWriter) -> None:
    if outputs.get("object") == "response" or "input" in inputs:
        openai_responses.read_request(inputs, out)
        openai_responses.read_response(outputs, out)
        return
    if "choices" in outputs:
        openai_chat.read_request(inputs, out)
        openai_chat.read_response(outputs, out)
        return
    out.messages(genai.INPUT_MESSAGES, _conversation(inputs.get("messages")))
    generations = as_list(outputs.get("generations"))
    first = as_objects(generations[0]) if generations else []
    messages = [message for item in first if (message := _generation(item)).parts]  # none, if the call failed
    out.messages(genai.OUTPUT_MESSAGES, messages)
    reasons: list[JsonValue] = [as_object(item.get("generation_info")).get("finish_reason") for item in first]
    out.texts(genai.RESPONSE_FINISH_REASONS, reasons)
    answer = as_object(outputs.get("llm_output"))
    out.text(genai.RESPONSE_ID, answer.get("id"))
    out.text(genai.RESPONSE_MODEL, answer.get("model_name"))
    out.text(genai.OPENAI_SYSTEM_FINGERPRINT, answer.get("system_fingerprint"))


def _generation(item: JsonObject) -> Message:
    reason = as_text(as_object(item.get("generation_info")).get("finish_reason"))
    return _message(item.get("message"), reason) or read_message({"role": "assistant", "content": item.get("text")}, reason)


def _conversation(value: JsonValue) -> list[Message]:
    items = as_list(value)
    if len(items) == 1 and isinstance(items[0], list) and not isinstance(next(iter(items[0]), None), str):
        items = items[0]  # LangChain batches: one conversation in a list of them
    return [message for item in items if (message := _message(item)) is not None]


def _message(item: JsonValue, finish_reason: str | None = None) -> Message | None:
    if isinstance(item, list) and len(item) == 2:
        return read_message({"role": item[0], "content": item[1]}, finish_reason)  # ("user", "text")
    if not isinstance(item, dict):
        return None
    if "lc" in item:
        names = as_list(item.get("id"))
        name = names[-1] if names else None
        kwargs = as_object(item.get("kwargs"))
        return _message({"type": _SERIALISED_ROLES.get(name, "ai") if isinstance(name, str) else "ai", **kwargs}, finish_reason)
    kind = as_text(item.get("type"))
    if kind not in _ROLES:
        return read_message(item, finish_reason) if "role" in item else None
    message: JsonObject = {"role": _ROLES[kind], "content": item.get("content")}
    for key in ("name", "tool_call_id"):
        if isinstance(item.get(key), str):
            message[key] = item[key]
    calls: list[JsonValue] = [
        {"type": "function", "id": call.get("id"), "function": {"name": call.get("name"), "arguments": call.get("args")}}
        for call in as_objects(item.get("tool_calls"))
    ]
    if calls:
        message["tool_calls"] = calls
    return read_message(message, finish_reason)


def _usage(usage: JsonObject, out: AttributeWriter) -> None:
    out.integer(genai.USAGE_INPUT_TOKENS, usage.get("input_tokens"))
    out.integer(genai.USAGE_OUTPUT_TOKENS, usage.get("output_tokens"))
    out.integer(genai.USAGE_CACHE_READ_TOKENS, as_object(usage.get("input_token_details")).get("cache_read"))
    out.integer(genai.USAGE_REASONING_TOKENS, as_object(usage.get("output_token_details")).get("reasoning"))


def _result(output: JsonValue) -> str | None:
    if isinstance(output, dict) and output.get("type") == "tool":
        content = output.get("content")
        return content if isinstance(content, str) else dump(content)
    return output if isinstance(output, str) else None


DIALECT: Final = Dialect(name="langsmith", fits=_fits, derive=_derive)
