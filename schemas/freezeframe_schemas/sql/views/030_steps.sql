-- What the agent did, in order of issue. A run that was recorded without exchanges (another vendor's) shows its operations.
CREATE OR REPLACE VIEW {db}.steps {on_cluster} AS
SELECT
    s.tenant AS tenant,
    s.trace_id AS trace_id,
    s.run_id AS run_id,
    row_number() OVER (PARTITION BY s.tenant, s.trace_id ORDER BY ifNull(s.sequence, 0), s.start_time, s.span_id) AS step, -- Place in the run, from 1
    multiIf(s.exchange_kind != '', s.exchange_kind, s.operation = '{OP_EXECUTE_TOOL}', 'tool',
        s.operation = '{OP_RETRIEVAL}', 'retrieval', 'model') AS kind, -- model, tool, retrieval, mcp or http
    multiIf(s.exchange_kind = 'retrieval' AND s.data_source != '', s.data_source, s.tool_name != '', s.tool_name,
        s.url != '', concat(s.http_method, ' ', path(s.url)), s.name) AS name, -- Tool, retriever, or method and path of the call
    if(s.status = 'Error' OR ifNull(s.http_status, 0) >= 400 OR mapContains(s.refs, '{ERROR_CHAIN}'), 'error', 'ok') AS status, -- error or ok
    s.http_status AS http_status,
    s.ms AS ms, -- Milliseconds from start to end
    if(s.response_model != '', s.response_model, s.request_model) AS model, -- Model that answered, or that was asked for
    s.input_tokens AS input_tokens,
    s.output_tokens AS output_tokens,
    s.input_preview AS request, -- Start of what was asked
    s.output_preview AS response, -- Start of what was answered
    s.error_type AS error_type,
    s.completion AS completion,
    s.finish_reasons AS finish_reasons,
    s.ttft_s AS ttft_s,
    s.lane AS lane,
    ifNull(s.resend, 0) AS resend, -- Which retry this is; 0 for the first attempt
    s.tool_call_id AS tool_call_id,
    CAST(s.exchange_kind != '', 'UInt8') AS exact, -- True where it is an exchange, recorded byte for byte; false where another instrumentation told of it
    s.start_time AS start_time,
    s.span_id AS span_id,
    s.parent_span_id AS parent_span_id
FROM {db}.spans AS s
WHERE s.exchange_kind != ''
    OR (({TELLS_OF_MODEL_CALL} AND (s.trace_id, cityHash64(s.span_id)) NOT IN (SELECT trace_id, arrayJoin(outer_calls) FROM {db}.run_rows WHERE notEmpty(outer_calls))
            OR s.operation IN ('{OP_EXECUTE_TOOL}', '{OP_RETRIEVAL}'))
        AND s.trace_id NOT IN (SELECT trace_id FROM {db}.run_rows WHERE has_exchanges = 1))
COMMENT 'The exchanges of each run in order: SELECT * FROM steps WHERE trace_id = ''...'' ORDER BY step';
