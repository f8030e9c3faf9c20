-- For tools that read the OpenTelemetry Collector's ClickHouse exporter (Grafana's plugin among them). Large values are left out.
CREATE OR REPLACE VIEW {db}.otel_traces {on_cluster} AS
SELECT
    s.start_time AS Timestamp,
    s.trace_id AS TraceId,
    s.span_id AS SpanId,
    s.parent_span_id AS ParentSpanId,
    s.trace_state AS TraceState,
    s.name AS SpanName,
    s.kind AS SpanKind,
    s.service AS ServiceName,
    mapConcat(s.resource, map('{SERVICE_NAME}', toString(s.service))) AS ResourceAttributes,
    s.scope_name AS ScopeName,
    s.scope_version AS ScopeVersion,
    mapFilter((name, value) -> value != '', mapConcat(s.attributes, map({ATTRIBUTE_PAIRS}))) AS SpanAttributes,
    toUInt64(greatest(s.duration_ns, 0)) AS Duration,
    s.status AS StatusCode,
    s.status_message AS StatusMessage,
    s.`events.time` AS `Events.Timestamp`,
    s.`events.name` AS `Events.Name`,
    s.`events.attributes` AS `Events.Attributes`,
    s.`links.trace_id` AS `Links.TraceId`,
    s.`links.span_id` AS `Links.SpanId`,
    s.`links.trace_state` AS `Links.TraceState`,
    s.`links.attributes` AS `Links.Attributes`
FROM {db}.spans AS s
COMMENT 'The layout of the OpenTelemetry Collector exporter';
