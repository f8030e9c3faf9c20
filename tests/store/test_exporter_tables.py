"""Spans from tables in the layout of the OpenTelemetry Collector's ClickHouse exporter: its own, and the store's view."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import agent_loops
import pytest
from arbitrary_spans import spans as arbitrary_spans
from effort import against_a_service
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_collector.store import Store
from freezeframe_replay.sources.backends import list_backend_runs, load_backend_spans
from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError, PermanentStoreError, RunError
from freezeframe_schemas.lifecycle import NO_PARENT, RunStatus
from freezeframe_schemas.otlp.decode import decode_traces
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.run import build_run, readiness
from freezeframe_schemas.span import Attributes, AttributeValue, Event, Link, SpanRecord
from freezeframe_schemas.tables.cells import to_cell
from freezeframe_schemas.vendors.normalise import normalise

DATA = Path(__file__).parents[1] / "data"
SENT = DATA / "backends" / "sent.jsonl.gz"
TABLE = """
CREATE TABLE {table} (
    Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, TraceState String,
    SpanName LowCardinality(String), SpanKind LowCardinality(String), ServiceName LowCardinality(String),
    ResourceAttributes Map(LowCardinality(String), String), ScopeName String, ScopeVersion String,
    SpanAttributes Map(LowCardinality(String), String), Duration UInt64,
    StatusCode LowCardinality(String), StatusMessage String,
    Events Nested (Timestamp DateTime64(9), Name LowCardinality(String), Attributes Map(LowCardinality(String), String)),
    Links Nested (TraceId String, SpanId String, TraceState String, Attributes Map(LowCardinality(String), String))
) ENGINE = MergeTree ORDER BY (ServiceName, SpanName, toDateTime(Timestamp))"""
"""The exporter's own columns and types (its ``traces_table.sql``)."""


def as_text(value: AttributeValue) -> str:
    """Return a value as the exporter writes it (`pcommon.Value.AsString`)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(list(value)) if isinstance(value, tuple) else str(value)


def texts(attributes: Attributes) -> dict[str, str]:
    """Return all values as text."""
    return {name: as_text(value) for name, value in attributes.items()}


def row_of(span: SpanRecord) -> dict[str, object]:
    """Return the row that the exporter makes of a span."""
    return {
        "Timestamp": f"{span.start_time_unix_nano // 10**9}.{span.start_time_unix_nano % 10**9:09}",
        "TraceId": span.trace_id,
        "SpanId": span.span_id,
        "ParentSpanId": span.parent_span_id,
        "TraceState": span.trace_state,
        "SpanName": span.name,
        "SpanKind": span.kind.name.capitalize(),
        "ServiceName": as_text(span.resource.attributes.get("service.name", "")),
        "ResourceAttributes": texts(span.resource.attributes),
        "ScopeName": span.scope.name,
        "ScopeVersion": span.scope.version,
        "SpanAttributes": texts(span.attributes),
        "Duration": span.end_time_unix_nano - span.start_time_unix_nano,
        "StatusCode": span.status_code.name.capitalize(),
        "StatusMessage": span.status_message,
        "Events.Timestamp": [f"{one.time_unix_nano // 10**9}.{one.time_unix_nano % 10**9:09}" for one in span.events],
        "Events.Name": [one.name for one in span.events],
        "Events.Attributes": [texts(one.attributes) for one in span.events],
        "Links.TraceId": [one.trace_id for one in span.links],
        "Links.SpanId": [one.span_id for one in span.links],
        "Links.TraceState": [one.trace_state for one in span.links],
        "Links.Attributes": [texts(one.attributes) for one in span.links],
    }


@pytest.fixture(scope="module")
def sent(store: Store) -> list[SpanRecord]:
    """A recorded run, put into the exporter's table; its first span also has an event and a link."""
    lines = gzip.decompress(SENT.read_bytes()).splitlines()
    first, *others = [span for line in lines for span in spans_from_otlp_json(json.loads(line))]
    event = Event(time_unix_nano=first.start_time_unix_nano + 7, name="said", attributes={"words": "n = 1"})
    link = Link(trace_id="cd" * 16, span_id="ef" * 8, attributes={"why": "retry"})
    spans = [replace(first, events=(event,), links=(link,)), *others]
    store.engine.command(TABLE.format(table="freezeframe.exported"))
    rows = "\n".join(json.dumps(row_of(span)) for span in spans)
    store.engine.command(f"INSERT INTO freezeframe.exported FORMAT JSONEachRow {rows}")
    return spans


