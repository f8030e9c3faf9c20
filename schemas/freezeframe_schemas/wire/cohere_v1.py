"""Cohere chat v1, and command-r on Bedrock.

Source: https://docs.cohere.com/reference/chat-v1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.wire import prompts
from freezeframe_schemas.wire.answer import Answer, Split, pieces_of, without_keys
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.cohere import COUNTS, SAMPLING_FIELDS, error_body, read_sampling, write_usage
from freezeframe_schemas.wire.dialect import Documents, Streams, WireDialect, ended_by_event
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_objects, as_text, make_object
from freezeframe_schemas.wire.frames import Form, Frame
from freezeframe_schemas.wire.messages import Message, Part, ToolCallPart, ToolCallResponsePart, finish_reason_of, texts

_REQUEST_FIELDS: Final = SAMPLING_FIELDS | {"message", "chat_history", "preamble", "tool_results", "conversation_id"}
_ROLES: Final = {"chatbot": "assistant"}


def read_request(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a v1 chat request: the history, then the message, then tool results."""
    read_sampling(document, out)
    out.text(genai.CONVERSATION_ID, document.get("conversation_id"))
    out.parts(genai.SYSTEM_INSTRUCTIONS, texts(document.get("preamble")))
    messages = [_message(item) for item in as_objects(document.get("chat_history"))]
    if said := texts(document.get("message")):
        messages.append(Message(role="user", parts=tuple(said)))
    if results := as_objects(document.get("tool_results")):
        messages.append(Message(role="tool", parts=tuple(_result(result) for result in results)))
    out.messages(genai.INPUT_MESSAGES, messages)
    out.tools(document.get("tools"), [_tool(tool) for tool in as_objects(document.get("tools"))])
    out.rest(document, _REQUEST_FIELDS)


def _tool(tool: JsonObject) -> JsonValue:
    return {"type": "function", "name": "", **tool}


def _message(item: JsonObject) -> Message:
    role = (as_text(item.get("role")) or "user").lower()
    results = [_result(result) for result in as_objects(item.get("tool_results"))]
    return Message(role=_ROLES.get(role, role), parts=(*_parts(item, "message"), *results))


def _parts(item: JsonObject, key: str) -> list[Part]:
    calls = as_objects(item.get("tool_calls"))
    tool_calls = [ToolCallPart(name=as_text(call.get("name")) or "", arguments=call.get("parameters")) for call in calls]
    return [*texts(item.get(key)), *tool_calls]


def _result(result: JsonObject) -> Part:
    return ToolCallResponsePart(response=result.get("outputs"), extra={"call": result.get("call")})


def read_response(document: JsonObject, out: AttributeWriter) -> None:
    """Write the attributes of a v1 chat answer."""
    out.text(genai.RESPONSE_ID, document.get("response_id") or document.get("generation_id"))
    reason = as_text(document.get("finish_reason"))
    out.texts(genai.RESPONSE_FINISH_REASONS, reason)
    out.usage(as_object(document.get("meta")), COUNTS)
    parts = _parts(document, "text")
    if parts or reason:
        message = Message(role="assistant", parts=tuple(parts), finish_reason=finish_reason_of(reason))
        out.messages(genai.OUTPUT_MESSAGES, [message])


def assemble(frames: Sequence[Frame]) -> JsonObject:
    """Return the v1 answer of ``stream-end``, or the text so far of a stream that was cut."""
    document: JsonObject = {}
    pieces: list[str] = []
    for frame in frames:
        event = as_object(frame.value)
        match event.get("event_type"):
            case "stream-start":
                document["generation_id"] = event.get("generation_id")
            case "text-generation":
                pieces.append(as_text(event.get("text")) or "")
            case "tool-calls-generation":
                document["tool_calls"] = event.get("tool_calls")
            case "stream-end":
                document.update(as_object(event.get("response")))
                document["finish_reason"] = event.get("finish_reason") or document.get("finish_reason")
            case _:
                pass
    if pieces and "text" not in document:
        document["text"] = "".join(pieces)
    return document


def compose(answer: Answer, request: JsonObject) -> JsonObject:
    del request
    calls: list[JsonValue] = [{"name": call.name, "parameters": dict(call.arguments)} for call in answer.tool_calls]
    document: JsonObject = {"response_id": answer.id, "generation_id": answer.id, "text": answer.text}
    reason = answer.finish({"stop": "COMPLETE", "length": "MAX_TOKENS"})
    return {**document, "finish_reason": reason, **({"tool_calls": calls} if calls else {}), "meta": write_usage(answer)}


def disassemble(document: JsonObject, split: Split) -> Iterator[Frame]:
    """Yield the events of a v1 answer; one that was cut has no ``stream-end``."""
    events: list[JsonObject] = [{"event_type": "stream-start", "generation_id": document.get("generation_id")}]
    if text := as_text(document.get("text")):
        events.extend(make_object(event_type="text-generation", text=piece) for piece in pieces_of(text, split))
    if calls := document.get("tool_calls"):
        events.append({"event_type": "tool-calls-generation", "tool_calls": calls})
    reason = document.get("finish_reason")
    if reason is not None:
        events.append({"event_type": "stream-end", "finish_reason": reason, "response": without_keys(document, "error")})
    yield from (Frame(value={**event, "is_finished": "response" in event}) for event in events)


DIALECT: Final = WireDialect(
    name="cohere.chat_v1",
    operation=genai.OP_CHAT,
    provider="cohere",
    documents=Documents(read_request, read_response, compose),
    streams=Streams(assemble, ended_by_event("event_type", "stream-end"), disassemble, form=Form.STREAM_JSON),
    error_body=error_body,
    set_system=prompts.field("preamble"),
)
