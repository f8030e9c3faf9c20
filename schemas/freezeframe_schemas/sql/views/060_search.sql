-- Full text: SELECT trace_id, snippet FROM search(words = 'refund order'). All words must be in one long text, or among the short
-- ones of one span, or in the status message of one that failed.
CREATE OR REPLACE VIEW {db}.search {on_cluster} AS
SELECT
    p.tenant AS tenant, p.trace_id AS trace_id,
    toString(p.attribute) AS attribute, -- Attribute in which the text first appeared
    p.run_hour AS run_hour,
    lower(hex(p.hash)) AS hash, -- Name of the piece that has the words, in payloads; empty if they are in a template
    {BODY_SNIPPET} AS snippet -- The text around the words, or around the longest word if they are apart
FROM {db}.piece_rows AS p
WHERE {BODY_HAS_WORDS}
UNION ALL
SELECT
    s.tenant AS tenant, s.trace_id AS trace_id,
    toString(mapKeys(s.refs)[arrayFirstIndex(text -> {TEXT_HAS_WORDS}, splitByChar('\x01', s.templates))]) AS attribute,
    s.run_hour AS run_hour, '' AS hash,
    replaceRegexpAll({TEMPLATES_SNIPPET}, '[\x00-\x03]+', '…') AS snippet
FROM {db}.span_rows AS s
WHERE {TEMPLATES_HAVE_WORDS}
UNION ALL
SELECT
    s.tenant AS tenant, s.trace_id AS trace_id, 'status_message' AS attribute, s.run_hour AS run_hour, '' AS hash,
    {MESSAGE_SNIPPET} AS snippet
FROM {db}.span_rows AS s
WHERE s.status = 'Error' AND {MESSAGE_HAS_WORDS}
LIMIT 1 BY tenant, trace_id, attribute;
