"""OpenInference's annotations and evaluations, as evaluation events of the GenAI conventions. Pure and idempotent.

Both forms, of a span, its trace or its session, on any span: a carrier that was sent later names its target by its only link.

Source: https://arize-ai.github.io/openinference/spec/feedback/annotations.html
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue, Event, SpanRecord
from freezeframe_schemas.vendors.dialect import indexed
from freezeframe_schemas.wire.document import as_object

_FORMS: Final = [
    (f"{prefix}{form}s", form, judged)
    for prefix, judged in (("", ""), ("trace.", "run"), ("session.", "session"))
    for form in ("annotation", "evaluation")
]
"""Prefix of the indexed attributes, the name within, and the judged thing if it is not the span."""
_FIRST: Final = frozenset(f"{prefix}.0.{form}.name" for prefix, form, _ in _FORMS)
"""Each collection begins at 0, and each item has a name."""
_FIELDS: Final = {
    "name": genai.EVALUATION_NAME,
    "score": genai.EVALUATION_VALUE,
    "label": genai.EVALUATION_LABEL,
    "explanation": genai.EVALUATION_EXPLANATION,
    "annotator_kind": genai.EVALUATION_BY,
}


def with_evaluations(span: SpanRecord) -> SpanRecord:
    """Return the span with an event for each of its annotations that has none yet."""
    if _FIRST.isdisjoint(span.attributes):
        return span
    present = {_verdict(event) for event in span.events}
    return replace(span, events=(*span.events, *(event for event in _events(span) if _verdict(event) not in present)))


def _events(span: SpanRecord) -> Iterator[Event]:
    for prefix, form, judged in _FORMS:
        for item in indexed(span.attributes, prefix):
            fields = as_object(item.get(form))
            found: dict[str, AttributeValue] = {
                name: value
                for field, name in _FIELDS.items()
                if isinstance(value := fields.get(field), str | int | float) and not isinstance(value, bool)
            }
            if genai.EVALUATION_NAME in found and len(found) > 1:
                found |= {genai.EVALUATION_OF: judged} if judged else {}
                yield Event(time_unix_nano=span.end_time_unix_nano, name=genai.EVALUATION_EVENT, attributes=found)


def _verdict(event: Event) -> tuple[AttributeValue, ...]:
    """Return what makes two events the same verdict, whichever convention they come from."""
    names = (genai.EVALUATION_NAME, genai.EVALUATION_VALUE, genai.EVALUATION_LABEL, genai.EVALUATION_OF)
    return (event.name, *(event.attributes.get(name) for name in names))
