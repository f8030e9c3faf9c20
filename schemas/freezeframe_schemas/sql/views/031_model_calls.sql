-- One row per model call, with its cost at the price of its day: exchanges, and what other instrumentations report
-- (call_rows, where each call is once) in runs that have none.
CREATE OR REPLACE VIEW {db}.model_calls {on_cluster} AS
SELECT
    c.tenant AS tenant, c.trace_id AS trace_id, c.run_id AS run_id, c.span_id AS span_id, c.parent_span_id AS parent_span_id,
    c.start_time AS start_time, c.ms AS ms, -- Milliseconds from start to end
    c.operation AS operation, c.provider AS provider, c.dialect AS dialect,
    c.service AS service, c.commit AS commit, c.user_id AS user_id, c.agent_name AS agent, -- Agent, if one is named
    c.request_model AS model_requested, -- Requested model: group by it to compare failures, which have no other
    c.response_model AS model_answered, -- Model that answered, often with its date; empty if none did
    c.model AS model, -- Model that answered, else the requested one; decides the price
    c.response_id AS response_id,
    c.system_fingerprint AS system_fingerprint, c.temperature AS temperature, c.top_p AS top_p, c.seed AS seed,
    c.max_tokens AS max_tokens, c.stream AS stream, c.finish_reasons AS finish_reasons, c.input_tokens AS input_tokens,
    c.output_tokens AS output_tokens, c.cache_read_tokens AS cache_read_tokens, c.cache_write_tokens AS cache_write_tokens,
    c.reasoning_tokens AS reasoning_tokens, c.ttft_s AS ttft_s, c.tools_hash AS tools_hash, c.http_status AS http_status,
    c.resend AS resend, -- Which retry this is; 0 for the first attempt
    c.completion AS completion, c.error_type AS error_type,
    if(c.status = 'Error' OR ifNull(c.http_status, 0) >= 400, 'error', 'ok') AS status, -- error or ok
    c.input_preview AS request, -- Start of the question
    c.output_preview AS response, -- Start of the answer
    c.url AS url, c.exact AS exact, -- True if it is an exchange, recorded byte for byte; false if another instrumentation reported it
    ifNull(c.reported_cost_usd, (greatest(ifNull(c.input_tokens, 0) - ifNull(c.cache_read_tokens, 0) - ifNull(c.cache_write_tokens, 0), 0) * p.input_usd
        + ifNull(c.cache_read_tokens, 0) * p.cache_read_usd + ifNull(c.cache_write_tokens, 0) * p.cache_write_usd
        + ifNull(c.output_tokens, 0) * p.output_usd) / 1e6) AS cost_usd, -- US dollars: as reported by the sender, else by the price on the day of the call; 0 if the model has no price
    p.prefix != '' OR c.reported_cost_usd IS NOT NULL AS priced -- True if the sender reports the cost or the model has a price
FROM (
    SELECT {CALL_COLUMNS}, if(response_model != '', response_model, request_model) AS model, {PRICED_AS} AS priced_as,
        toString(dialect) AS dialect, toString(completion) AS completion, url, ifNull(resend, 0) AS resend, toUInt8(1) AS exact
    FROM {db}.spans WHERE exchange_kind = 'model'
    UNION ALL
    SELECT {CALL_COLUMNS}, if(response_model != '', response_model, request_model) AS model, {PRICED_AS} AS priced_as,
        '' AS dialect, '' AS completion, '' AS url, toInt64(0) AS resend, toUInt8(0) AS exact
    FROM (SELECT * FROM {db}.call_rows FINAL WHERE shown) AS r
    INNER JOIN {RUNS_WITHOUT_EXCHANGES} AS u USING (tenant, trace_id)
) AS c
ASOF LEFT JOIN (SELECT * FROM {db}.prices FINAL) AS p ON c.priced_as = p.prefix AND c.start_time >= p.valid_from
COMMENT 'One row per model call: SELECT model, sum(cost_usd) FROM model_calls GROUP BY model';
