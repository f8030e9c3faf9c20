-- What redaction put in place of private values: one row per span and surrogate. Ask for a window of time or for one run.
CREATE OR REPLACE VIEW {db}.redactions {on_cluster} AS
SELECT
    s.tenant AS tenant,
    s.trace_id AS trace_id,
    s.span_id AS span_id,
    s.start_time AS start_time,
    s.service AS service,
    s.redaction_policy AS redaction_policy,
    pair.1 AS surrogate, -- What replaces the value
    pair.2 AS class -- What the value was: EMAIL, PERSON, PHONE, ...
FROM (
    SELECT tenant, trace_id, span_id, start_time, service, redaction_policy, attributes['{REDACTION_SURROGATES}'] AS listed
    FROM {db}.spans
    WHERE mapContains(attributes, '{REDACTION_SURROGATES}')
    UNION ALL
    SELECT c.tenant, c.trace_id, c.span_id, c.start_time, p.service, p.redaction_policy, c.body
    FROM (SELECT * FROM {db}.contents WHERE attribute = '{REDACTION_SURROGATES}') AS c
    INNER JOIN (
        SELECT tenant, trace_id, span_id, service, redaction_policy
        FROM {db}.spans WHERE mapContains(refs, '{REDACTION_SURROGATES}')
    ) AS p ON c.tenant = p.tenant AND c.trace_id = p.trace_id AND c.span_id = p.span_id
) AS s
ARRAY JOIN JSONExtractKeysAndValues(s.listed, 'String') AS pair
COMMENT 'Surrogates by span: SELECT toDate(start_time) AS day, service, class, uniq(surrogate) FROM redactions GROUP BY ALL';
