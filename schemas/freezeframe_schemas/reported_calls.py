"""The model calls that spans of another instrumentation report, with all details of each. Pure.

Some keep the content on the span, some in log records below it (`otlp.logs`), some in the provider's own JSON.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.meaning import messages_of
from freezeframe_schemas.reported_steps import of_steps
from freezeframe_schemas.span import AttributeValue, SpanRecord
from freezeframe_schemas.wire import anthropic_messages, openai_chat, openai_responses
from freezeframe_schemas.wire.document import as_object, dump, parse

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
    return [_with_step(call, steps.get(call.span.parent_span_id)) for call in calls]


def _with_step(call: ReportedCall, step: Mapping[str, AttributeValue] | None) -> ReportedCall:
    """Return the call with the content of the step around it."""
    if not step or call.attributes.get(genai.INPUT_MESSAGES):
        return call
    return replace(call, attributes={**call.attributes, **step}, sources=(*call.sources, ("messages", "the step around it")))


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
