-- Full text: SELECT trace_id, snippet FROM search(words = 'refund order'). All words must be in one piece of text.
CREATE OR REPLACE VIEW {db}.search {on_cluster} AS
SELECT
    p.tenant AS tenant, p.trace_id AS trace_id, p.attribute AS attribute, p.run_hour AS run_hour, lower(hex(p.hash)) AS hash,
    substring(p.body, greatest(1, toInt64(positionCaseInsensitive(p.body, splitByNonAlpha({words:String})[1])) - 60), 200) AS snippet
FROM {db}.piece_rows AS p
WHERE hasAllTokens(lower(p.body), splitByNonAlpha(lower({words:String})));
