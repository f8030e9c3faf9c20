"""Take the messages of model calls from the span around them, as Mastra needs. Pure.

A request shows only that a tool was called and that it gave a result. Both are known from the steps before: the answer has
the call, and the tool's span has the result. Anything not found there stays lost, so that such a run is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.meaning import messages_of
from freezeframe_schemas.span import AttributeValue, SpanRecord
from freezeframe_schemas.vendors.mastra import STEP
from freezeframe_schemas.wire.document import JsonObject, as_objects, dump

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
