"""The GenAI conventions' own past: 1.28 to 1.36 message events, ``gen_ai.prompt.N`` attributes, renamed attributes.

Every span goes through here after its vendor's dialect, because most vendors kept some names of the past. Indexed prompts are
OpenLLMetry's up to 0.40, which the conventions never had but everyone stored.

Source: semantic-conventions, docs/gen-ai of 1.28 (events) and the ``gen_ai`` deprecations of the registry.
"""

from __future__ import annotations

from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import Attributes, SpanRecord
from freezeframe_schemas.vendors.dialect import Dialect, in_order, indexed, plain, text_or_json
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_text, parse
from freezeframe_schemas.wire.messages import Message
from freezeframe_schemas.wire.openai_content import read_message
from freezeframe_schemas.wire.registry import PROVIDERS

_RENAMED_INTEGERS: Final = (
    (genai.PAST_PROMPT_TOKENS, genai.USAGE_INPUT_TOKENS),
    (genai.PAST_COMPLETION_TOKENS, genai.USAGE_OUTPUT_TOKENS),
    (genai.PAST_CACHE_READ_TOKENS, genai.USAGE_CACHE_READ_TOKENS),
    (genai.PAST_CACHED_TOKENS_DETAIL, genai.USAGE_CACHE_READ_TOKENS),
    (genai.PAST_CACHE_CREATION_TOKENS, genai.USAGE_CACHE_WRITE_TOKENS),
    (genai.PAST_CACHE_CREATION_TOKENS_DOTTED, genai.USAGE_CACHE_WRITE_TOKENS),
    (genai.PAST_REASONING_TOKENS, genai.USAGE_REASONING_TOKENS),
    (genai.PAST_REASONING_TOKENS_DETAIL, genai.USAGE_REASONING_TOKENS),
    (genai.PAST_SEED, genai.REQUEST_SEED),
)
_RENAMED_TEXTS: Final = (
    (genai.PAST_SERVICE_TIER_REQUEST, genai.OPENAI_SERVICE_TIER_REQUEST),
    (genai.PAST_SERVICE_TIER_RESPONSE, genai.OPENAI_SERVICE_TIER_RESPONSE),
    (genai.PAST_SYSTEM_FINGERPRINT, genai.OPENAI_SYSTEM_FINGERPRINT),
    (genai.PAST_SYSTEM_FINGERPRINT_OPENLLMETRY, genai.OPENAI_SYSTEM_FINGERPRINT),
    (genai.PAST_SYSTEM_FINGERPRINT_LANGSMITH, genai.OPENAI_SYSTEM_FINGERPRINT),
)
_STOP_REASON: Final = "anthropic.message.stop_reason"
"""Used by spans of the anthropic SDK itself, in place of the conventions' finish reasons."""
_COSTS: Final = ("operation.cost", genai.LITELLM_COST)
"""In US dollars, as Logfire and Pydantic AI write it, and LiteLLM."""
_PROVIDERS: Final = {alias: row.name for row in PROVIDERS for alias in (row.name, *row.aliases)}
_ROLES: Final = {name: name.split(".")[1] for name in genai.PAST_MESSAGE_EVENTS}


def provider_of(name: str | None) -> str | None:
    """Return the conventions' name of a provider as vendors write it (``OpenAI``, ``openai.chat``, ``vertex_ai``)."""
    if not name:
        return None
    lower = name.lower()
    return _PROVIDERS.get(lower) or (lower.partition(".")[0] if lower.startswith(("openai.", "anthropic.")) else lower)


_NAMES: Final = frozenset(
    {past for past, _ in _RENAMED_INTEGERS + _RENAMED_TEXTS}
    | {genai.PAST_SYSTEM, genai.PAST_STREAMING, genai.EVENT_NAME, _STOP_REASON, *_COSTS}
)
_INDEXED: Final = (f"{genai.PAST_PROMPT}.", f"{genai.PAST_COMPLETION}.")


def _fits(span: SpanRecord) -> bool:
    # Every span passes here, and most of today's have no old names: they cost one look at all names.
    if not _NAMES.isdisjoint(span.attributes):
        return True
    if span.events and any(event.name.startswith(genai.EVENT_PREFIX) for event in span.events):
        return True
    names = " ".join(span.attributes)
    return (_INDEXED[0] in names or _INDEXED[1] in names) and any(name.startswith(_INDEXED) for name in span.attributes)


