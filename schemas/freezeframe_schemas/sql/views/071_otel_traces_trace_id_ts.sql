CREATE OR REPLACE VIEW {db}.otel_traces_trace_id_ts {on_cluster} AS
SELECT r.trace_id AS TraceId, min(r.start_time) AS Start, max(r.end_time) AS End
FROM {db}.run_rows AS r
GROUP BY r.trace_id
COMMENT 'When each trace was, as Grafana asks for it';
