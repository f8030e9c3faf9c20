-- What the agent did, in order of issue. A run that was recorded without exchanges (another vendor's) shows its operations, and
-- each model call once, however many spans report it.
CREATE OR REPLACE VIEW {db}.steps {on_cluster} AS
SELECT
    s.tenant AS tenant,
    s.trace_id AS trace_id,
    s.run_id AS run_id,
    s.step AS step, -- Place in the run, from 1
    s.kind AS kind, -- model, tool, retrieval, mcp, http, database or file
    s.title AS name, -- Tool, retriever, or method and path of the call
    if(s.failed, 'error', 'ok') AS status, -- error or ok
    s.http_status AS http_status,
    s.ms AS ms, -- Milliseconds from start to end
    s.model AS model, -- Model that answered, or the requested one
    s.input_tokens AS input_tokens,
    s.output_tokens AS output_tokens,
    s.input_preview AS request, -- Start of the question
    s.output_preview AS response, -- Start of the answer
    s.error_type AS error_type,
    s.completion AS completion,
    s.finish_reasons AS finish_reasons,
    s.ttft_s AS ttft_s,
    s.lane AS lane,
    s.resend AS resend, -- Which retry this is; 0 for the first attempt
    s.tool_call_id AS tool_call_id,
    s.response_id AS response_id,
    s.exact AS exact, -- True if it is an exchange, recorded byte for byte; false if another instrumentation reported it
    s.start_time AS start_time,
    s.span_id AS span_id,
    s.parent_span_id AS parent_span_id
FROM (
    -- A window over the run, not an IN with a subquery over all runs: one run costs what it has itself. Exchanges come first, so that
    -- what is left out below has no effect on their numbers.
    SELECT
        *,
        max(exact) OVER (PARTITION BY tenant, trace_id) AS recorded,
        row_number() OVER (PARTITION BY tenant, trace_id ORDER BY exact DESC, sequence, start_time, span_id) AS step
    FROM (
        SELECT tenant, trace_id, run_id, span_id, parent_span_id, start_time, ms, http_status, input_tokens, output_tokens, error_type,
            finish_reasons, ttft_s, input_preview, output_preview,
            if(response_model != '', response_model, request_model) AS model, completion, lane, tool_call_id, response_id,
            multiIf(exchange_kind != '', exchange_kind, operation = '{OP_EXECUTE_TOOL}', 'tool', 'retrieval') AS kind,
            multiIf(exchange_kind = 'retrieval' AND data_source != '', data_source, tool_name != '', tool_name,
                url != '', concat(http_method, ' ', path(url)), name) AS title,
            status = 'Error' OR ifNull(http_status, 0) >= 400 OR raised AS failed,
            ifNull(sequence, 0) AS sequence, ifNull(resend, 0) AS resend, toUInt8(exchange_kind != '') AS exact
        FROM {db}.spans
        WHERE exchange_kind != '' OR operation IN ('{OP_EXECUTE_TOOL}', '{OP_RETRIEVAL}')
        UNION ALL
        SELECT tenant, trace_id, run_id, span_id, parent_span_id, start_time, ms, http_status, input_tokens, output_tokens, error_type,
            finish_reasons, ttft_s, input_preview, output_preview,
            if(response_model != '', response_model, request_model), '', '', '', response_id, 'model', name,
            status = 'Error' OR ifNull(http_status, 0) >= 400, 0, 0, 0
        FROM {db}.call_rows FINAL
        WHERE shown
    )
) AS s
WHERE s.exact = s.recorded
COMMENT 'The exchanges of each run in order: SELECT * FROM steps WHERE trace_id = ''...'' ORDER BY step';
