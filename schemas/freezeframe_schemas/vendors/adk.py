"""Google's Agent Development Kit: conventional today, Gemini's request and answer on ``call_llm`` before version 2.

Source: https://github.com/google/adk-python, src/google/adk/telemetry/tracing.py
"""

from __future__ import annotations

from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.vendors.dialect import Dialect, json_of
from freezeframe_schemas.wire import gemini
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import JsonObject, as_object
from freezeframe_schemas.wire.gemini_stream import camel

_SCOPE: Final = "gcp.vertex.agent"
_REQUEST: Final = "gcp.vertex.agent.llm_request"
_RESPONSE: Final = "gcp.vertex.agent.llm_response"
_ARGUMENTS: Final = "gcp.vertex.agent.tool_call_args"
_RESULT: Final = "gcp.vertex.agent.tool_response"
_NOTHING: Final = ("{}", "N/A", "<not specified>")
"""Placeholder for absent content, or if content capture is off."""


def _fits(span: SpanRecord) -> bool:
    return span.scope.name == _SCOPE


def _derive(span: SpanRecord, out: AttributeWriter) -> None:
    if span.text(_ARGUMENTS) not in _NOTHING:
        out.text(genai.TOOL_CALL_ARGUMENTS, span.text(_ARGUMENTS))
    if span.text(_RESULT) not in _NOTHING:
        out.text(genai.TOOL_CALL_RESULT, span.text(_RESULT))
    out.text(genai.CONVERSATION_ID, span.text("gcp.vertex.agent.session_id"))
    request = camel(as_object(json_of(span, _REQUEST)))
    if not request:
        return
    out.text(genai.OPERATION_NAME, genai.OP_GENERATE_CONTENT)
    out.text(genai.PROVIDER_NAME, "gcp.gemini")
    gemini.read_request(_on_the_wire(request), out)
    response = camel(as_object(json_of(span, _RESPONSE)))
    if response:
        out.text(genai.RESPONSE_MODEL, response.get("modelVersion"))
        candidate: JsonObject = {key: response[key] for key in ("content", "finishReason") if key in response}
        gemini.read_response({"candidates": [candidate], "usageMetadata": response.get("usageMetadata")}, out)


def _on_the_wire(request: JsonObject) -> JsonObject:
    """Return the SDK's request in its wire form: tools and system instruction next to the configuration, not in it."""
    configuration = camel(as_object(request.get("config")))
    return {
        "contents": request.get("contents"),
        "systemInstruction": configuration.pop("systemInstruction", None),
        "tools": configuration.pop("tools", None),
        "toolConfig": configuration.pop("toolConfig", None),
        "generationConfig": {key: value for key, value in configuration.items() if key != "httpOptions"},
    }


DIALECT: Final = Dialect(name="adk", fits=_fits, derive=_derive)
