"""Runs built by hand, span by span, for tests of the engine and of what is built on it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from freezeframe_schemas import genai, values
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Kind, Lane, Request, Response, exchange_attributes
from freezeframe_schemas.run import EntryKind
from freezeframe_schemas.span import AttributeValue, Resource, SpanRecord

TRACE = "ab" * 16
SECOND_NS = 1_000_000_000


def model_call(prompt: str, answer: str, *, lane: Lane = (), model: str = "gpt-x") -> Exchange:
    """Return a chat completion as the httpx seam records one."""
    body = {"model": model, "messages": [{"role": "user", "content": prompt}]}
    return Exchange(
        kind=Kind.MODEL,
        name="POST /v1/chat/completions",
        seam="httpx2",
        dialect="openai.chat",
        lane=lane,
        request=Request(
            method="POST",
            url="https://api.openai.com/v1/chat/completions",
            headers=(("content-type", "application/json"),),
            body=json.dumps(body, separators=(",", ":")).encode(),
        ),
        response=Response(
            status=200,
            headers=(("content-type", "application/json"),),
            chunks=(Chunk(data=json.dumps({"choices": [{"message": {"content": answer}}]}).encode(), offset_ns=5),),
        ),
    )


def conversation(count: int) -> list[Exchange]:
    """Return model calls of one conversation: each sends all messages before it."""
    messages: list[dict[str, str]] = [{"role": "user", "content": "Think."}]
    found: list[Exchange] = []
    for number in range(count):
        call = model_call("", answer := f"thought **{number}**")
        body = json.dumps({"model": "gpt-x", "messages": messages}, separators=(",", ":")).encode()
        found.append(replace(call, request=replace(call.request, body=body)))
        messages = [*messages, {"role": "assistant", "content": answer}]
    return found


def tool_call(name: str, result: Any, *args: Any, lane: Lane = (), **kwargs: Any) -> Exchange:
    """Return a call of a decorated function."""
    return Exchange(
        kind=Kind.TOOL,
        name=name,
        seam="decorator",
        lane=lane,
        request=Request(body=values.encode({"args": list(args), "kwargs": kwargs}).encode()),
        response=Response(chunks=(Chunk(data=values.encode(result).encode()),), completion=Completion.COMPLETE),
    )


def moved(spans: list[SpanRecord], trace_id: str, by_ns: int) -> list[SpanRecord]:
    """Return the run under another id, at another time."""
    return [
        replace(
            span,
            trace_id=trace_id,
            start_time_unix_nano=span.start_time_unix_nano + by_ns,
            end_time_unix_nano=span.end_time_unix_nano + by_ns,
        )
        for span in spans
    ]


def make_run(
    *exchanges: Exchange, question: str = "where is it?", answer: Any = "here", inside: dict[int, int] | None = None
) -> list[SpanRecord]:
    """Return the spans of a run: an entry span and one span for each exchange, in order.

    ``inside={1: 0}`` puts the exchange at index 1 inside the one at index 0.
    """
    resource = Resource(attributes={genai.SERVICE_NAME: "agent", genai.TIMEZONE: "UTC", genai.RUNTIME_VERSION: "3.11.7"})
    entry = SpanRecord(
        trace_id=TRACE,
        span_id="e" * 16,
        name="answer",
        start_time_unix_nano=SECOND_NS,
        end_time_unix_nano=100 * SECOND_NS,
        attributes={
            genai.ENTRY_KIND: EntryKind.FUNCTION.value,
            genai.ENTRY_TARGET: "agent:answer",
            genai.ENTRY_INPUT: values.encode({"args": [question], "kwargs": {}}),
            genai.ENTRY_OUTPUT: values.encode(answer),
            genai.FLAGS: "{}",
            genai.ENTRY_ENVIRONMENT: "{}",
        },
        resource=resource,
    )
    ids = [f"{index + 1:016x}" for index in range(len(exchanges))]
    spans = [entry]
    for index, exchange in enumerate(exchanges):
        outer = (inside or {}).get(index)
        spans.append(
            SpanRecord(
                trace_id=TRACE,
                span_id=ids[index],
                parent_span_id=entry.span_id if outer is None else ids[outer],
                name=exchange.name,
                start_time_unix_nano=(index + 2) * SECOND_NS,
                end_time_unix_nano=(index + 3) * SECOND_NS,
                attributes={**exchange_attributes(exchange), genai.EXCHANGE_SEQUENCE: index},
                resource=resource,
            )
        )
    return spans


def told(spans: list[SpanRecord]) -> list[SpanRecord]:
    """Return the run as another instrumentation reports it: operations, arguments and results, and no exchange."""
    return [replace(span, attributes=_attributes_of(span)) for span in spans]


def _attributes_of(span: SpanRecord) -> dict[str, AttributeValue]:
    names = {
        Kind.TOOL: (genai.OP_EXECUTE_TOOL, genai.TOOL_CALL_ARGUMENTS, genai.TOOL_CALL_RESULT),
        Kind.RETRIEVAL: (genai.OP_RETRIEVAL, genai.RETRIEVAL_QUERY, genai.RETRIEVAL_DOCUMENTS),
    }
    kept = {
        name: value for name, value in span.attributes.items() if name == genai.TENANT or not name.startswith("freezeframe.")
    }
    kind = span.text(genai.EXCHANGE_KIND)
    if kind not in names:
        return kept
    operation, asked, answered = names[Kind(kind)]
    body = {asked: span.text(genai.REQUEST_BODY) or "", answered: span.text(genai.RESPONSE_BODY) or ""}
    return {**kept, genai.OPERATION_NAME: operation, **body}
