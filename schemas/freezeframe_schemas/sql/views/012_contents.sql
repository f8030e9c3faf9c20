-- Large values whole: one row per span and attribute. Ask for one run (WHERE trace_id = ...): all its pieces are joined.
CREATE OR REPLACE VIEW {db}.contents {on_cluster} AS
SELECT
    v.tenant AS tenant,
    v.trace_id AS trace_id,
    v.span_id AS span_id,
    any(v.span_name) AS span_name,
    any(v.span_start_time) AS start_time,
    v.attribute AS attribute,
    arrayStringConcat(arrayMap(piece -> piece.2, arraySort(piece -> piece.1, groupArray((v.position, p.body))))) AS body
FROM (
    SELECT
        x.tenant AS tenant, x.trace_id AS trace_id, x.span_id AS span_id, x.name AS span_name, x.start_time AS span_start_time,
        ref.1 AS attribute, piece.1 AS hash, piece.2 AS position
    FROM {db}.spans AS x
    ARRAY JOIN CAST(x.refs, 'Array(Tuple(String, Array(String)))') AS ref
    ARRAY JOIN arrayZip(ref.2, arrayEnumerate(ref.2)) AS piece
) AS v
INNER JOIN {db}.payloads AS p ON v.tenant = p.tenant AND v.trace_id = p.trace_id AND v.hash = p.hash
GROUP BY v.tenant, v.trace_id, v.span_id, v.attribute
COMMENT 'Prompts, bodies and results whole: SELECT attribute, body FROM contents WHERE trace_id = ''...''';
