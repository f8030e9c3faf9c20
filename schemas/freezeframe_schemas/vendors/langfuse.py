"""Langfuse SDK 5 (5.0.4 was recorded): ``langfuse.observation.*``, with input and output as JSON texts.

Both depend on the source (SDK wrapper, callback or ``@observe``): a request or its messages alone, an answer or
its message alone, arguments, plain texts.

Source: https://github.com/langfuse/langfuse-python, langfuse/_client/attributes.py and langfuse/openai.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.vendors.dialect import Dialect, json_of, operation_of, plain, text_or_json
from freezeframe_schemas.wire import anthropic_messages, openai_chat, openai_responses
from freezeframe_schemas.wire.attributes import AttributeWriter, UsageCounts
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list, as_object, as_objects, as_text, dump

PREFIX: Final = "langfuse.observation."
_TYPE: Final = f"{PREFIX}type"
_COUNTS: Final = UsageCounts(
    input=("input", "prompt_tokens", "input_tokens"),
    output=("output", "completion_tokens", "output_tokens"),
    cache_read=(
        "input_cached_tokens",
        "input_cache_read",
        "cache_read_input_tokens",
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
    ),
    cache_write=("input_cache_creation", "cache_creation_input_tokens"),
    reasoning=(
        "output_reasoning_tokens",
        "output_reasoning",
        "completion_tokens_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",
    ),
)
_ITEMS: Final = frozenset({"message", "reasoning", "function_call", "function_call_output"})
"""Of OpenAI's Responses."""
_ANTHROPIC: Final = frozenset({"tool_use", "tool_result"})


def _fits(span: SpanRecord) -> bool:
    return _TYPE in span.attributes


def _derive(span: SpanRecord, out: AttributeWriter) -> None:
    operation = operation_of(span.text(_TYPE))
    given, answer = _value(span, "input"), _value(span, "output")
    out.text(genai.OPERATION_NAME, operation)
    out.text(genai.CONVERSATION_ID, span.text(genai.SESSION_ID))
    match operation:
        case genai.OP_CHAT:
            _model_call(span, given, answer, out)
        case genai.OP_EXECUTE_TOOL:
            # Some integrations put words before the name.
            out.text(genai.TOOL_NAME, span.name.rpartition(" ")[2])
            out.text(genai.TOOL_CALL_ARGUMENTS, _text(given))
            out.text(genai.TOOL_CALL_RESULT, _text(answer))
        case genai.OP_INVOKE_AGENT:
            out.text(genai.AGENT_NAME, span.name)
        case genai.OP_EMBEDDINGS:
            out.text(genai.REQUEST_MODEL, span.text(f"{PREFIX}model.name"))
        case genai.OP_RETRIEVAL:
            out.text(genai.RETRIEVAL_QUERY, _text(_lone(given)))
            out.json(genai.RETRIEVAL_DOCUMENTS, as_list(answer) or None)
        case _:
            pass


def _model_call(span: SpanRecord, given: JsonValue, answer: JsonValue, out: AttributeWriter) -> None:
    request, reason = _request(given), as_text(json_of(span, f"{PREFIX}metadata.finish_reason"))
    openai_chat.read_sampling(as_object(json_of(span, f"{PREFIX}model.parameters")), out)
    items = [answer] if isinstance(answer, dict) else as_objects(answer)
    if any("parts" in as_object(item) for item in as_list(request.get("messages"))):
        out.json(genai.INPUT_MESSAGES, request["messages"])  # in the conventions' form already
        out.json(genai.OUTPUT_MESSAGES, answer if isinstance(answer, list) else None)
    elif _ANTHROPIC & set(_kinds_of_blocks([*as_list(request.get("messages")), *items])):
        anthropic_messages.read_request(request, out)
        anthropic_messages.read_response(
            {**as_object(answer), "stop_reason": as_object(answer).get("stop_reason") or reason}, out
        )
    else:
        whole = as_object(answer)
        (openai_responses if "input" in request else openai_chat).read_request(request, out)
        if "output" in whole or any(item.get("type") in _ITEMS for item in items):
            openai_responses.read_response(whole if "output" in whole else {"output": [*items]}, out)
        else:
            openai_chat.read_response(_completion(answer, items, reason), out)
    out.text(genai.REQUEST_MODEL, span.text(f"{PREFIX}model.name"))
    out.usage(as_object(json_of(span, f"{PREFIX}usage_details")), _COUNTS)
    out.double(genai.USAGE_COST_USD, as_object(json_of(span, f"{PREFIX}cost_details")).get("total"))


def _kinds_of_blocks(messages: list[JsonValue]) -> Iterator[str]:
    for message in messages:
        yield from (str(block.get("type")) for block in as_objects(as_object(message).get("content")))


def _request(given: JsonValue) -> JsonObject:
    """Return the request, also if only its messages are known; a text is a whole message."""
    if isinstance(given, dict) and given.keys() & {"messages", "input"}:
        return given
    if isinstance(given, str):
        return {"messages": [{"role": "user", "content": given}]} if given else {}
    items = [given] if isinstance(given, dict) else as_objects(given)
    if any(item.get("type") in _ITEMS for item in items):
        return {"input": [*items]}
    # The callback for LangChain puts the tools offered among the messages.
    messages = [item for item in items if "role" in item and as_object(item.get("content")).get("type") != "function"]
    return {"messages": [_message(item) for item in messages]} if messages else {}


def _completion(answer: JsonValue, items: list[JsonObject], reason: str | None) -> JsonObject:
    """Return the answer of a chat, also if only its message or its text is known."""
    if "choices" in as_object(answer):
        return as_object(answer)
    if isinstance(answer, str) and answer:
        items = [{"role": "assistant", "content": answer}]
    messages = [_message(item) for item in items if item.keys() & {"content", "tool_calls"}]
    return {"choices": [{"message": message, "finish_reason": reason} for message in messages]}


def _message(item: JsonObject) -> JsonObject:
    """Return a message with the calls that LangChain keeps next to it."""
    calls = as_object(item.get("additional_kwargs")).get("tool_calls")
    return {**item, "tool_calls": calls} if calls and not item.get("tool_calls") else item


def _value(span: SpanRecord, name: str) -> JsonValue:
    return text_or_json(plain(span.attributes.get(f"{PREFIX}{name}")))


def _lone(given: JsonValue) -> JsonValue:
    """Return the only argument of a call that `@observe` saw."""
    call = as_object(given)
    values = [*as_list(call.get("args")), *as_object(call.get("kwargs")).values()]
    return values[0] if call.keys() == {"args", "kwargs"} and len(values) == 1 else given


def _text(value: JsonValue) -> JsonValue:
    return value if isinstance(value, str) or value is None else dump(value)


DIALECT: Final = Dialect(name="langfuse", fits=_fits, derive=_derive)
