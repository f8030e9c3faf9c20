-- For tools that read the OpenTelemetry Collector's ClickHouse exporter (Grafana's plugin among them). Every attribute is there,
-- large ones whole; a query that does not read them does not pay for them. On a cluster, of one shard: see migrate.distributed_views_sql.
-- Pending spans are there too, as they were sent: by them a reader sees that a run is unfinished.
CREATE OR REPLACE VIEW {db}.otel_traces{sfx} {on_cluster} AS
SELECT
    s.start_time AS Timestamp, -- When the span started
    s.trace_id AS TraceId, -- Trace id
    s.span_id AS SpanId, -- Span id
    s.parent_span_id AS ParentSpanId, -- Span id of the parent; empty for a root
    s.trace_state AS TraceState, -- W3C trace state
    s.name AS SpanName, -- Span name
    s.kind AS SpanKind, -- Internal, Server, Client, Producer, Consumer or Unspecified
    s.service AS ServiceName, -- Service
    mapUpdate(s.resource, {LARGE_RESOURCE_ATTRIBUTES}) AS ResourceAttributes, -- All attributes of the resource, as text
    s.scope_name AS ScopeName, -- Instrumentation scope
    s.scope_version AS ScopeVersion, -- Its version
    mapUpdate(mapUpdate(mapFilter((name, value) -> value != '[]', map({CHUNK_BORDERS})), s.attributes),
        {LARGE_ATTRIBUTES}) AS SpanAttributes, -- All attributes, as text
    toUInt64(greatest(s.duration_ns, 0)) AS Duration, -- Nanoseconds from start to end
    s.status AS StatusCode, -- Unset, Ok or Error
    s.status_message AS StatusMessage, -- Status message
    s.`events.time` AS `Events.Timestamp`, -- Time of each event
    s.`events.name` AS `Events.Name`, -- Name of each event
    s.`events.attributes` AS `Events.Attributes`, -- Attributes of each event
    s.`links.trace_id` AS `Links.TraceId`, -- Trace id of each link
    s.`links.span_id` AS `Links.SpanId`, -- Span id of each link
    s.`links.trace_state` AS `Links.TraceState`, -- Trace state of each link
    s.`links.attributes` AS `Links.Attributes` -- Attributes of each link
FROM (SELECT *, {COMPUTED_COLUMNS} FROM {db}.span_rows{sfx} FINAL) AS s
COMMENT 'The layout of the OpenTelemetry Collector exporter';
