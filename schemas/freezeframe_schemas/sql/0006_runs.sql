-- Takes away what 0005 carried over, and gathers the rows of runs anew: their tokens lie in `marks` now, beside the bits.
DROP VIEW IF EXISTS {db}.run_rows_feed {on_cluster};

DROP TABLE IF EXISTS {db}.payload_rows{sfx} {on_cluster} SYNC;

ALTER TABLE {db}.span_rows{sfx} {on_cluster} DROP COLUMN IF EXISTS input_preview, DROP COLUMN IF EXISTS output_preview;

ALTER TABLE {db}.run_rows{sfx} {on_cluster} DROP COLUMN IF EXISTS tokens_in, DROP COLUMN IF EXISTS tokens_out,
    COMMENT COLUMN marks 'Span -> bits: 1 error; exchange: 2 model, 4 tool, 8 retrieval, 16 other; operation: 32 model, 64 tool, 128 retrieval; from bit 8 input tokens, from bit 36 output tokens, 28 bits each';

TRUNCATE TABLE {db}.run_rows{sfx} {on_cluster};

-- Gathers each run's row as its spans come in. Every aggregate gives the same for a span that comes twice.
CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.run_rows_feed {on_cluster} TO {db}.run_rows{sfx} AS
SELECT
    s.kept AS kept,
    s.tenant AS tenant,
    s.run_hour AS run_hour,
    s.trace_id AS trace_id,
    min(s.start_time) AS start_time,
    max(s.start_time + toIntervalNanosecond(s.duration_ns)) AS end_time,
    max(s.run_id) AS run_id,
    max(s.service) AS service,
    max(s.agent_name) AS agent,
    max(s.user_id) AS user_id,
    max(s.session_id) AS session_id,
    max(s.conversation_id) AS conversation_id,
    max(s.commit) AS commit,
    max(toInt8(ifNull(s.commit_dirty, -1))) AS commit_dirty,
    min((toUInt8(multiIf(s.entry_kind != '', 0, s.parent_span_id = '', 1, 2)), s.start_time, s.span_id, toString(s.name),
        toString(s.entry_target), s.status = 'Error' OR mapContains(s.refs, '{ERROR_CHAIN}'), s.previews[1], s.previews[2],
        s.flag_values)) AS entry,
    min((if(s.status = 'Error', s.start_time, toDateTime64('2262-01-01 00:00:00', 9, 'UTC')),
        if(s.status = 'Error', if(s.error_type != '', toString(s.error_type), s.status_message), ''))) AS first_error,
    max(toUInt8(s.exchange_kind != '')) AS has_exchanges,
    groupUniqArrayIf(toString(s.request_model), s.request_model != '') AS models,
    maxMap(map(cityHash64(s.span_id),
        toUInt64(s.status = 'Error') + 2 * (s.exchange_kind = 'model') + 4 * (s.exchange_kind IN ('tool', 'mcp'))
        + 8 * (s.exchange_kind = 'retrieval') + 16 * (s.exchange_kind NOT IN ('', 'model', 'tool', 'mcp', 'retrieval'))
        + 32 * (s.operation IN ({MODEL_OPERATIONS})) + 64 * (s.operation = '{OP_EXECUTE_TOOL}')
        + 128 * (s.operation = '{OP_RETRIEVAL}')
        + bitShiftLeft(toUInt64(least(greatest(ifNull(s.input_tokens, 0), 0), 268435455)), 8)
        + bitShiftLeft(toUInt64(least(greatest(ifNull(s.output_tokens, 0), 0), 268435455)), 36))) AS marks
FROM {db}.span_rows{sfx} AS s
GROUP BY s.kept, s.tenant, s.run_hour, s.trace_id;

INSERT INTO {db}.run_rows{sfx} (kept, tenant, run_hour, trace_id, start_time, end_time, run_id, service, agent, user_id, session_id,
    conversation_id, commit, commit_dirty, entry, first_error, has_exchanges, models, marks)
SELECT
    s.kept AS kept,
    s.tenant AS tenant,
    s.run_hour AS run_hour,
    s.trace_id AS trace_id,
    min(s.start_time) AS start_time,
    max(s.start_time + toIntervalNanosecond(s.duration_ns)) AS end_time,
    max(s.run_id) AS run_id,
    max(s.service) AS service,
    max(s.agent_name) AS agent,
    max(s.user_id) AS user_id,
    max(s.session_id) AS session_id,
    max(s.conversation_id) AS conversation_id,
    max(s.commit) AS commit,
    max(toInt8(ifNull(s.commit_dirty, -1))) AS commit_dirty,
    min((toUInt8(multiIf(s.entry_kind != '', 0, s.parent_span_id = '', 1, 2)), s.start_time, s.span_id, toString(s.name),
        toString(s.entry_target), s.status = 'Error' OR mapContains(s.refs, '{ERROR_CHAIN}'), s.previews[1], s.previews[2],
        s.flag_values)) AS entry,
    min((if(s.status = 'Error', s.start_time, toDateTime64('2262-01-01 00:00:00', 9, 'UTC')),
        if(s.status = 'Error', if(s.error_type != '', toString(s.error_type), s.status_message), ''))) AS first_error,
    max(toUInt8(s.exchange_kind != '')) AS has_exchanges,
    groupUniqArrayIf(toString(s.request_model), s.request_model != '') AS models,
    maxMap(map(cityHash64(s.span_id),
        toUInt64(s.status = 'Error') + 2 * (s.exchange_kind = 'model') + 4 * (s.exchange_kind IN ('tool', 'mcp'))
        + 8 * (s.exchange_kind = 'retrieval') + 16 * (s.exchange_kind NOT IN ('', 'model', 'tool', 'mcp', 'retrieval'))
        + 32 * (s.operation IN ({MODEL_OPERATIONS})) + 64 * (s.operation = '{OP_EXECUTE_TOOL}')
        + 128 * (s.operation = '{OP_RETRIEVAL}')
        + bitShiftLeft(toUInt64(least(greatest(ifNull(s.input_tokens, 0), 0), 268435455)), 8)
        + bitShiftLeft(toUInt64(least(greatest(ifNull(s.output_tokens, 0), 0), 268435455)), 36))) AS marks
FROM {db}.span_rows{sfx} AS s
GROUP BY s.kept, s.tenant, s.run_hour, s.trace_id
SETTINGS max_partitions_per_insert_block = 0;
