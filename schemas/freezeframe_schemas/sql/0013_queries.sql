-- When a span came into the store, beside when it happened; and who asked the embedded store what.
ALTER TABLE {db}.span_rows{sfx} {on_cluster}
    ADD COLUMN IF NOT EXISTS `stored_at` DateTime64(3, 'UTC') COMMENT 'When the collector gave it to the store, the last time if it was sent twice; 1970 if it was stored before this was noted' CODEC(Delta(8), ZSTD(1)) AFTER `rest`;

CREATE TABLE IF NOT EXISTS {db}.queries {on_cluster} (
    time DateTime64(3, 'UTC') COMMENT 'When it was asked',
    user LowCardinality(String) COMMENT 'Whose password was shown: default (the reader token) or admin',
    address LowCardinality(String) COMMENT 'Where the request came from',
    client LowCardinality(String) COMMENT 'The program, as it names itself (User-Agent)',
    statement String COMMENT 'What was asked, each literal and each quoted name that is not a plain one replaced by ?, without comments',
    runs Array(String) COMMENT 'Runs of this store that the statement or its parameters name by their trace id',
    duration_ms UInt32 COMMENT 'Until the end of the answer',
    outcome LowCardinality(String) COMMENT 'ok, failed, refused (not a reader''s to ask), or left (the client went away)',
    error_code UInt32 COMMENT 'The engine''s code of the error; 0 if there was none'
) ENGINE = {merge_tree}
PARTITION BY toMonday(time)
ORDER BY time
TTL toDateTime(time) + INTERVAL 90 DAY
SETTINGS index_granularity = 1024, ttl_only_drop_parts = 1{durable}
COMMENT 'Who asked the collector what, for 90 days; a ClickHouse server keeps its own in system.query_log';
