"""What the log records of coding agents have in common, for one dialect each: `sessions` has put them into one run per session.

A prompt is an entry point of the run, a request or its answer a model call, a tool's result a tool call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.coding_agents import CodingAgent
from freezeframe_schemas.otlp.sessions import number
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.vendors.dialect import Dialect
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.openai_content import read_message

_HIDDEN: Final = ("<REDACTED>", "[REDACTED]")
"""What Claude Code and Codex write in the place of a text that they are not to log."""

Derive = Callable[[str, SpanRecord, AttributeWriter], None]
"""Takes the event's name without the agent's own, the span and where to write."""


def session_dialect(agent: CodingAgent, *, derive: Derive, user: Sequence[str]) -> Dialect:
    """Return the dialect of a coding agent; `user` names attributes, of which the first with a value counts."""

    def fits(span: SpanRecord) -> bool:
        return span.name.startswith(agent.events) and genai.EVENT_NAME in span.attributes

    def derive_record(span: SpanRecord, out: AttributeWriter) -> None:
        out.text(genai.SESSION_ID, span.text(agent.session))
        out.text(genai.CONVERSATION_ID, span.text(agent.session))
        out.text(genai.USER_ID, next((found for name in user if (found := span.text(name))), None))
        derive(span.name.removeprefix(agent.events), span, out)

    return Dialect(name=agent.events.removesuffix("."), fits=fits, derive=derive_record)


def read_prompt(span: SpanRecord, out: AttributeWriter) -> None:
    """Write what a person asked the agent; without its text if the agent is not to log it."""
    out.text(genai.ENTRY_KIND, genai.ENTRY_PROMPT)
    read_text(genai.INPUT_MESSAGES, "user", span.text("prompt"), out)


def read_text(name: str, role: str, text: str | None, out: AttributeWriter) -> None:
    """Write a message of this text, if the agent logged it."""
    if text and text not in _HIDDEN:
        out.messages(name, [read_message({"role": role, "content": text})])


def read_request(span: SpanRecord, out: AttributeWriter) -> None:
    """Write what was asked for. It is not a call by itself: the record of the answer, or of the failure, is."""
    out.text(genai.REQUEST_MODEL, span.text("model"))


def read_call(span: SpanRecord, operation: str, out: AttributeWriter) -> None:
    """Write what an answer and a failure have in common."""
    out.text(genai.OPERATION_NAME, operation)
    read_request(span, out)
    out.integer(genai.HTTP_RESPONSE_STATUS_CODE, count_of(span, "status_code"))


def read_tool(span: SpanRecord, out: AttributeWriter, *, name: str, call: str = "", arguments: str) -> None:
    """Write a tool call; the parameters name attributes."""
    out.text(genai.OPERATION_NAME, genai.OP_EXECUTE_TOOL)
    out.text(genai.TOOL_NAME, span.text(name))
    out.text(genai.TOOL_CALL_ID, span.text(call))
    out.text(genai.TOOL_CALL_ARGUMENTS, span.text(arguments))


def count_of(span: SpanRecord, name: str) -> int | None:
    """Return a whole number, which some versions write as text."""
    found = number(span.attributes.get(name))
    return None if found is None else int(found)
