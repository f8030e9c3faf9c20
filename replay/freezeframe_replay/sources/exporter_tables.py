"""Spans from the tables of the OpenTelemetry Collector's ClickHouse exporter.

Source: opentelemetry-collector-contrib ``exporter/clickhouseexporter``, ``traces_table.sql``. Every value there is text;
links keep no flags, and scopes no attributes.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from freezeframe_replay.sources.retyped import retyped
from freezeframe_replay.sources.store import connect, query_rows
from freezeframe_schemas.address import shown_address
from freezeframe_schemas.errors import ConfigError, PermanentStoreError
from freezeframe_schemas.span import Event, Link, Resource, Scope, SpanKind, SpanRecord, StatusCode

_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_SELECT: Final = """
SELECT
    TraceId, SpanId, ParentSpanId, TraceState, SpanName, SpanKind, StatusCode, StatusMessage,
    toUnixTimestamp64Nano(Timestamp) AS Start, Duration,
    ResourceAttributes, ScopeName, ScopeVersion, SpanAttributes,
    arrayMap(moment -> toUnixTimestamp64Nano(moment), Events.Timestamp) AS EventTimes,
    Events.Name AS EventNames, Events.Attributes AS EventAttributes,
    Links.TraceId AS LinkTraces, Links.SpanId AS LinkSpans, Links.TraceState AS LinkStates, Links.Attributes AS LinkAttributes
FROM {table} WHERE TraceId = {{trace_id:String}} LIMIT 1 BY SpanId"""


_LIST: Final = """
SELECT
    TraceId AS trace_id, toUnixTimestamp64Nano(min(Timestamp)) AS start_time_unix_nano,
    argMin(SpanName, (ParentSpanId != '', Timestamp)) AS name,
    argMin(Duration, (ParentSpanId != '', Timestamp)) / 1e6 AS ms,
    argMin(StatusCode, (ParentSpanId != '', Timestamp)) = 'Error' AS failed
FROM {table} GROUP BY TraceId ORDER BY start_time_unix_nano DESC LIMIT {{limit:UInt32}}"""


def load_exported_spans(url: str, trace_id: str) -> list[SpanRecord]:
    """Return the spans of a trace from the table that ``?table=`` names, each once.

    Raises:
        ConfigError: the table's name is not valid.
        StoreError: the server does not answer, has no such table, or it is of the exporter's JSON kind.
    """
    rows = _query(url, _SELECT, {"trace_id": trace_id})
    if any(not isinstance(text, str) for row in rows for text in row["SpanAttributes"].values()):
        raise PermanentStoreError(
            f"store: {shown_address(url)}: found attributes of type JSON, expected Map(String, String)",
            do="export to a table without `json: true`",
        )
    return [_span(row) for row in rows]


def list_exported_runs(url: str, limit: int) -> list[dict[str, Any]]:
    """Return id, start, name, duration and failure of the newest traces; raises as `load_exported_spans`."""
    return _query(url, _LIST, {"limit": limit})


def _query(url: str, query: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    table = parse_qs(urlsplit(url).query).get("table", [""])[0]
    if not _NAME.fullmatch(table):
        raise ConfigError(f"store: ?table={table}: expected the name of a table, for example otel_traces")
    client = connect(url, database="default")
    try:
        return query_rows(client, query.format(table=table), parameters)
    finally:
        client.close()


def _span(row: dict[str, Any]) -> SpanRecord:
    return SpanRecord(
        trace_id=row["TraceId"],
        span_id=row["SpanId"],
        parent_span_id=row["ParentSpanId"],
        trace_state=row["TraceState"],
        name=row["SpanName"],
        kind=SpanKind[row["SpanKind"].upper()],
        start_time_unix_nano=row["Start"],
        end_time_unix_nano=row["Start"] + row["Duration"],
        attributes=retyped(row["SpanAttributes"]),
        status_code=StatusCode[row["StatusCode"].upper()],
        status_message=row["StatusMessage"],
        events=tuple(
            Event(time_unix_nano=moment, name=name, attributes=retyped(texts))
            for moment, name, texts in zip(row["EventTimes"], row["EventNames"], row["EventAttributes"], strict=True)
        ),
        links=tuple(
            Link(trace_id=trace, span_id=span, trace_state=state, attributes=retyped(texts))
            for trace, span, state, texts in zip(
                row["LinkTraces"], row["LinkSpans"], row["LinkStates"], row["LinkAttributes"], strict=True
            )
        ),
        resource=Resource(attributes=retyped(row["ResourceAttributes"])),
        scope=Scope(name=row["ScopeName"], version=row["ScopeVersion"]),
    )
