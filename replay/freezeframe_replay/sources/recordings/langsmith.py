"""Runs of LangSmith, as its API and its exports give them: a JSON array, ``{"runs": [...]}``, or a run a line.

The inputs and outputs of a model's run are the provider's own JSON, or LangChain's messages; both are read by the dialect for
LangSmith's spans, so a run becomes such a span.

Source: https://docs.langchain.com/langsmith/run-data-format
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from freezeframe_replay.sources.recordings.http_calls import Origin, iso_time
from freezeframe_replay.sources.recordings.json_items import each, listed
from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue, SpanRecord, StatusCode
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_text, dump


def read_langsmith(path: Path, origin: Origin) -> Iterator[SpanRecord]:
    """Return the spans of the runs in a file. Their ids are UUIDs, of which a trace's is kept.

    Raises:
        WireError: a run does not follow the format; the message says which.
    """
    del origin
    return each(path, "run", listed(path, "runs"), langsmith_span)


def langsmith_span(item: JsonObject) -> SpanRecord:
    """Return a run as a span.

    Raises:
        ValueError: it does not follow the format.
    """
    run_type = as_text(item.get("run_type")) or ""
    start = iso_time(item.get("start_time"), "start_time")
    ended, parent = item.get("end_time"), item.get("parent_run_id")
    own = _uuid(item.get("id"), "id")
    trace = _uuid(item.get("trace_id") or item.get("id"), "trace_id")
    error = as_text(item.get("error"))
    return SpanRecord(
        trace_id=trace.hex,
        span_id=_short(own),
        parent_span_id=_short(_uuid(parent, "parent_run_id")) if parent else "",
        name=as_text(item.get("name")) or run_type or "run",
        start_time_unix_nano=start,
        end_time_unix_nano=max(start, iso_time(ended, "end_time")) if ended else start,
        attributes=_attributes(item, run_type),
        status_code=StatusCode.ERROR if error else StatusCode.UNSET,
        status_message=error or "",
    )


def _attributes(item: JsonObject, run_type: str) -> dict[str, AttributeValue]:
    inputs, outputs = as_object(item.get("inputs")), as_object(item.get("outputs"))
    told: dict[str, AttributeValue] = {"langsmith.span.kind": run_type, genai.PAST_PROMPT: dump(inputs)}
    if outputs:
        told[genai.PAST_COMPLETION] = dump(outputs)
    if run_type == "retriever":
        query, documents = as_text(inputs.get("query", inputs.get("input"))), outputs.get("documents", outputs.get("output"))
        told |= {genai.RETRIEVAL_QUERY: query, genai.RETRIEVAL_DOCUMENTS: dump(documents) if documents else None}
    for name, value in as_object(as_object(item.get("extra")).get("metadata")).items():
        told[f"langsmith.metadata.{name}"] = dump(value) if isinstance(value, dict | list) else value
    return {key: value for key, value in told.items() if value is not None}


def _uuid(value: JsonValue, name: str) -> UUID:
    try:
        return UUID(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError(f"{name}: expected a UUID") from None


def _short(value: UUID) -> str:
    return hashlib.sha256(value.bytes).hexdigest()[:16]
