-- Spans that failed, with a signature that similar failures share: numbers and ids in the message do not count.
CREATE OR REPLACE VIEW {db}.errors {on_cluster} AS
SELECT
    e.*,
    lower(hex(cityHash64(e.service, e.kind, e.subject, e.type, replaceRegexpOne(e.frame, ':[0-9]+ in ', ' in '),
        replaceRegexpAll(substring(e.message, 1, 200), '[0-9a-fA-F-]{8,}|[0-9]+', '#')))) AS signature -- Shared by similar failures: service, kind, subject, type, the frame without its line, and the message without numbers and ids
FROM (
    WITH
        arrayFirst(text -> text != '', arrayMap(attributes -> attributes['{EXCEPTION_STACKTRACE}'], s.`events.attributes`)) AS stack,
        arrayLast(one -> NOT match(one[1], '(site|dist)-packages.|.lib.python[0-9.]+.|^<frozen |.instrumentation.freezeframe.'),
            extractAllGroupsVertical(stack, 'File "([^"]+)", line ([0-9]+), in ([^\n]+)')) AS own
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
        s.http_status AS http_status,
        s.entry_kind AS entry_kind, -- Kind of the entry point, if the span is of one
        if(empty(own), '', concat(extract(own[1], '[^/\\\\]+$'), ':', own[2], ' in ', own[3])) AS frame -- Program's innermost frame in the traceback, on spans of entry points: shop.py:31 in total
    FROM {db}.spans AS s
    WHERE s.status = 'Error' OR ifNull(s.http_status, 0) >= 400
        OR (s.exchange_kind != '' AND s.raised)
) AS e
COMMENT 'Spans that failed: SELECT signature, any(message), count() FROM errors GROUP BY signature ORDER BY count() DESC';
