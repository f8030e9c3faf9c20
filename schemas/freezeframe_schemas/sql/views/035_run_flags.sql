-- One row per run and feature flag.
CREATE OR REPLACE VIEW {db}.run_flags {on_cluster} AS
SELECT
    r.tenant AS tenant, r.trace_id AS trace_id, r.start_time AS start_time, -- First start of a span
    r.status AS status, -- error if the run failed, else ok
    r.commit AS commit,
    pair.1 AS flag, -- Feature flag
    pair.2 AS value -- Its value in this run, JSON
FROM {db}.runs AS r
ARRAY JOIN JSONExtractKeysAndValuesRaw(r.flag_values) AS pair
COMMENT 'Feature flags by run: SELECT flag, value, countIf(status = ''error'') / count() FROM run_flags GROUP BY ALL';
