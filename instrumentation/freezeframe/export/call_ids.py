"""Find which of the model's tool calls a recorded tool answers, if the framework did not say.

The model's answer names the calls that it asks for, with ids; a plain function that runs next under that name with those
arguments is the answer to it. Runs on the exporter's thread, over spans in the order of their end.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any, Final

from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.span import SpanRecord

_MAX_TRACES: Final = 1000
"""Runs in progress at once; beyond this, ids of the oldest are no longer found."""


class CallIds:
    """The calls that models asked for and no tool has answered yet, by trace."""

    def __init__(self) -> None:
        self._asked: OrderedDict[str, list[tuple[str, str, Any]]] = OrderedDict()

    def link(self, record: SpanRecord) -> SpanRecord:
        """Return the span; if it is a tool's without a call id, with the id of the call that it answers."""
        kind = record.text(genai.EXCHANGE_KIND)
        if kind == Kind.MODEL.value:
            self._note(record)
        elif kind == Kind.TOOL.value:
            return self._answer(record)
        return record

    def _note(self, record: SpanRecord) -> None:
        text = record.text(genai.OUTPUT_MESSAGES)
        if text is None or '"tool_call"' not in text:
            return
        open_calls = self._asked.setdefault(record.trace_id, [])
        self._asked.move_to_end(record.trace_id)
        for message in json.loads(text):
            for part in message.get("parts", ()):
                if part.get("type") == "tool_call" and part.get("id"):
                    open_calls.append((part["id"], part.get("name", ""), _parsed(part.get("arguments"))))
        while len(self._asked) > _MAX_TRACES:
            self._asked.popitem(last=False)

    def _answer(self, record: SpanRecord) -> SpanRecord:
        open_calls = self._asked.get(record.trace_id)
        if not open_calls:
            return record
        call_id = record.text(genai.TOOL_CALL_ID)
        if call_id is not None:
            self._asked[record.trace_id] = [call for call in open_calls if call[0] != call_id]
            return record
        name, arguments = record.text(genai.TOOL_NAME), _parsed(record.text(genai.TOOL_CALL_ARGUMENTS))
        same_name = [call for call in open_calls if call[1] == name]
        match = next((call for call in same_name if call[2] == arguments), same_name[0] if len(same_name) == 1 else None)
        if match is None:
            return record
        open_calls.remove(match)
        return record.with_attributes({genai.TOOL_CALL_ID: match[0]})


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
