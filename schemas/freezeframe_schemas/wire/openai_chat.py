"""OpenAI chat completions, and the many providers that use its format with their own additions.

Covered additions: Mistral's ``random_seed``, Groq's ``x_groq``, cache counts of OpenRouter and DeepSeek, legacy ``functions``;
those in messages are in `openai_content`, those in streams in `openai_stream`.

Source: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.wire import prompts
from freezeframe_schemas.wire.answer import Answer
from freezeframe_schemas.wire.attributes import SAMPLING, AttributeWriter, Fields, UsageCounts
from freezeframe_schemas.wire.dialect import Documents, Streams, WireDialect
from freezeframe_schemas.wire.document import JsonObject, as_list, as_object, as_objects, as_text
from freezeframe_schemas.wire.frames import METRICS
from freezeframe_schemas.wire.messages import Message
from freezeframe_schemas.wire.openai_content import read_message, read_tool, write_call
from freezeframe_schemas.wire.openai_stream import assemble, disassemble, has_ended

TRANSIENT_FIELDS: Final = frozenset({"user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"})

SAMPLED: Final[Fields] = {
    **SAMPLING,
    "seed": (AttributeWriter.integer, genai.REQUEST_SEED),
    "top_k": (AttributeWriter.double, genai.REQUEST_TOP_K),
    "n": (AttributeWriter.integer, genai.REQUEST_CHOICE_COUNT),
    "frequency_penalty": (AttributeWriter.double, genai.REQUEST_FREQUENCY_PENALTY),
    "presence_penalty": (AttributeWriter.double, genai.REQUEST_PRESENCE_PENALTY),
    "max_tokens": (AttributeWriter.integer, genai.REQUEST_MAX_TOKENS),
    "stop": (AttributeWriter.texts, genai.REQUEST_STOP_SEQUENCES),
    "service_tier": (AttributeWriter.text, genai.OPENAI_SERVICE_TIER_REQUEST),
}
"""Parameters that chat and text completions share."""
_REQUEST_FIELDS: Final = frozenset(
    {*SAMPLED, "messages", "random_seed", "max_completion_tokens", "reasoning_effort", "tools", "functions"}
)
_ANSWER_FIELDS: Final = frozenset(
    {"id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier", "error", "x_groq"}
    | {"p", "obfuscation", METRICS}  # padding of streams, Bedrock's counts
)
_CHOICE_FIELDS: Final = frozenset({"index", "message", "delta", "finish_reason", "finish_details", "logprobs"})
"""Logprobs have one number per token; to use them, read the body."""
_OUTPUT_TYPES: Final = {"json_object": "json", "json_schema": "json", "text": "text"}


# -- request ------------------------------------------------------------------------------------------------------------
def read_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a chat completions request."""
    out.text(genai.OPENAI_API_TYPE, "chat_completions")
    read_sampling(document, out)
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
        [read_tool(tool) for tool in tools] + [{"type": "function", **function} for function in functions],
    )
    out.rest(document, _REQUEST_FIELDS)


def read_sampling(document: JsonObject, out: AttributeWriter) -> None:
    """Write the parameters that chat and text completions share."""
    out.fields(document, SAMPLED)
    if document.get("seed") is None:
        out.integer(genai.REQUEST_SEED, document.get("random_seed"))
    if (most := document.get("max_completion_tokens")) is not None:
        out.attributes.pop(genai.REQUEST_MAX_TOKENS, None)
        out.integer(genai.REQUEST_MAX_TOKENS, most)


