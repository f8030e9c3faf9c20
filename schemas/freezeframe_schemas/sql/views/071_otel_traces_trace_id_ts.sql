CREATE OR REPLACE VIEW {db}.otel_traces_trace_id_ts {on_cluster} AS
SELECT
    r.trace_id AS TraceId, -- Trace id
    min(r.start_time) AS Start, -- First start of a span
    max(r.end_time) AS End -- Last end of a span
FROM {db}.run_rows AS r
GROUP BY r.trace_id
COMMENT 'Start and end of each trace, for Grafana';
