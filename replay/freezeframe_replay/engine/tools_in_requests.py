"""Tools of a program that was recorded from outside: the model requested a call, and a later request contains its result. Pure.

The tool's run was not recorded, but its arguments and its result are in the recorded bytes, so a server can answer for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from freezeframe_replay.engine.mcp_answers import CALL, FUNCTIONS
from freezeframe_schemas import genai, values
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Kind, Request, Response
from freezeframe_schemas.fixture import Step
from freezeframe_schemas.meaning import answer_parts, arguments_of, has_result, messages_of
from freezeframe_schemas.vendors.exchange import attributes_of
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_objects, as_text, dump, parse

SEAM: Final = "request"
"""Seam of such a call."""
_WRAPPERS: Final = ("result", "output")
"""Fields in which Gemini's clients put a result that is not an object."""


def tools_in_requests(steps: Sequence[Step]) -> Iterator[Exchange]:
    """Yield the calls of tools that only the model calls show, in order. A tool that a step reports itself is left out."""
    reported = {step.exchange.name for step in steps if step.exchange.kind in FUNCTIONS}
    reported |= {_name_of(step.exchange) for step in steps if step.exchange.kind is Kind.MCP and step.exchange.name == CALL}
    model_calls = [step.exchange for step in steps if step.exchange.kind is Kind.MODEL and step.exchange.request.method]
    messages = [attributes_of(exchange) for exchange in model_calls]
    results = [
        [
            part
            for message in messages_of(attributes, genai.INPUT_MESSAGES)
            for part in as_objects(message.get("parts"))
            if part.get("type") == "tool_call_response" and has_result(part)
        ]
        for attributes in messages
    ]
    without_id = 0
    for place, exchange in enumerate(model_calls):
        calls = (part for part in answer_parts(messages[place]) if part.get("type") == "tool_call")
        for number, part in enumerate(calls):
            call_id, name = part.get("id"), as_text(part.get("name")) or ""
            result = next((r for later in results[place + 1 :] for r in later if call_id and r.get("id") == call_id), None)
            if result is None:  # some APIs have no ids in their requests: results are in the order of the calls
                nth, without_id = without_id, without_id + 1
                unnamed = ([r for r in later if not r.get("id")] for later in results[place + 1 :])
                result = next((fitting[nth] for fitting in unnamed if len(fitting) > nth), None)
            if result is not None and name not in reported:
                yield _tool(exchange, f"{exchange.span_id}:{number}", part, name, result)


def _tool(model: Exchange, span_id: str, call: JsonObject, name: str, result: JsonObject) -> Exchange:
    request: JsonObject = {"args": [], "kwargs": as_object(arguments_of(call.get("arguments")))}
    result_bytes = values.encode(_result(result.get("response", result.get("result")))).encode()
    return Exchange(
        kind=Kind.TOOL,
        name=name,
        seam=SEAM,
        request=Request(body=dump(request).encode()),
        response=Response(chunks=(Chunk(data=result_bytes),), completion=Completion.COMPLETE),
        span_id=span_id,
        parent_span_id=model.parent_span_id,
        call_id=as_text(call.get("id")),
        lane=model.lane,
        start_time_unix_nano=model.end_time_unix_nano,
        end_time_unix_nano=model.end_time_unix_nano,
    )


def _result(value: JsonValue) -> JsonValue:
    """Return the value that a program passed to its client: the JSON in the text that it sent, or the text."""
    match value:
        case str() if value[:1] in ("{", "["):
            found = parse(value)
            return value if found is None else found
        case [{"type": "text", "text": str(text)}]:
            return _result(text)
        case dict() if len(value) == 1 and next(iter(value)) in _WRAPPERS:
            return next(iter(value.values()))
        case _:
            return value


def _name_of(exchange: Exchange) -> str:
    return as_text(as_object(as_object(parse(exchange.request.body)).get("kwargs")).get("name")) or ""
