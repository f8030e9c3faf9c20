"""Runs of LangSmith: a JSON array, ``{"runs": [...]}``, or a run a line, as its API and its exports give them; one trace with
its ``child_runs``, as its client returns it; ``{"post": [...], "patch": [...]}``, as its SDKs send it.

The inputs and outputs of a model's run are the provider's own JSON, or LangChain's messages; both are read by the dialect for
LangSmith's spans, so a run becomes such a span.

Source: https://docs.langchain.com/langsmith/run-data-format; langsmith-sdk, python/langsmith/schemas.py (``Run.child_runs``)
and js/src/tests/test_data (batches)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.sources.recordings.http_calls import Origin
from freezeframe_replay.sources.recordings.json_items import each, listed, only_document
from freezeframe_replay.sources.recordings.observed import Names, span_of
from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue, SpanRecord
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_objects, as_text, dump

_NAMES: Final = Names(
    word="run", trace="trace_id", own="id", parent="parent_run_id", start="start_time", end="end_time", error="error"
)


def read_langsmith(path: Path, origin: Origin) -> Iterator[SpanRecord]:
    """Return the spans of the runs in a file. A trace keeps its UUID as its id.

    Raises:
        WireError: a run does not follow the format; the message says which.
    """
    del origin
    return each(path, "run", _runs(path), langsmith_span)


def _runs(path: Path) -> Iterator[Any]:
    document = only_document(path)
    if document is None or "runs" in document:
        yield from listed(path, "runs")
    elif document.keys() & {"post", "patch"}:
        yield from _merged(document)
    else:
        yield from _with_children(document)


def _merged(batch: JsonObject) -> list[JsonObject]:
    """Return the runs of a batch: the data sent at the end of each overrides that sent at its beginning."""
    runs: dict[str, JsonObject] = {}
    for part in (*as_objects(batch.get("post")), *as_objects(batch.get("patch"))):
        # An update may name its run only at the end of its place in the trace.
        own = as_text(part.get("id")) or (as_text(part.get("dotted_order")) or "").rpartition("Z")[2]
        runs[own] = {**runs.get(own, {"id": own}), **_known(part)}
    return [*runs.values()]


def _with_children(run: JsonObject) -> Iterator[JsonObject]:
    """Yield a run, and those below it."""
    yield run
    above: JsonObject = {"trace_id": run.get("trace_id") or run.get("id"), "parent_run_id": run.get("id")}
    for child in as_objects(run.get("child_runs")):
        yield from _with_children({**above, **_known(child)})


def _known(item: JsonObject) -> JsonObject:
    return {name: value for name, value in item.items() if value is not None}


def langsmith_span(item: JsonObject) -> SpanRecord:
    """Return a run as a span.

    Raises:
        ValueError: it does not follow the format.
    """
    attributes = _attributes(item, as_text(item.get("run_type")) or "")
    times = {name: _seconds(item.get(name)) for name in (_NAMES.start, _NAMES.end)}
    return span_of({**item, **times, "trace_id": item.get("trace_id") or item.get("id")}, _NAMES, attributes)


def _seconds(time: JsonValue) -> JsonValue:
    """Return a time that may be in milliseconds, as JavaScript has it."""
    return time / 1000 if isinstance(time, int | float) else time


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
