-- One row per retrieval.
CREATE OR REPLACE VIEW {db}.retrievals {on_cluster} AS
SELECT
    s.tenant AS tenant, s.trace_id AS trace_id, s.run_id AS run_id, s.span_id AS span_id, s.parent_span_id AS parent_span_id,
    s.start_time AS start_time, s.ms AS ms, -- Milliseconds from start to end
    if(s.data_source != '', s.data_source, s.name) AS source, -- Retriever or index that was searched
    s.service AS service, if(s.status = 'Error' OR s.raised, 'error', 'ok') AS status, -- error or ok
    s.error_type AS error_type, s.input_preview AS query, -- Start of the question
    s.output_preview AS documents, -- Start of the list of chunks; one each in chunks
    s.attributes['{EMBEDDING_VERSION}'] AS embedding_version, -- Version of the embedding, if the span has it
    CAST(s.exchange_kind != '', 'UInt8') AS exact -- True if it is an exchange, recorded byte for byte; false if another instrumentation reported it
FROM {db}.spans AS s
LEFT JOIN {RUNS_WITHOUT_EXCHANGES} AS u ON s.tenant = u.tenant AND s.trace_id = u.trace_id
WHERE (s.exchange_kind = 'retrieval' OR (s.exchange_kind = '' AND s.operation = '{OP_RETRIEVAL}'))
    AND (s.exchange_kind != '' OR u.trace_id != '')
COMMENT 'One row per retrieval; the chunks whole are in contents';
