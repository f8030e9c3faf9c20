-- Large values whole: one row per span and attribute. Ask for one run (WHERE trace_id = ...): all its pieces are joined.
CREATE OR REPLACE VIEW {db}.contents {on_cluster} AS
SELECT
    tenant,
    trace_id,
    span_id,
    span_name, -- Name of the span
    start_time,
    attribute, -- Attribute whose value it is
    if(startsWith(template, '\x02'), {UNFOLDED_STREAM}, filled) AS body -- The value, whole
FROM (
    SELECT
        v.tenant AS tenant,
        v.trace_id AS trace_id,
        v.span_id AS span_id,
        any(v.span_name) AS span_name,
        any(v.span_start_time) AS start_time,
        v.attribute AS attribute,
        any(v.template) AS template,
        arrayMap(piece -> piece.2, arraySort(piece -> piece.1, groupArrayIf((v.position, p.body), v.position > 0))) AS pieces,
        if(template = '', arrayStringConcat(pieces), arrayStringConcat(arrayMap((text, piece) -> concat(text, piece),
            splitByChar('\x00', template), arrayResize(pieces, length(splitByChar('\x00', template)), '')))) AS filled
    FROM (
        SELECT
            x.tenant AS tenant, x.trace_id AS trace_id, x.span_id AS span_id, x.name AS span_name,
            x.start_time AS span_start_time, ref.1 AS attribute, template, lower(hex(digest)) AS hash, position
        FROM {db}.span_rows AS x FINAL
        ARRAY JOIN
            CAST(x.refs, 'Array(Tuple(String, Array(FixedString(12))))') AS ref,
            arrayResize(splitByChar('\x01', x.templates), length(x.refs), '') AS template
        LEFT ARRAY JOIN ref.2 AS digest, arrayEnumerate(ref.2) AS position
        WHERE x.begun = ''
    ) AS v
    LEFT JOIN {db}.payloads AS p ON v.tenant = p.tenant AND v.trace_id = p.trace_id AND v.hash = p.hash
    GROUP BY v.tenant, v.trace_id, v.span_id, v.attribute
)
COMMENT 'Prompts, bodies and results whole: SELECT attribute, body FROM contents WHERE trace_id = ''...''';
