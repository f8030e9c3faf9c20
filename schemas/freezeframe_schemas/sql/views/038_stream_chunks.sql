-- One row per chunk of a response as it came over the wire: how a stream flowed, and where it paused.
CREATE OR REPLACE VIEW {db}.stream_chunks {on_cluster} AS
SELECT
    s.tenant AS tenant,
    s.trace_id AS trace_id,
    s.run_id AS run_id,
    s.span_id AS span_id,
    s.start_time AS start_time,
    s.exchange_kind AS kind, -- model, tool, retrieval, mcp or http
    toString(if(s.response_model != '', s.response_model, s.request_model)) AS model, -- Model that answered, or that was asked for
    place, -- Place in the response, from 1
    size AS bytes, -- Bytes of the chunk
    offset_ns / 1e6 AS offset_ms, -- Milliseconds from the start of the exchange
    if(place = 1, NULL, (toInt64(offset_ns) - toInt64(before_ns)) / 1e6) AS gap_ms -- Milliseconds since the chunk before
FROM (SELECT *, {COMPUTED_COLUMNS} FROM {db}.span_rows FINAL) AS s
ARRAY JOIN
    s.chunk_sizes AS size,
    arrayResize(s.chunk_offsets_ns, length(s.chunk_sizes)) AS offset_ns,
    -- joined too, because the engine would copy an array that is read below for each of its chunks
    arrayResize(arrayPushFront(s.chunk_offsets_ns, 0), length(s.chunk_sizes)) AS before_ns,
    arrayEnumerate(s.chunk_sizes) AS place
COMMENT 'One row per chunk of a response as it came: SELECT model, quantile(0.99)(gap_ms) FROM stream_chunks GROUP BY model'
