"""Pydantic AI's own spans: conventional today; ``all_messages_events`` and ``tool_arguments`` before its version 2 format.

Source: https://github.com/pydantic/pydantic-ai, pydantic_ai/models/instrumented.py
"""

from __future__ import annotations

from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.vendors.dialect import Dialect, json_of
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_objects, as_text
from freezeframe_schemas.wire.messages import Message, TextPart
from freezeframe_schemas.wire.openai_content import read_message

_SCOPE: Final = "pydantic-ai"
_ALL_MESSAGES: Final = "pydantic_ai.all_messages"
_CHOICE: Final = genai.PAST_CHOICE_EVENT


def _fits(span: SpanRecord) -> bool:
    return span.scope.name == _SCOPE


def _derive(span: SpanRecord, out: AttributeWriter) -> None:
    agent = span.text("agent_name")
    out.text(genai.AGENT_NAME, agent)
    conversation = json_of(span, _ALL_MESSAGES)
    if isinstance(conversation, list):
        # Already messages of the conventions; all except the last precede the agent's answer.
        out.json(genai.INPUT_MESSAGES, _before_the_answer(conversation))
    final = span.text("final_result")
    if final:
        out.text(genai.OPERATION_NAME, genai.OP_INVOKE_AGENT)
        answer = Message(role="assistant", parts=(TextPart(content=final),), finish_reason="stop")
        out.messages(genai.OUTPUT_MESSAGES, [answer])
    if arguments := span.text("tool_arguments"):
        out.text(genai.OPERATION_NAME, genai.OP_EXECUTE_TOOL)
        out.text(genai.TOOL_CALL_ARGUMENTS, arguments)
        out.text(genai.TOOL_CALL_RESULT, span.text("tool_response"))
    _events(as_objects(json_of(span, "events")) or as_objects(json_of(span, "all_messages_events")), out)
    parameters = as_object(json_of(span, "model_request_parameters"))
    definitions: list[JsonValue] = [_definition(tool) for tool in as_objects(parameters.get("function_tools"))]
    out.tools(definitions, definitions)


def _before_the_answer(conversation: list[JsonValue]) -> list[JsonValue] | None:
    last = as_object(conversation[-1]) if conversation else {}
    return (conversation[:-1] if last.get("role") == "assistant" else conversation) or None


def _events(events: list[JsonObject], out: AttributeWriter) -> None:
    """Read the messages of 1.28 that the span holds as one JSON text."""
    inputs: list[Message] = []
    outputs: list[Message] = []
    for event in events:
        name = as_text(event.get("event.name"))
        if name == _CHOICE:
            outputs.append(read_message(as_object(event.get("message"))))
        elif isinstance(event.get("role"), str):
            message: JsonObject = {key: event[key] for key in ("role", "content", "tool_calls", "name") if key in event}
            if event["role"] == "tool" and isinstance(event.get("id"), str):
                message["tool_call_id"] = event["id"]
            inputs.append(read_message(message))
    out.messages(genai.INPUT_MESSAGES, inputs)
    out.messages(genai.OUTPUT_MESSAGES, outputs)


def _definition(tool: JsonObject) -> JsonValue:
    return {
        "type": "function",
        "name": tool.get("name"),
        "description": tool.get("description"),
        "parameters": tool.get("parameters_json_schema"),
    }


DIALECT: Final = Dialect(name="pydantic_ai", fits=_fits, derive=_derive)
