-- One row per chunk that a retrieval returned. Read from the template of the list of documents, in which a long text is char(2)
-- and its name: no text is touched. A list that cannot be read so (more than 2 KB of short texts in a row, or stored by a version
-- without templates) is one row of rank 0; `contents` has it whole.
CREATE OR REPLACE VIEW {db}.chunks {on_cluster} AS
WITH
    JSONExtractString(document, 'content') AS said,
    startsWith(said, char(2)) AS is_name
SELECT
    d.tenant AS tenant,
    d.trace_id AS trace_id,
    d.run_id AS run_id,
    d.span_id AS span_id,
    d.start_time AS start_time,
    d.source AS source, -- Retriever or index that was searched
    rank, -- Place in the answer, from 1; 0 if the list cannot be read without its texts: see contents
    JSONExtractString(document, 'id') AS chunk_id, -- Id of the chunk, from the retriever
    JSONExtract(document, 'score', 'Nullable(Float64)') AS score, -- Its score, from the retriever
    JSONExtractString(document, 'document_id') AS document_id, -- The document that it is part of, if the retriever says so
    if(is_name, '', said) AS content, -- Its text; empty if it has 128 bytes or more: payloads has it under content_hash
    multiIf(rank = 0, '', is_name, substring(said, 2), lower(hex(substring(SHA256(said), 1, 12)))) AS content_hash, -- Name of its text, the same in every run
    d.service AS service,
    d.commit AS commit,
    d.user_id AS user_id
FROM (
    WITH
        '{RETRIEVAL_DOCUMENTS}' AS attribute,
        splitByChar('\0', splitByChar('\x01', templates)[indexOf(mapKeys(refs), attribute)]) AS around,
        arrayMap(digest -> concat('\\u0002', lower(hex(digest))), refs[attribute]) AS names,
        arrayStringConcat(arrayMap((text, name) -> concat(text, name), around, arrayResize(names, length(around), ''))) AS list
    SELECT
        tenant, trace_id, run_id, span_id, start_time, service, commit, user_id,
        if(data_source != '', toString(data_source), toString(name)) AS source,
        JSONType(list) = 'Array' AS is_readable,
        if(is_readable, JSONExtractArrayRaw(list), ['']) AS documents,
        if(is_readable, arrayEnumerate(documents), [0]) AS ranks
    -- PREWHERE, so that the templates of other spans are not read; it holds of each version of a span, or of none
    FROM (SELECT *, {COMPUTED_COLUMNS} FROM {db}.span_rows FINAL PREWHERE has(refs.keys, '{RETRIEVAL_DOCUMENTS}'))
) AS d
ARRAY JOIN d.documents AS document, d.ranks AS rank
COMMENT 'One row per retrieved chunk: SELECT trace_id, rank, score FROM chunks WHERE chunk_id = ''...'''
