"""The model calls that spans of another instrumentation report, with all details of each. Pure.

Some keep the content on the span, some in log records below it (`otlp.logs`), some in the provider's own JSON.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.meaning import messages_of
from freezeframe_schemas.span import AttributeValue, SpanRecord
from freezeframe_schemas.vendors.mastra import STEP
from freezeframe_schemas.wire import anthropic_messages, openai_chat, openai_responses
from freezeframe_schemas.wire.document import JsonObject, as_object, as_objects, dump, parse

SPOKEN: Final = frozenset({genai.OP_CHAT, genai.OP_TEXT_COMPLETION, genai.OP_GENERATE_CONTENT})
_REQUEST: Final = "input.value"
_ANSWER: Final = "output.value"
_DIALECTS: Final = {
    "response": openai_responses.DIALECT,
    "chat.completion": openai_chat.DIALECT,
    "message": anthropic_messages.DIALECT,
}
"""An answer's own type name -> its dialect."""
_MESSAGES: Final = (genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCall:
    """A model call as reported by one span and its log records."""

    span: SpanRecord
    """The span; or the log record, if several calls share a span."""
    attributes: Mapping[str, AttributeValue]
    sources: tuple[tuple[str, str], ...] = ()
    """Each value that the span itself lacks -> its source."""


def reported_calls(spans: Sequence[SpanRecord]) -> list[ReportedCall]:
    """Return the model calls that the spans report. Two spans may report the same call."""
    events: defaultdict[str, list[SpanRecord]] = defaultdict(list)
    for span in spans:
        if genai.EVENT_NAME in span.attributes:
            events[span.parent_span_id].append(span)
    plain = (span for span in spans if genai.EVENT_NAME not in span.attributes)
    steps = of_steps(spans)
    calls = (call for span in plain for call in _of_span(span, events[span.span_id]))
    return _with_answers_before([_with_step(call, steps.get(call.span.parent_span_id)) for call in calls])


def _with_step(call: ReportedCall, step: Mapping[str, AttributeValue] | None) -> ReportedCall:
    """Return the call with the content of the step around it."""
    if not step or call.attributes.get(genai.INPUT_MESSAGES):
        return call
    return replace(call, attributes={**call.attributes, **step}, sources=(*call.sources, ("messages", "the step around it")))


def _with_answers_before(calls: list[ReportedCall]) -> list[ReportedCall]:
    """Return the calls; a request with results of tools that it does not ask for gets the answers that do, by their ids.

    OpenLIT leaves such an answer out of the next request.
    """
    requests = [str(call.attributes.get(genai.INPUT_MESSAGES)) for call in calls]
    continued = {number for number, call in enumerate(calls) if call.attributes.get(genai.REQUEST_PREVIOUS_RESPONSE_ID)}
    alone = {number for number, text in enumerate(requests) if _RESULT in text and _CALL not in text} - continued
    if not alone:
        return calls
    answers = {
        str(part["id"]): message
        for call in calls
        for message in messages_of(call.attributes, genai.OUTPUT_MESSAGES)
        for part in as_objects(message.get("parts"))
        if part.get("type") == "tool_call" and part.get("id")
    }
    return [_with_answers(call, answers) if number in alone else call for number, call in enumerate(calls)]


def _with_answers(call: ReportedCall, answers: Mapping[str, JsonObject]) -> ReportedCall:
    messages: list[JsonObject] = []
    placed: list[JsonObject] = []
    for message in messages_of(call.attributes, genai.INPUT_MESSAGES):
        parts = as_objects(message.get("parts"))
        ids = (str(part.get("id")) for part in parts if part.get("type") == _RESULT)
        answer = next((answers[call_id] for call_id in ids if call_id in answers), None)
        if answer is not None and not any(answer is other for other in placed):
            if messages and messages[-1].get("role") == "assistant":  # its text, without its calls
                messages.pop()
            messages.append(answer)
            placed.append(answer)
        messages.append(message)
    if not placed:
        return call
    attributes = {**call.attributes, genai.INPUT_MESSAGES: dump([*messages])}
    return replace(
        call, attributes=attributes, sources=(*call.sources, ("calls of tools in the request", "the answers before"))
    )


_RESULT: Final = "tool_call_response"
_CALL: Final = '"tool_call"'


def _of_span(span: SpanRecord, events: Sequence[SpanRecord]) -> Iterator[ReportedCall]:
    details = [event for event in events if event.text(genai.EVENT_NAME) == genai.OPERATION_DETAILS_EVENT]
    if span.text(genai.OPERATION_NAME) not in SPOKEN and not details:
        return
    if len({event.text(genai.INPUT_MESSAGES) for event in details}) > 1:
        yield from (ReportedCall(span=event, attributes=event.attributes) for event in details)
        return
    attributes = dict(span.attributes)
    for event in details:
        for name, value in event.attributes.items():
            if name not in (genai.EVENT_NAME, genai.EVENT_BODY) and not attributes.get(name):
                attributes[name] = value
    for name in _MESSAGES:
        # Conventions 1.28 to 1.36 have a record for each message.
        messages = [message for event in events if event not in details for message in messages_of(event.attributes, name)]
        if messages and not attributes.get(name):
            attributes[name] = dump(list(messages))
    sources = _moved(span.attributes, attributes, "log records")
    whole = {**attributes, **_missing(span, attributes)}
    yield ReportedCall(
        span=span, attributes=whole, sources=(*sources, *_moved(attributes, whole, "the provider's JSON in the span"))
    )


def _moved(
    before: Mapping[str, AttributeValue], after: Mapping[str, AttributeValue], where: str
) -> tuple[tuple[str, str], ...]:
    return (("messages", where),) if any(before.get(name) != after.get(name) for name in _MESSAGES) else ()


def _missing(span: SpanRecord, attributes: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
    """Return the values that only the span's copy of the provider's JSON has; all messages, if the SDK dropped attributes."""
    verbatim = _verbatim(span)
    names = {name for name in verbatim if attributes.get(name) in (None, "", ())}
    if span.dropped_attributes_count:
        names |= verbatim.keys() & {*_MESSAGES, genai.SYSTEM_INSTRUCTIONS}
    if genai.INPUT_MESSAGES not in names:
        names.discard(genai.SYSTEM_INSTRUCTIONS)  # it is in the messages
    return {name: verbatim[name] for name in names}


def _verbatim(span: SpanRecord) -> dict[str, AttributeValue]:
    """Return the content of the provider's own request and answer, if the span keeps both whole."""
    answer = as_object(parse(span.text(_ANSWER) or ""))
    dialect = _DIALECTS.get(str(answer.get("object") or answer.get("type")))
    if dialect is None:
        return {}
    read_attributes = dialect.response_attributes(dump(answer).encode(), content_type="application/json", status=200)
    return {**dialect.request_attributes((span.text(_REQUEST) or "").encode()), **read_attributes}


# -- Take the messages of model calls from the span around them, as Mastra needs. Pure ---------------------------------
# A request shows only that a tool was called and that it gave a result. Both are known from the steps before: the
# answer has the call, and the tool's span has the result. Anything not found there stays lost, so that such a run is
# refused.


_TAKEN: Final = (genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES, genai.RESPONSE_ID)


@dataclass(slots=True)
class _Asked:
    """The tools that the steps of one agent asked for, in order; each appearance in a request uses one up."""

    calls: list[JsonObject] = field(default_factory=list[JsonObject])
    results: Mapping[str, str] = field(default_factory=dict[str, str])

    def filled(self, message: JsonObject, places: dict[str, int]) -> JsonObject:
        parts = [self._filled(part, places) for part in as_objects(message.get("parts"))]
        return {**message, "parts": [*parts]}

    def _filled(self, part: JsonObject, places: dict[str, int]) -> JsonObject:
        kind = str(part.get("type"))
        if kind not in ("tool_call", "tool_call_response") or "name" not in part or "arguments" in part:
            return part
        place = places.get(kind, 0)
        places[kind] = place + 1
        call = self.calls[place] if place < len(self.calls) else {}
        if call.get("name") != part["name"]:
            return part
        if kind == "tool_call":
            return call
        known = str(call.get("id"))
        return {"type": kind, "id": known, "response": self.results[known]} if known in self.results else part


def of_steps(spans: Sequence[SpanRecord]) -> dict[str, dict[str, AttributeValue]]:
    """Return each step's content of the model call in it, by the step's span id."""
    steps = [span for span in spans if span.text(genai.OPERATION_NAME) == STEP]
    results = {
        str(span.text(genai.TOOL_CALL_ID)): str(span.text(genai.TOOL_CALL_RESULT))
        for span in spans
        if steps and span.text(genai.TOOL_CALL_ID) and genai.TOOL_CALL_RESULT in span.attributes
    }
    agents: dict[str, _Asked] = {}
    found: dict[str, dict[str, AttributeValue]] = {}
    for step in sorted(steps, key=lambda span: span.start_time_unix_nano):
        agent = agents.setdefault(step.parent_span_id, _Asked(results=results))
        places: dict[str, int] = {}
        messages = [agent.filled(message, places) for message in messages_of(step.attributes, genai.INPUT_MESSAGES)]
        attributes = {name: step.attributes[name] for name in _TAKEN if name in step.attributes}
        if messages:
            attributes[genai.INPUT_MESSAGES] = dump([*messages])
        found[step.span_id] = attributes
        for message in messages_of(step.attributes, genai.OUTPUT_MESSAGES):
            agent.calls += [part for part in as_objects(message.get("parts")) if part.get("type") == "tool_call"]
    return found
