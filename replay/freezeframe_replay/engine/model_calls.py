"""The model calls of a run that another instrumentation recorded: each once, with all that its spans report. Pure.

Several spans may report one call: an SDK's own and an instrumentation's, a framework's around the SDK's; and a helper's may
hold nothing. The ledger lists what is merged or left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.fixture import Loss
from freezeframe_schemas.meaning import answer_parts, contents_of, has_result, messages_of, request_meaning, same
from freezeframe_schemas.reported_calls import reported_calls
from freezeframe_schemas.run import Run
from freezeframe_schemas.span import AttributeValue, SpanRecord, StatusCode
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_objects

WRITTEN: Final = frozenset({"text", "tool_call", "reasoning"})
"""Kinds of parts that an answer is written from."""


@dataclass(slots=True, kw_only=True)
class ModelCall:
    """A model call, while it is put together."""

    span: SpanRecord
    attributes: dict[str, AttributeValue]
    losses: list[tuple[str, str]]
    asked: JsonObject = field(default_factory=dict[str, JsonValue])
    parts: list[JsonObject] = field(default_factory=list[JsonObject])

    @property
    def has_content(self) -> bool:
        """Return whether it reports a request or an answer."""
        return bool(self.attributes.get(genai.INPUT_MESSAGES) or self.attributes.get(genai.OUTPUT_MESSAGES))


def model_calls(run: Run, ledger: list[Loss]) -> list[ModelCall]:
    """Return the calls that a replay may ask for, in order, each once and with everything that any span reports about it."""
    found = [
        ModelCall(span=reported.span, attributes=dict(reported.attributes), losses=list(reported.sources))
        for reported in reported_calls(run.spans)
    ]
    sharing = sum(call.span.text(genai.EVENT_NAME) is not None for call in found)
    if sharing:
        ledger.append(Loss(field="calls", source=f"{sharing} calls share their spans with others: taken from log records"))
    by_id = {span.span_id: span for span in run.spans}
    kept: list[ModelCall] = []
    doubles = empty = 0
    for call in found:
        better = None if call.has_content else _better_report(call, found, by_id)
        if better is not None:
            better.attributes = {**call.attributes, **better.attributes}
            doubles += 1
        elif not call.has_content and call.span.status_code is not StatusCode.ERROR and any(c.has_content for c in found):
            empty += 1
        else:
            kept.append(call)
    inner: list[ModelCall] = []
    for call in kept:
        first = next((other for other in inner if _is_reported_again(other, call)), None)
        if first is not None:
            first.attributes = {**call.attributes, **first.attributes}
        elif not any(_is_wrapped_by(other, call, by_id) for other in kept):
            inner.append(call)
    doubles += len(kept) - len(inner)
    if doubles:
        ledger.append(Loss(field="doubles", source=f"{doubles} spans report a call that another span reports better: merged"))
    if empty:
        ledger.append(Loss(field="empty spans", source=f"{empty} spans are marked as model calls and hold nothing: left out"))
    for call in inner:
        call.asked, call.parts = request_meaning(call.attributes), answer_parts(call.attributes)
    _mend_ids(inner)
    for call in inner:
        call.losses += _losses(call)
    return inner


def _better_report(call: ModelCall, found: Sequence[ModelCall], by_id: Mapping[str, SpanRecord]) -> ModelCall | None:
    """Return the call with content that is the same call: by response id, because its span is around it, or by its time."""
    response_id = call.attributes.get(genai.RESPONSE_ID)
    others = [other for other in found if other is not call and other.has_content]
    by_response = (o for o in others if response_id and o.attributes.get(genai.RESPONSE_ID) == response_id)
    around = (o for o in others if o.span in spans_above(call.span, by_id))
    start = call.span.start_time_unix_nano
    at_the_time = (o for o in others if o.span.start_time_unix_nano <= start <= o.span.end_time_unix_nano)
    return next((other for ways in (by_response, around, at_the_time) for other in ways), None)


def _is_reported_again(first: ModelCall, call: ModelCall) -> bool:
    """Return whether two instrumentations report one call: the same answer, by its id."""
    response_id = call.attributes.get(genai.RESPONSE_ID)
    if not response_id or response_id != first.attributes.get(genai.RESPONSE_ID):
        return False
    # Some servers give every answer the same id.
    answers = [list(map(same, contents_of(answer_parts(reported.attributes)))) for reported in (first, call)]
    return answers[0] == answers[1]


def _is_wrapped_by(outer: ModelCall, inner: ModelCall, by_id: Mapping[str, SpanRecord]) -> bool:
    """Return whether `inner` is an outer span that repeats what the span below it says."""
    if outer is inner or not outer.has_content:
        return False
    repeats = outer.attributes.get(genai.OUTPUT_MESSAGES) == inner.attributes.get(genai.OUTPUT_MESSAGES)
    return repeats and inner.span in spans_above(outer.span, by_id)


def spans_above(span: SpanRecord, by_id: Mapping[str, SpanRecord]) -> Iterator[SpanRecord]:
    """Yield the spans around a span, the nearest first."""
    seen = {span.span_id}
    while (found := by_id.get(span.parent_span_id)) is not None and found.span_id not in seen:
        seen.add(found.span_id)
        yield found
        span = found


def _mend_ids(calls: Sequence[ModelCall]) -> None:
    """Set the ids of tool calls to those of their results in the next request, if the span has others or none."""
    answered = {str(part.get("id")) for call in calls for part in parts_in_request(call, "tool_call_response")}
    for number, call in enumerate(calls):
        tool_calls = [part for part in call.parts if part.get("type") == "tool_call"]
        if not tool_calls or {str(part.get("id")) for part in tool_calls} & answered:
            continue
        contents = [same(item) for item in contents_of(tool_calls)]
        for later in calls[number + 1 :]:
            reported = list(parts_in_request(later, "tool_call"))
            results = list(parts_in_request(later, "tool_call_response"))
            slices = ((end, reported[end - len(tool_calls) : end]) for end in range(len(tool_calls), len(reported) + 1))
            ends = [end for end, part in slices if [same(item) for item in contents_of(part)] == contents]
            if not ends or len(results) < ends[0]:
                continue
            for part, result in zip(tool_calls, results[ends[0] - len(tool_calls) : ends[0]], strict=True):
                part["id"] = result.get("id")
            call.losses.append(("tool call ids", "next request"))
            break


def parts_in_request(call: ModelCall, kind: str) -> Iterator[JsonObject]:
    for message in messages_of(call.attributes, genai.INPUT_MESSAGES):
        yield from (part for part in as_objects(message.get("parts")) if part.get("type") == kind)


def _losses(call: ModelCall) -> Iterator[tuple[str, str]]:
    """Yield what the spans did not say about a call."""
    attributes = call.attributes
    if not call.asked["messages"]:
        yield "request messages", "absent"
    if not all(has_result(part) for part in parts_in_request(call, "tool_call_response")):
        yield "tool results in the request", "absent"
    if not attributes.get(genai.REQUEST_MODEL):
        yield "requested model", "absent"
    if not call.parts:
        failed = call.span.status_code is StatusCode.ERROR
        yield "answer", "made from the exception's text" if failed else "absent"
        return
    if other := sorted({str(part.get("type")) for part in call.parts} - WRITTEN):
        yield "answer", f"left out: parts of the kind {', '.join(other)}"
    choices = attributes.get(genai.REQUEST_CHOICE_COUNT)
    if isinstance(choices, int) and choices > 1:
        yield "answer", f"the first of {choices} choices"
    if any(part.get("type") == "tool_call" and not part.get("id") for part in call.parts):
        yield "tool call ids", "made up"
    for name, reported in (
        (genai.RESPONSE_FINISH_REASONS, "finish reason"),
        (genai.RESPONSE_ID, "response id"),
        (genai.RESPONSE_MODEL, "answered model"),
        (genai.USAGE_OUTPUT_TOKENS, "usage"),
    ):
        if attributes.get(name) in (None, "", ()):
            yield reported, "made up"
