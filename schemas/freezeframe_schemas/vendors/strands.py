"""Strands Agents: message events of the past with Bedrock's content blocks in them, or ``operation.details`` events.

Strands writes its own name as the provider; the real provider is not on its spans.

Source: https://github.com/strands-agents/sdk-python, src/strands/telemetry/tracer.py
"""

from __future__ import annotations

from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import Event, SpanRecord
from freezeframe_schemas.vendors.dialect import Dialect, plain, text_or_json
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.bedrock_converse import read_block, read_message
from freezeframe_schemas.wire.document import JsonValue, as_objects, as_text, dump
from freezeframe_schemas.wire.messages import Message, TextPart, ToolCallResponsePart

_SCOPE: Final = "strands.telemetry.tracer"
_ROLES: Final = {name: name.split(".")[1] for name in genai.PAST_MESSAGE_EVENTS}
_SYSTEM: Final = "system"
_TOOL: Final = "tool"
_DETAILS: Final = (genai.SYSTEM_INSTRUCTIONS, genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES)


def _fits(span: SpanRecord) -> bool:
    return span.scope.name == _SCOPE


def _derive(span: SpanRecord, out: AttributeWriter) -> None:
    for event in span.events:
        if event.name == genai.OPERATION_DETAILS_EVENT:
            for name in _DETAILS:
                out.json(name, text_or_json(plain(event.attributes.get(name))))
            answered = as_objects(text_or_json(plain(event.attributes.get(genai.OUTPUT_MESSAGES))))
            out.texts(genai.RESPONSE_FINISH_REASONS, [message.get("finish_reason") for message in answered] or None)
    messages = [event for event in span.events if event.name in _ROLES]
    answers = [event for event in span.events if event.name == genai.PAST_CHOICE_EVENT]
    if span.text(genai.OPERATION_NAME) == genai.OP_EXECUTE_TOOL:
        _tool(messages, answers, out)
        return
    system = [block for event in messages if _ROLES[event.name] == _SYSTEM for block in as_objects(_content(event))]
    out.parts(genai.SYSTEM_INSTRUCTIONS, [read_block(block) for block in system])
    out.messages(genai.INPUT_MESSAGES, [_message(event) for event in messages if _ROLES[event.name] != _SYSTEM])
    out.messages(genai.OUTPUT_MESSAGES, [_answer(event) for event in answers])
    reasons: list[JsonValue] = [plain(event.attributes.get("finish_reason")) for event in answers]
    out.texts(genai.RESPONSE_FINISH_REASONS, reasons)


def _tool(said: list[Event], answers: list[Event], out: AttributeWriter) -> None:
    for event in said:
        out.text(genai.TOOL_CALL_ARGUMENTS, as_text(plain(event.attributes.get("content"))))
    for event in answers:
        out.text(genai.TOOL_CALL_RESULT, as_text(plain(event.attributes.get("message"))))


def _content(event: Event) -> JsonValue:
    return text_or_json(plain(event.attributes.get("content")))


def _message(event: Event) -> Message:
    message = read_message({"role": _ROLES[event.name], "content": _content(event)})
    # A message with results is the user's on Bedrock's wire, and the tool's here.
    return message if message.parts else _text(_ROLES[event.name], _content(event))


def _answer(event: Event) -> Message:
    content = text_or_json(plain(event.attributes.get("message")))
    reason = as_text(plain(event.attributes.get("finish_reason")))
    if isinstance(content, list):
        return read_message({"role": "assistant", "content": content}, reason)
    return _text("assistant", content)


def _text(role: str, content: JsonValue) -> Message:
    text = content if isinstance(content, str) else dump(content)
    part = ToolCallResponsePart(response=content) if role == _TOOL else TextPart(content=text)
    return Message(role=role, parts=(part,))


DIALECT: Final = Dialect(name="strands", fits=_fits, derive=_derive)
