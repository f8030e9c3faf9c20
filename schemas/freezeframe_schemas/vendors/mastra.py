"""Mastra 1.x (its OTLP exporter 1.4.0 was recorded): ``mastra.model_step.*``, the messages of one call on the span around it.

A preview stands for each call of a tool and each result in a request: ``[tool: NAME]``, ``[tool-result: NAME]``. The part is
kept without its content, so that a lost result is not an empty one; `of_steps` takes it from the steps before.

Source: https://github.com/mastra-ai/mastra, observability/otel-exporter/src/gen-ai-semantics.ts, and ``normalizeMessages`` of
@mastra/observability 1.17.9
"""

from __future__ import annotations

import re
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.vendors.dialect import Dialect, json_of, plain, text_or_json
from freezeframe_schemas.wire import messages as msg
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    as_objects,
    as_text,
)

STEP: Final = "agent_step"
"""Mastra's name for the operation of a step, which is one model call and the tools that it asks for."""
_TYPE: Final = "mastra.span.type"
_AROUND: Final = frozenset({"model_step", "agent_run"})
_PREVIEW: Final = re.compile(r"\[tool(?:-result)?: ([^\]]+)\]")


def _fits(span: SpanRecord) -> bool:
    return span.text(_TYPE) in _AROUND


def _derive(span: SpanRecord, out: AttributeWriter) -> None:
    kind = span.text(_TYPE)
    value = text_or_json(plain(span.attributes.get(f"mastra.{kind}.input")))
    items: list[JsonValue] = [{"role": "user", "content": value}] if isinstance(value, str) else as_list(value)
    out.messages(genai.INPUT_MESSAGES, [_message(as_object(item)) for item in items])
    out.messages(genai.OUTPUT_MESSAGES, _answer(as_object(json_of(span, f"mastra.{kind}.output"))))
    out.text(genai.RESPONSE_ID, as_object(json_of(span, "mastra.metadata.body")).get("id"))


def _message(item: JsonObject) -> msg.Message:
    role, content = as_text(item.get("role")) or "user", item.get("content")
    if isinstance(content, list):
        texts = [str(part["text"]) for part in as_objects(content) if isinstance(part.get("text"), str)]
        return msg.Message(role=role, parts=tuple(msg.TextPart(content=text) for text in texts))
    text = as_text(content) or ""
    names = _PREVIEW.findall(text) if role in ("assistant", "tool") else []
    rest = _PREVIEW.sub("", text).strip() if names else text
    parts: list[msg.Part] = [msg.TextPart(content=rest)] if rest else []
    kind = msg.ToolCallPart.type if role == "assistant" else msg.ToolCallResponsePart.type
    parts.extend(msg.GenericPart(type=kind, extra={"name": name}) for name in names)
    return msg.Message(role=role, parts=tuple(parts))


def _answer(answer: JsonObject) -> list[msg.Message]:
    parts: list[msg.Part] = []
    if text := as_text(answer.get("text")):
        parts.append(msg.TextPart(content=text))
    parts.extend(
        msg.ToolCallPart(
            id=as_text(call.get("toolCallId")), name=as_text(call.get("toolName")) or "", arguments=call.get("args")
        )
        for call in as_objects(answer.get("toolCalls"))
    )
    return [msg.Message(role="assistant", parts=tuple(parts))] if parts else []


DIALECT: Final = Dialect(name="mastra", fits=_fits, derive=_derive)