def _derive(span: SpanRecord, out: AttributeWriter) -> None:
    attributes = span.attributes
    out.text(genai.PROVIDER_NAME, provider_of(span.text(genai.PAST_SYSTEM)))
    for past, name in _RENAMED_INTEGERS:
        out.integer(name, span.integer(past))
    for past, name in _RENAMED_TEXTS:
        out.text(name, span.text(past))
    out.texts(genai.RESPONSE_FINISH_REASONS, span.text(_STOP_REASON))
    for name in _COSTS:
        out.double(genai.USAGE_COST_USD, plain(attributes.get(name)))
    streaming = attributes.get(genai.PAST_STREAMING)
    out.flag(genai.REQUEST_STREAM, streaming if isinstance(streaming, bool) else None)
    prompts = indexed(attributes, genai.PAST_PROMPT)
    completions = indexed(attributes, genai.PAST_COMPLETION)
    if prompts or completions:
        out.text(genai.OPERATION_NAME, genai.OP_CHAT)
    out.messages(genai.INPUT_MESSAGES, [_indexed_message(item) for item in prompts])
    out.messages(genai.OUTPUT_MESSAGES, [_indexed_message(item) for item in completions])
    out.texts(genai.RESPONSE_FINISH_REASONS, [item.get("finish_reason") for item in completions])
    _events(span, out)


def _indexed_message(item: JsonObject) -> Message:
    message: JsonObject = {key: item[key] for key in ("role", "name", "tool_call_id") if key in item}
    # Content of several parts was written as its JSON text.
    content = item.get("content")
    inner = text_or_json(content)
    message["content"] = inner if isinstance(inner, list) else content
    calls: list[JsonValue] = [
        {"type": "function", "id": call.get("id"), "function": {"name": call.get("name"), "arguments": call.get("arguments")}}
        for call in in_order(item.get("tool_calls"))
    ]
    if calls:
        message["tool_calls"] = calls
    return read_message(message, as_text(item.get("finish_reason")))


def _events(span: SpanRecord, out: AttributeWriter) -> None:
    """Read message events: the span's own, or the log record that the span was made from."""
    events: list[tuple[str, JsonObject]] = []
    if name := span.text(genai.EVENT_NAME):
        body = span.text(genai.EVENT_BODY)
        events.append((name, as_object(parse(body)) if body else {}))
    events.extend((event.name, _event_body(event.attributes)) for event in span.events)
    inputs = [read_message({"role": _ROLES[name], **_message_of(name, body)}) for name, body in events if name in _ROLES]
    outputs = [_choice(body) for name, body in events if name == genai.PAST_CHOICE_EVENT]
    for name, body in events:
        # The form of 1.27: all messages as one JSON text.
        if name == genai.PAST_CONTENT_PROMPT_EVENT:
            inputs.extend(_messages_of(body.get(genai.PAST_PROMPT)))
        elif name == genai.PAST_CONTENT_COMPLETION_EVENT:
            outputs.extend(_messages_of(body.get(genai.PAST_COMPLETION)))
    out.messages(genai.INPUT_MESSAGES, inputs)
    out.messages(genai.OUTPUT_MESSAGES, outputs)


def _event_body(attributes: Attributes) -> JsonObject:
    return {name: text_or_json(plain(value)) for name, value in attributes.items()}


def _message_of(name: str, body: JsonObject) -> JsonObject:
    message: JsonObject = {key: body[key] for key in ("role", "content", "name", "tool_calls") if body.get(key) is not None}
    call = body.get("id", body.get("tool_call_id"))  # Semantic Kernel writes the second
    if _ROLES[name] == "tool" and isinstance(call, str):
        message["tool_call_id"] = call
    return message


def _choice(body: JsonObject) -> Message:
    message = body.get("message")
    # The message is an object, or its content alone if the instrumentation wrote only that.
    found = message if isinstance(message, dict) else {"content": message}
    return read_message({"role": "assistant", **found}, as_text(body.get("finish_reason")))


def _messages_of(value: JsonValue) -> list[Message]:
    found = text_or_json(value)
    items = found if isinstance(found, list) else [found]
    return [read_message(item) for item in items if isinstance(item, dict)]


DIALECT: Final = Dialect(name="genai_history", fits=_fits, derive=_derive)
