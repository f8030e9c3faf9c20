"""Spans out of the tables of the OpenTelemetry Collector's ClickHouse exporter, in the real engine."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from freezeframe_collector.store import Store
from freezeframe_replay.sources.backends import load_backend_spans
from freezeframe_schemas.errors import ConfigError, PermanentStoreError, RunError
from freezeframe_schemas.otlp_json import spans_from_otlp_json
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import Attributes, AttributeValue, Event, Link, SpanRecord

SENT = Path(__file__).parents[1] / "data" / "backends" / "sent.jsonl.gz"
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
    """A recorded run, put into the exporter's table; its first span has an event and a link besides."""
    lines = gzip.decompress(SENT.read_bytes()).splitlines()
    first, *others = [span for line in lines for span in spans_from_otlp_json(json.loads(line))]
    event = Event(time_unix_nano=first.start_time_unix_nano + 7, name="said", attributes={"words": "n = 1"})
    link = Link(trace_id="cd" * 16, span_id="ef" * 8, attributes={"why": "retry"})
    spans = [replace(first, events=(event,), links=(link,)), *others]
    store.engine.command(TABLE.format(table="freezeframe.exported"))
    rows = "\n".join(json.dumps(row_of(span)) for span in spans)
    store.engine.command(f"INSERT INTO freezeframe.exported FORMAT JSONEachRow {rows}")
    return spans


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
def test_a_trace_that_is_not_there_and_a_table_that_is_none_are_named(sent: list[SpanRecord], facade_url: str) -> None:
    base = facade_url.replace("http", "clickhouse", 1) + "/freezeframe?table="
    with pytest.raises(RunError, match="holds no span"):
        load_backend_spans(f"{base}exported", "ff" * 16)
    with pytest.raises(PermanentStoreError, match="nothing_here"):
        load_backend_spans(f"{base}nothing_here", sent[0].trace_id)
    with pytest.raises(ConfigError, match="name of a table"):
        load_backend_spans(f"{base}x;drop", sent[0].trace_id)
