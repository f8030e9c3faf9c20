-- Verdicts on runs and steps: evaluation events on spans (a log record and OpenInference's annotations become such events), and
-- labels by hand. A span that is a call or an entry point is judged itself; another one that has a single link, as a judge that
-- runs later sends, judges what it links to.
CREATE OR REPLACE VIEW {db}.scores {on_cluster} AS
SELECT
    v.tenant AS tenant,
    v.trace_id AS trace_id, -- The run that was judged, or that carries a verdict on its session
    nullIf(multiIf(v.of != '', 0,
        v.response_id != '' AND s.step_of[v.response_id] > 0, s.step_of[v.response_id], s.step_of[v.span_id]), 0) AS step, -- Step that was judged; NULL for the run or the session as a whole
    v.name AS name, -- What was judged: correctness, hallucination, ...; label for a label by hand
    v.value AS value, -- Number, if the judge gave one
    v.label AS label, -- Word, if the judge gave one
    v.explanation AS explanation, -- Reason, or the note of a label
    v.by AS by, -- Who judged: hand (only of a label), llm, code, another kind that the sender names, or else its instrumentation scope
    v.author AS author, -- User name of a label's author
    v.at AS at, -- When
    multiIf(v.of != '', v.of, step IS NULL, 'run', 'step') AS of, -- What was judged: step, run or session
    v.span_id AS span_id
FROM (
    SELECT
        s.tenant AS tenant,
        s.exchange_kind = '' AND s.entry_kind = '' AND s.operation = '' AND length(s.`links.span_id`) = 1 AS elsewhere,
        if(elsewhere, s.`links.trace_id`[1], s.trace_id) AS trace_id,
        multiIf(elsewhere, s.`links.span_id`[1], s.name = '{EVALUATION_EVENT}', s.parent_span_id, s.span_id) AS span_id,
        verdict['{RESPONSE_ID}'] AS response_id, verdict['{EVALUATION_OF}'] AS of, verdict['{EVALUATION_NAME}'] AS name,
        toFloat64OrNull(verdict['{EVALUATION_VALUE}']) AS value, verdict['{EVALUATION_LABEL}'] AS label,
        verdict['{EVALUATION_EXPLANATION}'] AS explanation,
        if(lower(verdict['{EVALUATION_BY}']) IN ('', 'hand'), toString(s.scope_name), lower(verdict['{EVALUATION_BY}'])) AS by, '' AS author,
        toDateTime64(time, 3, 'UTC') AS at
    FROM {db}.spans AS s
    ARRAY JOIN s.`events.name` AS event, s.`events.attributes` AS verdict, s.`events.time` AS time
    WHERE position(s.rest, '{EVALUATION_EVENT}') > 0 AND event = '{EVALUATION_EVENT}'
    UNION ALL
    SELECT tenant, false, trace_id, span_id, '', '', 'label', NULL, toString(label), note, 'hand', author, applied_at
    FROM {db}.labels FINAL
    WHERE label != '' OR note != ''
) AS v
LEFT JOIN (
    SELECT tenant, trace_id, mapFromArrays(arrayConcat(groupArray(span_id), groupArrayIf(response_id, response_id != '')),
        arrayConcat(groupArray(step), groupArrayIf(step, response_id != ''))) AS step_of
    FROM {db}.steps GROUP BY tenant, trace_id
) AS s ON v.tenant = s.tenant AND v.trace_id = s.trace_id
COMMENT 'Verdicts on runs and steps: SELECT name, by, count(), avg(value) FROM scores GROUP BY name, by';
