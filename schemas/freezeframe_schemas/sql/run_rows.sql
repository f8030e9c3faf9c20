-- What the spans of a run come to: of a batch as it is inserted, and of all spans where this text has changed since.
-- Every aggregate gives the same for a span that comes twice. Columns in the order of columns.RUN_COLUMNS.
SELECT
    s.kept AS kept,
    s.tenant AS tenant,
    s.run_hour AS run_hour,
    s.trace_id AS trace_id,
    min(s.start_time) AS start_time,
    maxIf(s.start_time + toIntervalNanosecond(s.duration_ns), s.name != '{EVALUATION_EVENT}') AS end_time,
    max(s.run_id) AS run_id,
    max(s.service) AS service,
    max(s.agent_name) AS agent,
    max(s.user_id) AS user_id,
    max(s.session_id) AS session_id,
    max(s.conversation_id) AS conversation_id,
    max(s.commit) AS commit,
    max(toInt8(ifNull(s.commit_dirty, -1))) AS commit_dirty,
    min(tupleConcat(s.entry_rank, (toString(s.name),
        toString(s.entry_target), s.status = 'Error' OR mapContains(s.refs, '{ERROR_CHAIN}'), s.previews[1], s.previews[2],
        s.flag_values))) AS entry,
    min((multiIf(s.status != 'Error', toDateTime64('2262-01-01 00:00:00', 9, 'UTC'), s.entry_kind = '', s.start_time, toDateTime64(1, 9, 'UTC')),
        multiIf(s.status != 'Error', '', s.status_message = '', toString(s.error_type),
            s.error_type = '' OR position(s.status_message, splitByChar('.', toString(s.error_type))[-1]) > 0, substring(s.status_message, 1, 200),
            concat(splitByChar('.', toString(s.error_type))[-1], ': ', substring(s.status_message, 1, 200))))) AS first_error,
    max(toUInt8(s.exchange_kind != '')) AS has_exchanges,
    groupUniqArrayIf(toString(s.request_model), s.request_model != '') AS models,
    groupUniqArrayIf(toString(if(s.tool_name != '', s.tool_name, s.name)),
        s.exchange_kind IN ('tool', 'mcp') OR (s.exchange_kind = '' AND s.operation = '{OP_EXECUTE_TOOL}')) AS tools,
    maxMapIf(map(cityHash64(s.span_id),
        toUInt64(s.status = 'Error')
        + transform(toString(s.exchange_kind), ['', 'model', 'tool', 'mcp', 'retrieval'], [0, 2, 4, 4, 8], 16)
        + 32 * {REPORTS_MODEL_CALL} + 64 * (s.operation = '{OP_EXECUTE_TOOL}')
        + 128 * (s.operation = '{OP_RETRIEVAL}')
        + bitShiftLeft(toUInt64(least(greatest(ifNull(s.input_tokens, 0), 0), 268435455)), 8)
        + bitShiftLeft(toUInt64(least(greatest(ifNull(s.output_tokens, 0), 0), 268435455)), 36)), s.begun = '') AS marks,
    groupBitOr({KIT_OF_EXCHANGES}) AS lacks,
    min(tupleConcat(s.entry_rank, tuple({KIT_OF_ENTRY}))) AS entry_lacks,
    groupUniqArrayArray(arrayMap(gap -> toString(gap), s.gaps)) AS gaps,
    if(length(arrayIntersect(groupUniqArrayIf(cityHash64(s.parent_span_id), s.parent_span_id != '' AND s.begun = '') AS named, mapKeys(marks)))
        = length(named), [], named) AS parents,
    groupUniqArrayIf(cityHash64(s.parent_span_id), s.begun != '') AS begun,
    maxMapIf(map(cityHash64(s.span_id), toUInt64OrZero(s.attributes['{ENTRY_EXCHANGES}'])), mapContains(s.attributes, '{ENTRY_EXCHANGES}')) AS made
FROM (SELECT *, {COMPUTED_FOR_RUNS}, ({ENTRY_RANK}) AS entry_rank, {CARRIED} AS carried FROM {db}.span_rows{sfx} AS s) AS s
GROUP BY s.kept, s.tenant, s.run_hour, s.trace_id