@pytest.mark.proof
@pytest.mark.long
def test_a_run_out_of_the_exporters_table_is_the_run_that_was_sent(sent: list[SpanRecord], facade_url: str) -> None:
    """Every exchange, entry, event and link; the resource with its types, so that the level is the same too."""
    url = facade_url.replace("http", "clickhouse", 1) + "/freezeframe?table=exported"
    got, expected = build_run(load_backend_spans(url, sent[0].trace_id)), build_run(sent)
    assert got.exchanges == expected.exchanges
    assert got.entry == expected.entry
    assert [(span.events, span.links, span.resource.attributes) for span in got.spans] == [
        (span.events, span.links, span.resource.attributes) for span in expected.spans
    ]
    assert got.gaps == expected.gaps


@pytest.mark.long
def test_the_exporters_table_lists_its_runs(sent: list[SpanRecord], facade_url: str) -> None:
    url = facade_url.replace("http", "clickhouse", 1) + "/freezeframe?table=exported"
    run = build_run(sent)
    (listed,) = list_backend_runs(url, 5)
    took = (run.entry.end_time_unix_nano - run.entry.start_time_unix_nano) / 1e6
    assert (listed.trace_id, listed.name, listed.ms, listed.failed) == (run.trace_id, run.entry.name, took, run.failed)
    assert listed.start_time_unix_nano == run.entry.start_time_unix_nano
    assert build_run(load_backend_spans(url, "last")).exchanges == run.exchanges


@pytest.mark.long
def test_a_trace_that_is_not_there_and_a_table_that_is_none_are_named(sent: list[SpanRecord], facade_url: str) -> None:
    base = facade_url.replace("http", "clickhouse", 1) + "/freezeframe?table="
    with pytest.raises(RunError, match="has no spans of it"):
        load_backend_spans(f"{base}exported", "ff" * 16)
    with pytest.raises(PermanentStoreError, match="nothing_here"):
        load_backend_spans(f"{base}nothing_here", sent[0].trace_id)
    with pytest.raises(ConfigError, match="name of a table"):
        load_backend_spans(f"{base}x;drop", sent[0].trace_id)


def says(text: str, value: AttributeValue) -> bool:
    """Return whether a cell of the view is the value as text: JSON for arrays and maps, base64 for bytes, nothing for null."""
    if isinstance(value, float):
        found = float(text.partition(":")[0])  # a NaN that is not the usual one has its bits after a colon
        return found == value or (math.isnan(found) and math.isnan(value))
    if isinstance(value, tuple | list):
        return json.loads(text) == json.loads(to_cell(value)[1])
    return text == to_cell(value)[1]


def assert_all(found: Mapping[str, str], sent: Attributes) -> None:
    assert found.keys() == sent.keys()
    assert [name for name, value in sent.items() if not says(found[name], value)] == []


@pytest.mark.proof
@pytest.mark.long
@against_a_service(12)
@given(batch=st.lists(arbitrary_spans(), min_size=1, max_size=4))
def test_otel_traces_has_every_attribute_whole(store: Store, batch: list[SpanRecord]) -> None:
    """Of span, resource, events and links; long, short and empty, of every type."""
    store.insert(batch, token=f"otel-{batch[0].trace_id}")
    asked = ", ".join(f"'{span.trace_id}'" for span in batch)
    columns, rows = store.query(f"SELECT * FROM freezeframe.otel_traces WHERE TraceId IN ({asked})")
    found_rows = {row["TraceId"]: row for row in (dict(zip(columns, row, strict=True)) for row in rows)}
    assert len(rows) == len(found_rows) == len(batch)
    for span in batch:
        row = found_rows[span.trace_id]
        assert_all(row["SpanAttributes"], span.attributes)
        assert_all(row["ResourceAttributes"], span.resource.attributes)
        for found, items in (("Events", span.events), ("Links", span.links)):
            for texts_of, item in zip(row[f"{found}.Attributes"], items, strict=True):
                assert_all(texts_of, item.attributes)


