"""Logfire's own instrumentations: conventional names, arrays as JSON texts; ``request_data`` and ``response_data`` before 5.

Of OpenAI's Agents SDK it keeps the input and the whole response of a call as JSON, and names tools and agents ``name``.

Source: https://github.com/pydantic/logfire, logfire/_internal/integrations/llm_providers
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord, StatusCode
from freezeframe_schemas.vendors.dialect import Dialect, json_of
from freezeframe_schemas.wire import openai_chat, openai_responses
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import JsonObject, as_object, as_text
from freezeframe_schemas.wire.openai_content import read_message

_REQUEST: Final = "request_data"


_AGENTS_SCOPE: Final = "logfire.openai_agents"


def _fits(span: SpanRecord) -> bool:
    return span.scope.name == _AGENTS_SCOPE or (span.scope.name.startswith("logfire") and _REQUEST in span.attributes)


def _agents(span: SpanRecord, out: AttributeWriter) -> None:
    response = as_object(json_of(span, "response"))
    if response:
        attributes: JsonObject = {key: response[key] for key in ("instructions", "tools") if key in response}
        openai_responses.read_request({**attributes, "input": json_of(span, "raw_input")}, out)
        openai_responses.read_response(response, out)
    elif span.name.startswith("Function: "):
        out.text(genai.OPERATION_NAME, genai.OP_EXECUTE_TOOL)
        out.text(genai.TOOL_NAME, span.text("name"))
        out.text(genai.TOOL_CALL_ARGUMENTS, span.text("input"))
        out.text(genai.TOOL_CALL_RESULT, span.text("output"))
    elif span.name.startswith("Agent run: "):
        out.text(genai.OPERATION_NAME, genai.OP_INVOKE_AGENT)
        out.text(genai.AGENT_NAME, span.text("name"))


def _derive(span: SpanRecord, out: AttributeWriter) -> None:
    if span.scope.name == _AGENTS_SCOPE:
        _agents(span, out)
        return
    request: JsonObject = as_object(json_of(span, _REQUEST))
    if "messages" in request:
        openai_chat.read_request(request, out)
        out.text(genai.OPERATION_NAME, genai.OP_CHAT)
    else:
        openai_chat.read_sampling(request, out)
    out.flag(genai.REQUEST_STREAM, request.get("stream"))
    response = as_object(json_of(span, "response_data"))
    message = as_object(response.get("message"))
    if message:
        out.messages(genai.OUTPUT_MESSAGES, [read_message(message)])
    elif text := as_text(response.get("combined_chunk_content")):
        out.messages(genai.OUTPUT_MESSAGES, [read_message({"role": "assistant", "content": text})])


# -- A streamed call is two of its spans -------------------------------------------------------------------------------
# One is around the request, and holds no answer. The other is written when the stream has ended: a log record in the form of a
# span without a duration, which repeats the request. That one is the call.


def with_one_call_of_a_stream(span: SpanRecord) -> SpanRecord:
    """Return the span around a stream's request as no call, and the one written at its end with the time that it took."""
    if not span.scope.name.startswith(_PROVIDERS):
        return span
    if span.attributes.get("logfire.span_type") == "log":
        took = span.attributes.get("duration")
        if span.start_time_unix_nano < span.end_time_unix_nano or not isinstance(took, float) or not 0 < took < _DAY_S:
            return span
        return replace(span, start_time_unix_nano=max(0, span.end_time_unix_nano - int(took * 1e9)))
    # Until 4.x it writes no operation.
    operation = span.text(genai.OPERATION_NAME) or ("messages" in as_object(json_of(span, _REQUEST)) and genai.OP_CHAT)
    failed = span.status_code is StatusCode.ERROR
    if operation != genai.OP_CHAT or failed or not _ANSWERED.isdisjoint(span.attributes):
        return span
    return span.with_attributes({genai.OPERATION_NAME: genai.OP_REQUEST_STREAM, genai.NORMALISED_FROM: DIALECT.name})


_PROVIDERS: Final = ("logfire.openai", "logfire.anthropic")
_ANSWERED: Final = frozenset(
    {genai.OUTPUT_MESSAGES, genai.RESPONSE_ID, genai.USAGE_OUTPUT_TOKENS, genai.RESPONSE_FINISH_REASONS, "response_data"}
)
_DAY_S: Final = 86_400


DIALECT: Final = Dialect(name="logfire", fits=_fits, derive=_derive)
