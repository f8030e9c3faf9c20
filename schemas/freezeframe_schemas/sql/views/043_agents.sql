-- One row per agent that model calls name: those of runs whose agents a framework or an instrumentation named.
CREATE OR REPLACE VIEW {db}.agents {on_cluster} AS
SELECT
    c.tenant AS tenant,
    c.agent AS agent, -- Agent that made the calls
    uniqExact(c.trace_id) AS runs, -- Runs in which it made calls
    count() AS model_calls, -- Model calls
    countIf(c.status = 'error') AS errors, -- Model calls that failed
    sum(ifNull(c.input_tokens, 0)) AS input_tokens, -- Input tokens of all model calls
    sum(ifNull(c.output_tokens, 0)) AS output_tokens, -- Output tokens of all model calls
    sum(c.cost_usd) AS cost_usd, -- US dollars, as in model_calls
    max(c.start_time) AS last_call -- Start of its latest call
FROM {db}.model_calls AS c
WHERE c.agent != ''
GROUP BY c.tenant, c.agent
COMMENT 'One row per agent: SELECT agent, runs, model_calls, cost_usd, errors FROM agents ORDER BY cost_usd DESC';
