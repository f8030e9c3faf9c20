"""Envelopes: a tool's arguments and result, unpacked from the callback objects in which vendors write both. Pure.

The collector keeps the attributes as they were sent; this reads them for a replay.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.vendors.dialect import json_of, plain
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_text, parse

_CALLBACK: Final = "a callback's envelope"
_LANGCHAIN: Final = "a LangChain message"
_CALL: Final = "a function call's envelope"
_MCP_METHODS: Final = ("prompts/", "resources/")
_MCP_SPANS: Final = (
    ("MCP request: {}", "request", "response"),
    ("{}.mcp", "traceloop.entity.input", "traceloop.entity.output"),
)
"""Name of the span, attributes of the request and of its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedTool:
    """Facts about a tool call in a span. None: not reported."""

    arguments: JsonValue
    result: JsonValue
    call_id: str | None
    envelope: str = ""
    """The envelope that held the values; empty if there was none."""


def tool_call_of(span: SpanRecord) -> ReportedTool:
    """Return arguments, result and call id of a tool's span."""
    arguments, id_of_call, around_call = _arguments(_json(span, genai.TOOL_CALL_ARGUMENTS))
    result, id_of_result, around_result = _result(_json(span, genai.TOOL_CALL_RESULT))
    return ReportedTool(
        arguments=arguments,
        result=result,
        call_id=span.text(genai.TOOL_CALL_ID) or id_of_call or id_of_result,
        envelope=around_call or around_result,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class McpRequest:
    """A request to an MCP server, with its result."""

    method: str
    params: JsonObject
    result: JsonObject


def mcp_request_of(span: SpanRecord) -> McpRequest | None:
    """Return the prompt or resource that a span of an MCP client requests: no other record has them. None for other spans.

    Source: logfire ``integrations/mcp.py``; OpenLLMetry ``opentelemetry-instrumentation-mcp``
    """
    for name, asked, answered in _MCP_SPANS:
        request = as_object(json_of(span, asked))
        method, result = as_text(request.get("method")) or "", json_of(span, answered)
        if method.startswith(_MCP_METHODS) and span.name == name.format(method) and isinstance(result, dict):
            params = as_object(_arguments_of(request.get("params")))
            params.pop("meta", None)
            return McpRequest(method=method, params=params, result=as_object(_arguments_of(result)))
    return None


def _arguments_of(found: JsonValue) -> JsonValue:
    """Return a dumped model without the fields that are null in it: they were not set."""
    if isinstance(found, list):
        return [_arguments_of(item) for item in found]
    return {name: _arguments_of(item) for name, item in found.items() if item is not None} if isinstance(found, dict) else found


def _json(span: SpanRecord, name: str) -> JsonValue:
    value = span.attributes.get(name)
    if not isinstance(value, str):
        return plain(value)
    found = parse(value)
    return value if found is None else found


def _arguments(found: JsonValue) -> tuple[JsonValue, str | None, str]:
    """Return arguments, call id, and the envelope they came in."""
    match found:
        case {"inputs": dict(inputs), "input_str": _}:  # OpenLLMetry on LangChain
            return inputs, as_text(as_object(found.get("kwargs")).get("tool_call_id")), _CALLBACK
        case {"input_str": str(text)}:
            return _literal(text), as_text(as_object(found.get("kwargs")).get("tool_call_id")), _CALLBACK
        case {"args": [lone], "kwargs": dict(named)} if not named and found.keys() == {"args", "kwargs"}:  # Langfuse
            return lone, None, _CALL
        case {"kwargs": dict(named)} if found.keys() <= {
            "args",
            "kwargs",
            "sanitize_inputs_outputs",
        }:  # and smolagents, LlamaIndex
            return named, None, _CALL
        case str(text) if text.startswith("{"):
            return _literal(text), None, ""
        case _:
            return found, None, ""


def _literal(text: str) -> JsonValue:
    """Return the value of a Python literal, which some callbacks get in place of JSON; other text unchanged."""
    try:
        found: object = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text
    try:
        return parse(json.dumps(found))
    except (TypeError, ValueError):  # sets, bytes, keys that are not text
        return text


def _result(found: JsonValue) -> tuple[JsonValue, str | None, str]:
    """Return the result, the id of the call that it answers, and the envelope it came in."""
    message = _message(found)
    if message is not None:
        return message.get("content"), as_text(message.get("tool_call_id")), _LANGCHAIN
    match found:
        case {"raw_output": result, "tool_name": _}:  # LlamaIndex
            return result, None, _CALL
        case {"name": str(_), "response": result} if found.keys() <= {"id", "name", "response"}:  # Google's function response
            return result, None, _CALL
        case _:
            return found, None, ""


def _message(found: JsonValue) -> JsonObject | None:
    """Return the result as a LangChain message, in any form that its serialisers write; None if it is not one."""
    value = as_object(found)
    for inner in (value, as_object(value.get("output")), as_object(value.get("data"))):
        for message in (inner, as_object(inner.get("kwargs"))):
            if "tool_call_id" in message and "content" in message:
                return message
    return None
