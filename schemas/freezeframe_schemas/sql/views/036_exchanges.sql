-- One row per exchange: each call that crossed a seam, and what was recorded of it. Spans that are no exchanges are not here.
CREATE OR REPLACE VIEW {db}.exchanges {on_cluster} AS
SELECT
    s.tenant AS tenant,
    s.trace_id AS trace_id,
    s.run_id AS run_id,
    row_number() OVER (PARTITION BY s.tenant, s.trace_id ORDER BY ifNull(s.sequence, 0), s.start_time, s.span_id) AS step, -- Place in the run, from 1, as in steps
    s.span_id AS span_id,
    s.parent_span_id AS parent_span_id,
    toString(s.exchange_kind) AS kind, -- model, tool, retrieval, mcp, http, database or file
    multiIf(s.exchange_kind = 'retrieval' AND s.data_source != '', s.data_source, s.tool_name != '', s.tool_name,
        s.url != '', concat(s.http_method, ' ', path(s.url)), s.name) AS name, -- Tool, retriever, or method and path of the call
    s.seam AS seam,
    s.dialect AS dialect,
    s.lane AS lane,
    s.sequence AS sequence,
    s.http_method AS http_method,
    s.url AS url,
    s.http_status AS http_status,
    ifNull(s.resend, 0) AS resend, -- Which retry this is; 0 for the first attempt
    if(s.status = 'Error' OR ifNull(s.http_status, 0) >= 400 OR mapContains(s.refs, '{ERROR_CHAIN}'), 'error', 'ok') AS status, -- error or ok
    s.error_type AS error_type,
    s.completion AS completion,
    s.start_time AS start_time,
    s.end_time AS end_time, -- When the span ended
    s.ms AS ms, -- Milliseconds from start to end
    if(empty(s.chunk_offsets_ns), NULL, s.chunk_offsets_ns[1] / 1e6) AS first_chunk_ms, -- Milliseconds to the first chunk of the response
    toUInt64(length(s.chunk_sizes)) AS response_chunks, -- Chunks in which the response came; one each in stream_chunks
    toUInt64(arraySum(s.chunk_sizes)) AS response_bytes, -- Bytes of the response's body
    s.payload_bytes AS payload_bytes,
    s.request_hash AS request_hash, -- Equal if two requests have the same body; empty without one
    s.request_texts AS request_texts, -- Names of the long texts in the request, in order: payloads has them. Requests with the same body have the same ones
    s.response_hash AS response_hash, -- Equal if two responses have the same body; empty without one
    s.attributes['{REQUEST_BODY_OMITTED}'] AS request_omitted, -- Why the request's body is missing, if it is
    s.attributes['{RESPONSE_BODY_OMITTED}'] AS response_omitted, -- Why the response's body is missing, if it is
    s.tool_call_id AS tool_call_id,
    s.service AS service,
    s.commit AS commit,
    s.user_id AS user_id,
    s.redaction_policy AS redaction_policy
FROM (
    -- the hashes here, and below the ARRAY JOIN that changes no row: else the engine sorts the templates for the window above
    SELECT *, {COMPUTED_COLUMNS}, start_time + toIntervalNanosecond(duration_ns) AS end_time, duration_ns / 1e6 AS ms,
        splitByChar('\x01', templates) AS around, mapKeys(refs) AS named,
        arrayMap(text -> lower(hex(text)), refs['{REQUEST_BODY}']) AS request_texts,
        if(has(named, '{REQUEST_BODY}'), lower(hex(substring(SHA256(concat(around[indexOf(named, '{REQUEST_BODY}')],
            arrayStringConcat(refs['{REQUEST_BODY}']))), 1, 12))), '') AS request_hash,
        if(has(named, '{RESPONSE_BODY}'), lower(hex(substring(SHA256(concat(around[indexOf(named, '{RESPONSE_BODY}')],
            arrayStringConcat(refs['{RESPONSE_BODY}']))), 1, 12))), '') AS response_hash
    FROM {db}.span_rows FINAL
    PREWHERE exchange_kind != '' -- as in chunks
) AS s
ARRAY JOIN [1] AS one
COMMENT 'One row per call that crossed a seam: SELECT seam, dialect, count() FROM exchanges GROUP BY ALL'
