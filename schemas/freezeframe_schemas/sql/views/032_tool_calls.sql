-- One row per tool call (MCP included).
CREATE OR REPLACE VIEW {db}.tool_calls {on_cluster} AS
SELECT
    s.tenant AS tenant, s.trace_id AS trace_id, s.run_id AS run_id, s.span_id AS span_id, s.parent_span_id AS parent_span_id,
    s.start_time AS start_time, s.ms AS ms, -- Milliseconds from start to end
    if(s.tool_name != '', s.tool_name, s.name) AS tool, -- Tool
    s.tool_call_id AS tool_call_id,
    s.service AS service, s.commit AS commit,
    if(s.status = 'Error' OR s.raised, 'error', 'ok') AS status, -- error or ok
    s.error_type AS error_type, s.input_preview AS arguments, -- Start of its arguments
    s.output_preview AS result, -- Start of its result
    if(s.attributes['{CODE_DIGEST}'] = '', '', concat(s.attributes['{CODE_FILE}'], ':', s.attributes['{CODE_LINE}'])) AS code, -- Place of the code that answered: shop.py:17
    s.attributes['{CODE_DIGEST}'] AS code_digest, -- Digest of that code and of the code of the application that it calls
    CAST(s.exchange_kind != '', 'UInt8') AS exact -- True if it is an exchange, recorded byte for byte; false if another instrumentation reported it
FROM {db}.spans AS s
LEFT JOIN {RUNS_WITHOUT_EXCHANGES} AS u ON s.tenant = u.tenant AND s.trace_id = u.trace_id
WHERE (s.exchange_kind IN ('tool', 'mcp') OR (s.exchange_kind = '' AND s.operation = '{OP_EXECUTE_TOOL}'))
    AND (s.exchange_kind != '' OR u.trace_id != '')
COMMENT 'One row per tool call: SELECT tool, count(), countIf(status = ''error'') FROM tool_calls GROUP BY tool';
