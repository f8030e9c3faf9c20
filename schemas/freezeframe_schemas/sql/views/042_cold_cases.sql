-- Runs that cannot be re-enacted, one row per run and cause.
CREATE OR REPLACE VIEW {db}.cold_cases {on_cluster} AS
SELECT
    r.tenant AS tenant, r.trace_id AS trace_id, r.run_id AS run_id, r.start_time AS start_time, -- First start of a span
    r.level AS level, -- Replay level of the run
    arrayJoin(r.missing_for_next) AS cause -- What is missing: a field of the replay kit, a gap, or no_exchanges
FROM {db}.readiness AS r
WHERE r.cold
COMMENT 'Runs that cannot be re-enacted, and why: SELECT cause, uniq(trace_id) FROM cold_cases GROUP BY cause';
