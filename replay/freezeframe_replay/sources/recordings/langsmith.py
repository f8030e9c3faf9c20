"""Runs of LangSmith, as its API and its exports give them: a JSON array, ``{"runs": [...]}``, or a run a line.

The inputs and outputs of a model's run are the provider's own JSON, or LangChain's messages; both are read by the dialect for
LangSmith's spans, so a run becomes such a span.

Source: https://docs.langchain.com/langsmith/run-data-format
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from freezeframe_replay.sources.recordings.http_calls import Origin
from freezeframe_replay.sources.recordings.json_items import each, listed
from freezeframe_replay.sources.recordings.observed import Names, span_of
from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue, SpanRecord
from freezeframe_schemas.wire.document import JsonObject, as_object, as_text, dump

_NAMES: Final = Names(
    word="run", trace="trace_id", own="id", parent="parent_run_id", start="start_time", end="end_time", error="error"
)


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
    attributes = _attributes(item, as_text(item.get("run_type")) or "")
    return span_of({**item, "trace_id": item.get("trace_id") or item.get("id")}, _NAMES, attributes)


def _attributes(item: JsonObject, run_type: str) -> dict[str, AttributeValue]:
    inputs, outputs = as_object(item.get("inputs")), as_object(item.get("outputs"))
    attributes: dict[str, AttributeValue] = {"langsmith.span.kind": run_type, genai.PAST_PROMPT: dump(inputs)}
    if outputs:
        attributes[genai.PAST_COMPLETION] = dump(outputs)
    if run_type == "retriever":
        query, documents = as_text(inputs.get("query", inputs.get("input"))), outputs.get("documents", outputs.get("output"))
        attributes |= {genai.RETRIEVAL_QUERY: query, genai.RETRIEVAL_DOCUMENTS: dump(documents) if documents else None}
    for name, value in as_object(as_object(item.get("extra")).get("metadata")).items():
        attributes[f"langsmith.metadata.{name}"] = dump(value) if isinstance(value, dict | list) else value
    return attributes
