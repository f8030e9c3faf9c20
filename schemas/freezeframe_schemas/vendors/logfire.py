"""Logfire's own instrumentations: conventional names, arrays as JSON texts; ``request_data`` and ``response_data`` before 5.

Of OpenAI's Agents SDK it keeps the input and the whole response of a call as JSON, and names tools and agents ``name``.

Source: https://github.com/pydantic/logfire, logfire/_internal/integrations/llm_providers
"""

from __future__ import annotations

from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord
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


DIALECT: Final = Dialect(name="logfire", fits=_fits, derive=_derive)
