"""Log records of coding agents: one run for each session.

Claude Code, Codex CLI and Gemini CLI report their work in log records, which have the session's id and, as a rule, no span.
So the run's trace id is made from the session's id, and every record of the session is a root of that run. A
record with a duration is written when the reported operation has ended. The dialects interpret it.

Source: code.claude.com/docs/en/monitoring-usage; openai/codex, codex-rs/otel; google-gemini/gemini-cli,
packages/core/src/telemetry.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.coding_agents import CODEX, CodingAgent
from freezeframe_schemas.span import AttributeValue, Link, SpanRecord, StatusCode

_DURATION_MS: Final = "duration_ms"
_ERRORS: Final = ("error.message", "error")
_FAILED: Final = (("success", False), ("success", "false"), ("decision", "reject"))
_MAX_DURATION_MS: Final = 366 * 24 * 3600 * 1000


def is_kept(span: SpanRecord) -> bool:
    """Return False for a record that only reports a piece of a stream: Codex sends hundreds for one answer."""
    names = ("input_token_count", *_ERRORS)
    return span.name != f"{CODEX.events}sse_event" or any(name in span.attributes for name in names)


def in_session(span: SpanRecord, agent: CodingAgent) -> SpanRecord:
    """Return the span of a log record in the run of its session; in its own trace, if the record does not name a session."""
    attributes: dict[str, AttributeValue] = {
        # Gemini CLI sends each record of a call twice, in its own words and in the conventions'. These would count again.
        f"{agent.events}{name}" if name.startswith(genai.EVENT_PREFIX) else name: value
        for name, value in span.attributes.items()
    }
    ended = span.end_time_unix_nano
    took_ms = min(max(number(attributes.get(_DURATION_MS)) or 0, 0), _MAX_DURATION_MS)
    error = next((text for name in _ERRORS if isinstance(text := attributes.get(name), str) and text), "")
    failed = error or any(attributes.get(name) == value for name, value in _FAILED)
    placed = replace(
        span,
        name=span.name if span.name.startswith(agent.events) else f"{agent.events}{span.name}",
        start_time_unix_nano=max(ended - round(took_ms * 1e6), 0),
        status_code=StatusCode.ERROR if failed else StatusCode.UNSET,
        status_message=error,
        attributes=attributes,
    )
    session = span.text(agent.session) or _text(span.resource.attributes.get(agent.session))
    if not session:
        return placed
    return replace(
        placed,
        trace_id=hashlib.blake2b(f"{agent.events}\0{session}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(),
        parent_span_id="",
        links=(Link(trace_id=span.trace_id, span_id=span.parent_span_id),) if span.trace_id and span.parent_span_id else (),
    )


def number(value: AttributeValue) -> float | None:
    """Return a number that is written as a number or, by some versions, as text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if abs(found) < float("inf") else None


def _text(value: AttributeValue) -> str:
    return value if isinstance(value, str) else ""