# -- response -----------------------------------------------------------------------------------------------------------
def read_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a chat completion."""
    choices = as_objects(document.get("choices"))
    # `finish_details` is from the first vision models.
    reasons = [
        as_text(choice.get("finish_reason")) or as_text(as_object(choice.get("finish_details")).get("type"))
        for choice in choices
    ]
    read_completion(document, reasons, out)
    out.messages(genai.OUTPUT_MESSAGES, [_answer(choice, reason) for choice, reason in zip(choices, reasons, strict=True)])
    out.rest(document, _ANSWER_FIELDS, genai.RESPONSE_DETAILS)


def _answer(choice: JsonObject, reason: str | None) -> Message:
    """Return the message of a choice; what is next to it (a filter's verdict, a router's native reason) is kept."""
    message = as_object(choice.get("message"))
    if choice.keys() <= _CHOICE_FIELDS:
        return read_message(message, reason)
    return read_message({**{key: choice[key] for key in choice if key not in _CHOICE_FIELDS}, **message}, reason)


def read_completion(document: JsonObject, reasons: Sequence[str | None], out: AttributeWriter) -> None:
    """Write what chat and text completions share: id, model, fingerprint, finish reasons, usage."""
    out.text(genai.RESPONSE_ID, document.get("id"))
    out.text(genai.RESPONSE_MODEL, document.get("model"))
    out.text(genai.OPENAI_SYSTEM_FINGERPRINT, document.get("system_fingerprint"))
    out.text(genai.OPENAI_SERVICE_TIER_RESPONSE, document.get("service_tier"))
    out.texts(genai.RESPONSE_FINISH_REASONS, [reason for reason in reasons if reason])
    usage = as_object(document.get("usage")) or as_object(as_object(document.get("x_groq")).get("usage"))
    out.usage(usage, COUNTS)


COUNTS: Final = UsageCounts(
    input=("prompt_tokens",),
    output=("completion_tokens",),
    cache_read=(
        "prompt_tokens_details.cached_tokens",
        "prompt_token_details.cached_tokens",
        "prompt_cache_hit_tokens",
        "cached_tokens",
        "cache_read_input_tokens",
    ),
    cache_write=(
        "prompt_tokens_details.cache_write_tokens",
        "prompt_token_details.cache_write_tokens",
        "cache_creation_input_tokens",
    ),
    reasoning=("completion_tokens_details.reasoning_tokens", "completion_token_details.reasoning_tokens"),
)
FINISH_REASONS: Final = {"stop": "stop", "tool_call": "tool_calls", "length": "length", "content_filter": "content_filter"}


# -- writing ------------------------------------------------------------------------------------------------------------
def compose(answer: Answer, request: JsonObject) -> JsonObject:
    """Return a chat completion."""
    message: JsonObject = {"role": "assistant", "content": answer.text if answer.pieces else None}
    if answer.tool_calls:
        message["tool_calls"] = [write_call(call) for call in answer.tool_calls]
    if answer.thinking:
        message["reasoning_content"] = answer.thinking
    # With a tool that the request insists on, the API says "stop".
    reason = "stop" if answer.finish_reason == "stop" else answer.finish(FINISH_REASONS)
    choice: JsonObject = {"message": message, "finish_reason": reason}
    return write_completion(answer, request, "chat.completion", choice)


def write_completion(answer: Answer, request: JsonObject, kind: str, choice: JsonObject) -> JsonObject:
    """Return what chat and text completions share around one choice."""
    document: JsonObject = {"id": answer.id, "object": kind, "created": 0, "model": answer.model}
    document["choices"] = [{"index": 0, **choice}]
    # A stream has a chunk without choices for the usage, and only clients that ask for it expect one.
    if not request.get("stream") or as_object(request.get("stream_options")).get("include_usage"):
        into, out = answer.input_tokens, answer.output_tokens
        document["usage"] = {"prompt_tokens": into, "completion_tokens": out, "total_tokens": into + out}
    return document


DIALECT: Final = WireDialect(
    name="openai.chat",
    operation=genai.OP_CHAT,
    provider="openai",
    documents=Documents(read_request, read_response, compose),
    streams=Streams(assemble, has_ended, disassemble),
    transient_fields=TRANSIENT_FIELDS,
    set_system=prompts.message,
    call_path="/chat/completions",
    honours_retry_after=True,
)
