-- Full text: SELECT trace_id, snippet FROM search(words = 'refund order'). All words must be in one long text, or among the short
-- ones of one span, or in the status message of one that failed.
CREATE OR REPLACE VIEW {db}.search {on_cluster} AS
SELECT
    p.tenant AS tenant, p.trace_id AS trace_id,
    toString(p.attribute) AS attribute, -- Attribute in which the text first appeared
    p.run_hour AS run_hour,
    lower(hex(p.hash)) AS hash, -- Name of the piece that has the words, in payloads; empty if they are in a template
    substring(p.body, greatest(1, toInt64(ifNull(nullIf(positionCaseInsensitive(p.body, {words:String}), 0),
        positionCaseInsensitive(p.body, arraySort(word -> -length(word), splitByNonAlpha({words:String}))[1]))) - 60), 200)
        AS snippet -- The text around the words, or around the longest word if they are apart
FROM {db}.piece_rows AS p
WHERE hasAllTokens(lower(p.body), splitByNonAlpha(lower({words:String})))
UNION ALL
SELECT
    s.tenant AS tenant, s.trace_id AS trace_id,
    toString(mapKeys(s.refs)[arrayFirstIndex(text -> hasAllTokens(lower(text), splitByNonAlpha(lower({words:String}))),
        splitByChar('\x01', s.templates))]) AS attribute,
    s.run_hour AS run_hour, '' AS hash,
    replaceRegexpAll(substring(s.templates, greatest(1, toInt64(ifNull(nullIf(positionCaseInsensitive(s.templates, {words:String}), 0),
        positionCaseInsensitive(s.templates, arraySort(word -> -length(word), splitByNonAlpha({words:String}))[1]))) - 60), 200),
        '[\x00-\x03]+', '…') AS snippet
FROM {db}.span_rows AS s
WHERE hasAllTokens(lower(s.templates), splitByNonAlpha(lower({words:String})))
UNION ALL
SELECT
    s.tenant AS tenant, s.trace_id AS trace_id, 'status_message' AS attribute, s.run_hour AS run_hour, '' AS hash,
    substring(JSONExtractString(s.rest, 'status_message') AS message, greatest(1, toInt64(positionCaseInsensitive(message,
        arraySort(word -> -length(word), splitByNonAlpha({words:String}))[1])) - 60), 200) AS snippet
FROM {db}.span_rows AS s
WHERE s.status = 'Error' AND hasAllTokens(lower(JSONExtractString(s.rest, 'status_message')), splitByNonAlpha(lower({words:String})))
LIMIT 1 BY tenant, trace_id, attribute;