@pytest.mark.long
def test_a_stored_run_read_through_otel_traces_is_the_run(store: Store, facade_url: str) -> None:
    """Over the demo, recorded OTLP, agents that send their history again each turn, and one that was killed."""
    recorded = [path.read_bytes() for path in sorted((DATA / "otlp").glob("*/*.traces.pb"))[::90]]
    recorded.append(gzip.decompress((DATA / "demo_runs" / "streamed.traces.pb.gz").read_bytes()))
    batches = [[normalise(span) for span in decode_traces(raw).spans] for raw in recorded]
    batches += [agent_loops.agent_run(number, turns=4) for number in range(40_000, 40_003)]
    entry, *others = agent_loops.agent_run(40_003, turns=2)
    begun = replace(entry, span_id="beef" * 4, parent_span_id=entry.span_id).with_attributes({genai.ENTRY_BEGUN: NO_PARENT})
    batches.append([begun, *others])  # of a process that was killed
    for number, batch in enumerate(batches):
        store.insert(batch, token=f"through otel_traces {number}")
    url = facade_url.replace("http", "clickhouse", 1) + "/freezeframe?table=otel_traces"
    runs = open_runs(facade_url)
    for trace_id in sorted({span.trace_id for batch in batches for span in batch}):
        stored, found = build_run(runs.load_spans(trace_id)), build_run(load_backend_spans(url, trace_id))
        assert replace(found, spans=()) == replace(stored, spans=())
        assert (found.status is RunStatus.UNFINISHED) == (trace_id == entry.trace_id)
        assert readiness(found) == readiness(stored)
        for one, other in zip(found.spans, stored.spans, strict=True):
            assert one.attributes.keys() == other.attributes.keys()
            assert one.resource.attributes.keys() == other.resource.attributes.keys()
    runs.close()


@pytest.mark.long
def test_a_query_that_needs_no_attribute_reads_no_payload(store: Store) -> None:
    """Lists and searches of traces cost what they did before the view had large values."""

    def plan(columns: str) -> str:
        _, rows = store.query(f"EXPLAIN SELECT {columns} FROM freezeframe.otel_traces WHERE ServiceName = 'orders'")
        return "\n".join(str(row[0]) for row in rows)

    light = plan("TraceId, SpanName, Timestamp, Duration, StatusCode, `Events.Attributes`")
    assert "span_rows" in light
    assert "piece_rows" not in light
    assert "piece_rows" in plan("SpanAttributes")


@pytest.mark.long
def test_a_value_whose_piece_is_gone_is_an_error_and_not_a_shorter_value(store: Store) -> None:
    spans = agent_loops.agent_run(40_010, turns=2)
    store.insert(spans, token="a piece is gone")
    trace_id = spans[0].trace_id
    ask: Any = f"SELECT SpanAttributes FROM freezeframe.otel_traces WHERE TraceId = '{trace_id}'"
    assert len(store.query(ask)[1]) == len(spans)
    store.engine.command(
        f"ALTER TABLE freezeframe.piece_rows DELETE WHERE trace_id = '{trace_id}' AND hash IN"
        f" (SELECT min(hash) FROM freezeframe.piece_rows WHERE trace_id = '{trace_id}') SETTINGS mutations_sync = 2"
    )
    with pytest.raises(Exception, match="not in the store, or damaged"):
        store.query(ask)
    store.engine.command(f"ALTER TABLE freezeframe.span_rows DELETE WHERE trace_id = '{trace_id}' SETTINGS mutations_sync = 2")
