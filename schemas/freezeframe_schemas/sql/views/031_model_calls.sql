-- One row per call of a model, with what it cost at the price of its day. Of several spans that tell of one call, one.
CREATE OR REPLACE VIEW {db}.model_calls {on_cluster} AS
SELECT
    c.*,
    (greatest(ifNull(c.input_tokens, 0) - ifNull(c.cache_read_tokens, 0) - ifNull(c.cache_write_tokens, 0), 0) * p.input_usd
        + ifNull(c.cache_read_tokens, 0) * p.cache_read_usd + ifNull(c.cache_write_tokens, 0) * p.cache_write_usd
        + ifNull(c.output_tokens, 0) * p.output_usd) / 1e6 AS cost_usd, -- US dollars, by the price of the call's day; 0 where the model has none
    p.prefix != '' AS priced -- True where the model has a price
FROM (
    SELECT
        s.tenant AS tenant, s.trace_id AS trace_id, s.run_id AS run_id, s.span_id AS span_id, s.parent_span_id AS parent_span_id,
        s.start_time AS start_time, s.ms AS ms, -- Milliseconds from start to end
        s.operation AS operation, s.provider AS provider, s.dialect AS dialect,
        s.service AS service, s.commit AS commit, s.user_id AS user_id,
        toString(if(s.response_model != '', s.response_model, s.request_model)) AS model, -- Model that answered, or that was asked for
        s.request_model AS request_model, s.response_model AS response_model, s.response_id AS response_id,
        s.system_fingerprint AS system_fingerprint, s.temperature AS temperature, s.top_p AS top_p, s.seed AS seed,
        s.max_tokens AS max_tokens, s.stream AS stream, s.finish_reasons AS finish_reasons, s.input_tokens AS input_tokens,
        s.output_tokens AS output_tokens, s.cache_read_tokens AS cache_read_tokens, s.cache_write_tokens AS cache_write_tokens,
        s.reasoning_tokens AS reasoning_tokens, s.ttft_s AS ttft_s, s.tools_hash AS tools_hash, s.http_status AS http_status,
        ifNull(s.resend, 0) AS resend, -- Which retry this is; 0 for the first attempt
        s.completion AS completion, s.error_type AS error_type,
        if(s.status = 'Error' OR ifNull(s.http_status, 0) >= 400, 'error', 'ok') AS status, -- error or ok
        s.input_preview AS request, -- Start of what was asked
        s.output_preview AS response, -- Start of what was answered
        s.url AS url, CAST(s.exchange_kind != '', 'UInt8') AS exact -- True where it is an exchange, recorded byte for byte; false where another instrumentation told of it
    FROM {db}.spans AS s
    WHERE s.exchange_kind = 'model'
        OR ({TELLS_OF_MODEL_CALL}
            AND s.trace_id NOT IN (SELECT trace_id FROM {db}.run_rows WHERE has_exchanges = 1)
            AND (s.trace_id, cityHash64(s.span_id)) NOT IN (SELECT trace_id, arrayJoin(outer_calls) FROM {db}.run_rows WHERE notEmpty(outer_calls)))
) AS c
ASOF LEFT JOIN {db}.model_prices AS p ON c.model = p.model AND c.start_time >= p.valid_from
COMMENT 'One row per model call: SELECT model, sum(cost_usd) FROM model_calls GROUP BY model';
