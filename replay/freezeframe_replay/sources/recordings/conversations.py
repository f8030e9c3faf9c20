"""A conversation with a model, kept as messages -> the spans of a run that hold what was said, for a reconstruction. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from freezeframe_replay.sources.recordings.http_calls import SCOPE, UNDATED, Origin
from freezeframe_schemas import genai
from freezeframe_schemas.gaps import Gap, GapKind, gaps_to_json
from freezeframe_schemas.span import Attributes, SpanKind, SpanRecord
from freezeframe_schemas.wire import openai_chat
from freezeframe_schemas.wire.document import JsonObject, as_object, as_objects, as_text, dump

MOST_MESSAGES: Final = 2000
"""Of a conversation. Each request repeats those before it, so the spans grow with the square."""
_STEP_NS: Final = 1_000_000
"""Between messages, whose times are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What was said in a run, in the form of OpenAI's chat messages."""

    number: int
    """From 1, in the file."""
    name: str
    messages: Sequence[JsonObject]
    lacks: str
    """What recordings of this kind do not hold; a gap of the run."""


def spans_of_conversation(talk: Conversation, origin: Origin) -> Iterator[SpanRecord]:
    """Yield a span for each answer of the model and for each result of a tool, and at last the one around them.

    Raises:
        ValueError: a message has no role, or there are more than `MOST_MESSAGES`.
    """
    if len(talk.messages) > MOST_MESSAGES:
        raise ValueError(f"found {len(talk.messages):,} messages, expected at most {MOST_MESSAGES:,}")
    calls: dict[str, JsonObject] = {}
    for place, message in enumerate(talk.messages):
        role = message.get("role")
        if not isinstance(role, str):
            raise ValueError(f"message {place + 1}: role: expected text")
        if role == "assistant":
            calls |= {str(call.get("id")): as_object(call.get("function")) for call in as_objects(message.get("tool_calls"))}
            yield _span(talk, origin, place, genai.OP_CHAT, _said(talk.messages[:place], message), SpanKind.CLIENT)
        elif role == "tool":
            yield _span(talk, origin, place, genai.OP_EXECUTE_TOOL, _done(message, calls), SpanKind.INTERNAL)
    gap = Gap(kind=GapKind.UNSEEN, text=talk.lacks)
    yield SpanRecord(
        trace_id=_trace_id(talk, origin),
        span_id=_root_id(talk, origin),
        name=talk.name,
        start_time_unix_nano=_time(talk, 0),
        end_time_unix_nano=_time(talk, len(talk.messages)),
        attributes={genai.ENTRY_GAPS: gaps_to_json([gap])},
        resource=origin.resource,
        scope=SCOPE,
    )


def _span(talk: Conversation, origin: Origin, place: int, operation: str, attributes: Attributes, kind: SpanKind) -> SpanRecord:
    what = attributes.get(genai.TOOL_NAME)
    return SpanRecord(
        trace_id=_trace_id(talk, origin),
        span_id=origin.id_of(talk.number, place, digits=16),
        parent_span_id=_root_id(talk, origin),
        name=f"{operation} {what}" if what else operation,
        kind=kind,
        start_time_unix_nano=_time(talk, place),
        end_time_unix_nano=_time(talk, place + 1),
        attributes={genai.OPERATION_NAME: operation, **attributes},
        resource=origin.resource,
        scope=SCOPE,
    )


def _said(before: Sequence[JsonObject], answer: JsonObject) -> Attributes:
    """Return what was asked and answered, read as if the provider's API had carried it."""
    asked: JsonObject = {"messages": [*before]}
    answered: JsonObject = {"choices": [{"index": 0, "message": answer}]}
    dialect = openai_chat.DIALECT
    said = dialect.response_attributes(dump(answered).encode(), content_type="application/json", status=200)
    return {**dialect.request_attributes(dump(asked).encode()), **said}


def _done(message: JsonObject, calls: dict[str, JsonObject]) -> Attributes:
    call_id = str(message.get("tool_call_id"))
    call = calls.get(call_id, {})
    content = message.get("content")
    return {
        genai.TOOL_NAME: as_text(call.get("name")) or as_text(message.get("name")) or "tool",
        genai.TOOL_CALL_ID: call_id,
        genai.TOOL_CALL_ARGUMENTS: as_text(call.get("arguments")) or "{}",
        genai.TOOL_CALL_RESULT: content if isinstance(content, str) else dump(content),
    }


def _trace_id(talk: Conversation, origin: Origin) -> str:
    return origin.id_of(talk.number, digits=32)


def _root_id(talk: Conversation, origin: Origin) -> str:
    return origin.id_of(talk.number, "run", digits=16)


def _time(talk: Conversation, place: int) -> int:
    return UNDATED + ((talk.number - 1) * MOST_MESSAGES + place) * _STEP_NS
