-- One row per run. Tokens are counted on exchanges where the run has them, else on the spans of its instrumentation,
-- so that a call which both saw counts once.
CREATE OR REPLACE VIEW {db}.runs {on_cluster} AS
SELECT
    s.tenant AS tenant,
    s.trace_id AS trace_id,
    anyIf(s.run_id, s.run_id != '') AS run_id,
    if(argMin(s.status = 'Error' OR mapContains(s.refs, '{ERROR_CHAIN}'), s.entry_rank), 'error', 'ok') AS status,
    argMin(s.name, s.entry_rank) AS name,
    argMin(s.entry_target, s.entry_rank) AS entry_target,
    anyIf(s.service, s.service != '') AS service,
    anyIf(s.agent_name, s.agent_name != '') AS agent,
    anyIf(s.user_id, s.user_id != '') AS user_id,
    anyIf(s.session_id, s.session_id != '') AS session_id,
    anyIf(s.conversation_id, s.conversation_id != '') AS conversation_id,
    anyIf(s.commit, s.commit != '') AS commit,
    anyIf(s.commit_dirty, s.commit_dirty IS NOT NULL) AS commit_dirty,
    argMin(s.flag_values, s.entry_rank) AS flag_values,
    min(s.start_time) AS start_time,
    max(s.end_time) AS end_time,
    (toUnixTimestamp64Nano(max(s.end_time)) - toUnixTimestamp64Nano(min(s.start_time))) / 1e6 AS ms,
    count() AS spans,
    countIf(s.exchange_kind != '') AS exchanges,
    if(exchanges > 0, countIf(s.exchange_kind = 'model'), countIf(s.operation IN ({MODEL_OPERATIONS}))) AS model_calls,
    if(exchanges > 0, countIf(s.exchange_kind IN ('tool', 'mcp')), countIf(s.operation = '{OP_EXECUTE_TOOL}')) AS tool_calls,
    if(exchanges > 0, countIf(s.exchange_kind = 'retrieval'), countIf(s.operation = '{OP_RETRIEVAL}')) AS retrievals,
    countIf(s.status = 'Error') AS errors,
    if(exchanges > 0, sumIf(ifNull(s.input_tokens, 0), s.exchange_kind = 'model'),
        sumIf(ifNull(s.input_tokens, 0), s.operation IN ({MODEL_OPERATIONS}))) AS input_tokens,
    if(exchanges > 0, sumIf(ifNull(s.output_tokens, 0), s.exchange_kind = 'model'),
        sumIf(ifNull(s.output_tokens, 0), s.operation IN ({MODEL_OPERATIONS}))) AS output_tokens,
    arraySort(groupUniqArrayIf(s.request_model, s.request_model != '')) AS models,
    argMin(s.input_preview, s.entry_rank) AS input,
    argMin(s.output_preview, s.entry_rank) AS output,
    -- the first error by time: what went wrong before anything else did
    argMinIf(if(s.error_type != '', s.error_type, s.status_message), s.start_time, s.status = 'Error') AS first_error
FROM (
    SELECT *, (multiIf(entry_kind != '', 0, parent_span_id = '', 1, 2), start_time, span_id) AS entry_rank
    FROM {db}.spans
) AS s
GROUP BY s.tenant, s.trace_id
COMMENT 'One row per run: SELECT * FROM runs WHERE status = ''error'' ORDER BY start_time DESC';
