-- Entry points whose end was not recorded: the input of each, and how far its run got. One row per entry point.
CREATE OR REPLACE VIEW {db}.unfinished_runs {on_cluster} AS
SELECT
    s.tenant AS tenant,
    s.trace_id AS trace_id,
    s.parent_span_id AS span_id, -- Span id of the entry span that never arrived
    s.name AS name, -- Name of the entry point
    s.entry_target AS entry_target,
    s.service AS service,
    s.start_time AS start_time,
    r.end_time AS last_heard, -- When the run was last heard from
    r.exchanges AS exchanges, -- Exchanges that had ended by then
    s.previews[1] AS input -- Start of the entry point's input
FROM (SELECT *, {COMPUTED_COLUMNS} FROM {db}.span_rows FINAL WHERE begun != '') AS s
INNER JOIN (SELECT * FROM {db}.runs WHERE status = '{UNFINISHED}') AS r ON s.tenant = r.tenant AND s.trace_id = r.trace_id
WHERE (s.trace_id, s.parent_span_id) NOT IN (SELECT trace_id, span_id FROM {db}.span_rows WHERE entry_kind != '' AND begun = '')
COMMENT 'Runs still going, or killed: SELECT * FROM unfinished_runs WHERE last_heard < now() - INTERVAL 10 MINUTE';
