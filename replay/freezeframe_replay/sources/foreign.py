"""Spans of other instrumentations that did not come through the collector: read as it reads them, and put together. Pure.

A client that is instrumented by itself, without a span around the run, sends a trace for each call. Such traces are one run if
each carries on the conversation of the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from freezeframe_schemas import genai
from freezeframe_schemas.meaning import answer_parts, request_meaning, said_by, same
from freezeframe_schemas.reported_calls import ReportedCall, reported_calls
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.vendors.normalise import normalise
from freezeframe_schemas.wire.document import as_objects


def in_conventions(spans: Sequence[SpanRecord]) -> list[SpanRecord]:
    """Return the spans with the GenAI attributes that their vendors' attributes imply; our own runs unchanged."""
    return list(spans) if _is_ours(spans) else [normalise(span) for span in spans]


def joined(traces: Iterable[Sequence[SpanRecord]]) -> list[list[SpanRecord]]:
    """Return the spans of each run. Traces of one run get the id of its first. Each trace of our own is a run by itself."""
    runs: list[list[SpanRecord]] = []
    read = sorted(map(in_conventions, traces), key=lambda spans: min(span.start_time_unix_nano for span in spans))
    for spans in read:
        before = None if _is_ours(spans) else next((run for run in reversed(runs) if _belongs_to(run, spans)), None)
        if before is None:
            runs.append(spans)
        else:
            before += [replace(span, trace_id=before[0].trace_id) for span in spans]
    return runs


def _is_ours(spans: Iterable[SpanRecord]) -> bool:
    return any(genai.EXCHANGE_KIND in span.attributes or genai.ENTRY_KIND in span.attributes for span in spans)


def _belongs_to(run: Sequence[SpanRecord], spans: Sequence[SpanRecord]) -> bool:
    """Return whether a trace carries on the run's conversation, or reports the same answers once more."""
    if _is_ours(run):
        return False
    others = _response_ids(spans)
    return (bool(others) and _response_ids(run) >= others) or _carries_on(run, spans)


def _response_ids(spans: Iterable[SpanRecord]) -> set[str]:
    return {text for span in spans if (text := span.text(genai.RESPONSE_ID))}


def _carries_on(run: Sequence[SpanRecord], spans: Sequence[SpanRecord]) -> bool:
    """Return whether a request of the trace begins with a request of the run and the answer that it got."""
    asked = [_said(call) for call in reported_calls(spans)]
    for call in reported_calls(run):
        said, answer = _said(call), [same(item) for item in said_by(answer_parts(call.attributes))]
        if said and answer and any(later[: len(said) + len(answer)] == said + answer for later in asked):
            return True
    return False


def _said(call: ReportedCall) -> list[str]:
    return [same(item) for item in as_objects(request_meaning(call.attributes)["messages"])]
