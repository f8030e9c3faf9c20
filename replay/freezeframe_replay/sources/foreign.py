"""Spans of other instrumentations that did not pass through the collector: read by its rules, and joined into runs.

A client that is instrumented by itself, without a span around the run, sends a trace for each call. Such traces are one run if
each carries on the conversation of the one before it.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from freezeframe_schemas import genai
from freezeframe_schemas.meaning import answer_parts, contents_of, request_meaning, same
from freezeframe_schemas.reported_calls import ReportedCall, reported_calls
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.vendors.normalise import normalise
from freezeframe_schemas.wire.document import as_objects

if TYPE_CHECKING:
    from freezeframe_replay.sources.store import RunStore

_MAX_TRACES: Final = 100
"""Limit of the store's traces that are examined for those of one run."""
_GATEWAY: Final = "litellm.call_id"
"""Attribute of a call that came through LiteLLM: its proxy traces each request by itself, below a span of its server."""


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


def continued(store: RunStore, spans: list[SpanRecord]) -> list[SpanRecord]:
    """Return the spans of a run of the store, with those of the traces that it carries on or that carry it on.

    Searched if a model call is the root of its trace, or a gateway made it: among traces of the same service and session,
    within an hour.
    """
    roots = [span for span in spans if not span.parent_span_id]
    calls = {call.span.span_id: call for call in reported_calls(spans)}
    is_of_call = calls.keys() >= {root.span_id for root in roots} or any(_GATEWAY in c.attributes for c in calls.values())
    if _is_ours(spans) or not roots or not is_of_call:
        return spans
    first = roots[0]
    at = dt.datetime.fromtimestamp(first.start_time_unix_nano / 1e9, dt.UTC)
    near = store.list_runs(
        _MAX_TRACES,
        where="service = {_service:String} AND session_id = {_of:String} AND trace_id != {_this:String} AND exchanges = 0 "
        "AND model_calls > 0 AND abs(dateDiff('second', start_time, {_at:DateTime64(6)})) < 3600",
        parameters={
            "_this": first.trace_id,
            "_service": str(first.resource.attributes.get(genai.SERVICE_NAME) or ""),
            "_of": first.text(genai.SESSION_ID) or "",
            "_at": at.replace(tzinfo=None),
        },
        order="abs(dateDiff('millisecond', start_time, {_at:DateTime64(6)})), trace_id",
    )
    traces = [spans, *(store.load_spans(row.trace_id) for row in near)]
    mine = {span.span_id for span in spans}
    return next(run for run in joined(traces) if not mine.isdisjoint(span.span_id for span in run))


def _is_ours(spans: Iterable[SpanRecord]) -> bool:
    return any(genai.EXCHANGE_KIND in span.attributes or genai.ENTRY_KIND in span.attributes for span in spans)


def _belongs_to(run: Sequence[SpanRecord], spans: Sequence[SpanRecord]) -> bool:
    """Return whether a trace carries on the run's conversation, or reports the same answers once more."""
    if _is_ours(run):
        return False
    return _is_reported_again(run, spans) or _carries_on(run, spans)


def _is_reported_again(run: Sequence[SpanRecord], spans: Sequence[SpanRecord]) -> bool:
    """Return whether each call of the trace has the id of calls of the run, and the same or no content: some ids repeat."""
    known = defaultdict[object, list[ReportedCall]](list)
    for call in reported_calls(run):
        known[call.attributes.get(genai.RESPONSE_ID)].append(call)
    calls = reported_calls(spans)
    return bool(calls) and all(
        (own := call.attributes.get(genai.RESPONSE_ID)) and own in known and all(_agree(call, one) for one in known[own])
        for call in calls
    )


def _agree(call: ReportedCall, other: ReportedCall) -> bool:
    pairs = ((_texts_of(call), _texts_of(other)), (_answer(call), _answer(other)))
    return all(not mine or not theirs or mine == theirs for mine, theirs in pairs)


def _carries_on(run: Sequence[SpanRecord], spans: Sequence[SpanRecord]) -> bool:
    """Return whether a request of the trace names an answer of the run as the one before it, or begins as the run ended.

    That is with a request of the run and the answer that it got.
    """
    ids = {span.span_id for span in spans}
    calls = reported_calls([*run, *spans])
    mine = [call for call in calls if call.span.span_id in ids]
    before = [call for call in calls if call.span.span_id not in ids]
    named = {str(call.attributes.get(genai.REQUEST_PREVIOUS_RESPONSE_ID) or "") for call in mine} - {""}
    if any(str(call.attributes.get(genai.RESPONSE_ID)) in named for call in before):
        return True
    prompts = [_texts_of(call) for call in mine]
    for call in before:
        said, answer = _texts_of(call), _answer(call)
        if said and answer and any(later[: len(said) + len(answer)] == said + answer for later in prompts):
            return True
    return False


def _texts_of(call: ReportedCall) -> list[str]:
    return [same(item) for item in as_objects(request_meaning(call.attributes)["messages"])]


def _answer(call: ReportedCall) -> list[str]:
    return [same(item) for item in contents_of(answer_parts(call.attributes))]
