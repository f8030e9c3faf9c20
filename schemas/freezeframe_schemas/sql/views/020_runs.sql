-- One row per run. Calls and tokens are those of its exchanges, or else what other instrumentations report
-- (call_rows), so that a call which several saw counts once. The inner SELECT reads whole columns: FINAL would not gather the
-- fields of `entry` if only these are read. FINAL, because rows that are merged already are then taken as they are.
CREATE OR REPLACE VIEW {db}.runs {on_cluster} AS
WITH
    arrayFilter((span, mark) -> bitAnd(mark, 30) > 0, mapKeys(r.marks), mapValues(r.marks)) AS exchange_ids,
    mapFilter((span, mark) -> bitAnd(mark, 2) > 0, r.marks) AS calls,
{OF_LEVEL}
SELECT
    r.tenant AS tenant,
    r.trace_id AS trace_id,
    r.run_id::String AS run_id,
    {RUN_STATUS} AS status, -- ok, error (the entry point failed), ended (a program whose exit status is not known) or unfinished (no end was recorded: still running, or killed)
    r.entry.name AS name, -- Name of the entry point's span
    r.entry.target AS entry_target,
    r.service::String AS service,
    r.agent::String AS agent, -- Agent, of any span that names one
    r.user_id::String AS user_id,
    r.session_id::String AS session_id,
    r.conversation_id::String AS conversation_id,
    r.commit::String AS commit,
    if(r.commit_dirty < 0, NULL, r.commit_dirty = 1) AS commit_dirty,
    r.entry.flag_values AS flag_values,
    r.start_time::DateTime64(9, 'UTC') AS start_time, -- First start of a span
    r.end_time::DateTime64(9, 'UTC') AS end_time, -- Last end of a span; of an unfinished run, when it was last heard from
    (toUnixTimestamp64Nano(r.end_time) - toUnixTimestamp64Nano(r.start_time)) / 1e6 AS ms, -- Milliseconds from start to end
    length(r.marks) AS spans, -- Spans
    length(exchange_ids) AS exchanges, -- Exchanges
    if(empty(exchange_ids), c.calls, length(calls)) AS model_calls, -- Model calls
    arrayCount(mark -> bitAnd(mark, if(empty(exchange_ids), 64, 4)) > 0, mapValues(r.marks)) AS tool_calls, -- Tool calls
    arrayCount(mark -> bitAnd(mark, if(empty(exchange_ids), 128, 8)) > 0, mapValues(r.marks)) AS retrievals, -- Retrievals
    if(empty(exchange_ids), model_calls + tool_calls + retrievals, exchanges) AS steps, -- Exchanges, or the calls that another instrumentation reports
    arrayCount(mark -> bitAnd(mark, 1) > 0, mapValues(r.marks)) AS errors, -- Spans that failed
    if(empty(exchange_ids), c.input_tokens, arraySum(mark -> bitAnd(bitShiftRight(mark, 8), 268435455), mapValues(calls))) AS input_tokens, -- Input tokens of all model calls
    if(empty(exchange_ids), c.output_tokens, arraySum(mark -> bitShiftRight(mark, 36), mapValues(calls))) AS output_tokens, -- Output tokens of all model calls
    arraySort(r.models::Array(String)) AS models, -- Requested models
    arraySort(r.tools::Array(String)) AS tools, -- Tools that were called
    {LEVEL}
    r.entry.input AS input, -- Start of the entry point's input
    r.entry.output AS output, -- Start of its output
    r.first_error.error AS first_error, -- Class and message of the error that ended it, else of the first span that failed
    r.run_hour AS run_hour,
    r.kept AS kept,
    r.trace_id NOT IN (SELECT trace_id FROM {db}.unsettled_rows) AS settled -- False while stored spans may still hold forms of a value that was found later
FROM (SELECT * FROM {db}.run_rows FINAL) AS r
LEFT JOIN (
    SELECT tenant, trace_id, count() AS calls, toUInt64(sum(greatest(ifNull(input_tokens, 0), 0))) AS input_tokens,
        toUInt64(sum(greatest(ifNull(output_tokens, 0), 0))) AS output_tokens
    FROM {db}.call_rows FINAL WHERE shown GROUP BY tenant, trace_id
) AS c ON r.tenant = c.tenant AND r.trace_id = c.trace_id
COMMENT 'One row per run: SELECT * FROM runs WHERE status = ''error'' ORDER BY start_time DESC';
