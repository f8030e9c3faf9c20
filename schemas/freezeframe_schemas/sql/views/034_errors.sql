-- Spans that failed, with a signature that similar failures share: numbers and ids in the message do not count.
CREATE OR REPLACE VIEW {db}.errors {on_cluster} AS
SELECT
    e.*,
    lower(hex(cityHash64(e.service, e.kind, e.subject, e.type,
        replaceRegexpAll(substring(e.message, 1, 200), '[0-9a-fA-F-]{8,}|[0-9]+', '#')))) AS signature -- Shared by similar failures: service, kind, subject, type, and the message without numbers and ids
FROM (
    SELECT
        s.tenant AS tenant, s.trace_id AS trace_id, s.run_id AS run_id, s.span_id AS span_id, s.parent_span_id AS parent_span_id,
        s.start_time AS start_time, toString(s.service) AS service, s.commit AS commit, s.name AS span_name, -- Name of the span
        multiIf(s.exchange_kind != '', toString(s.exchange_kind), s.operation != '', toString(s.operation), 'span') AS kind, -- Kind of the exchange, else the operation, else span
        toString(if(s.tool_name != '', s.tool_name, s.request_model)) AS subject, -- Tool, or requested model
        if(s.error_type != '', toString(s.error_type), arrayFirst(type -> type != '', arrayMap(
            attributes -> attributes['{EXCEPTION_TYPE}'], s.`events.attributes`))) AS type, -- Class of the error
        multiIf(s.status_message != '', s.status_message,
            ifNull(s.http_status, 0) >= 400 AND s.output_preview != '', s.output_preview,
            arrayFirst(message -> message != '', arrayMap(
                attributes -> attributes['{EXCEPTION_MESSAGE}'], s.`events.attributes`))) AS message, -- Its message
        s.http_status AS http_status
    FROM {db}.spans AS s
    WHERE s.status = 'Error' OR ifNull(s.http_status, 0) >= 400
        OR (s.exchange_kind != '' AND s.raised)
) AS e
COMMENT 'Spans that failed: SELECT signature, any(message), count() FROM errors GROUP BY signature ORDER BY count() DESC';
