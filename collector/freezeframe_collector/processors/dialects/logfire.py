"""Logfire's own instrumentations: conventional names, arrays as JSON texts; ``request_data`` and ``response_data`` before 5.

Source: https://github.com/pydantic/logfire, logfire/_internal/integrations/llm_providers
"""

from __future__ import annotations

from typing import Final

from freezeframe_collector.processors.dialects.dialect import Dialect, json_of
from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.wire import openai_chat
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import JsonObject, as_object, as_text
from freezeframe_schemas.wire.openai_content import read_message

_REQUEST: Final = "request_data"


def _fits(span: SpanRecord) -> bool:
    return span.scope.name.startswith("logfire") and _REQUEST in span.attributes


def _derive(span: SpanRecord, out: AttributeWriter) -> None:
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
