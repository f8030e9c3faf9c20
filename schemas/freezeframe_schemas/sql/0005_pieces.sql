-- Payload pieces are no longer stored with their name, which is the hash of what they hold; and lie by time, so that neighbours
-- compress each other. Previews become one column, in which what was answered and what is asked next compress each other.
-- What is stored already is carried over; 0006 takes the old columns and tables away. Each statement can be repeated.
ALTER TABLE {db}.span_rows{sfx} {on_cluster} ADD COLUMN IF NOT EXISTS `previews` Array(String) COMMENT 'Start of the last thing that was asked, and of what was answered, for lists; empty where a span has neither' CODEC(ZSTD(1)) AFTER `normalised_from`;

ALTER TABLE {db}.span_rows{sfx} {on_cluster} UPDATE previews = [input_preview, output_preview]
WHERE input_preview != '' OR output_preview != '' SETTINGS mutations_sync = 2;

CREATE TABLE IF NOT EXISTS {db}.piece_rows{sfx} {on_cluster} (
    `kept` UInt8 COMMENT '1 once the row was copied out of its day, because the run is kept longer than the day\'s other runs' CODEC(ZSTD(1)),
    `tenant` LowCardinality(String) COMMENT 'Tenant of the span or its resource; empty where none was set' CODEC(ZSTD(1)),
    `run_hour` DateTime('UTC') COMMENT 'Hour in which the run started, the same for all spans of a run: order on disk and partition (by day) follow it' CODEC(Delta(4), ZSTD(1)),
    `trace_id` String COMMENT 'The run that the piece belongs to' CODEC(ZSTD(1)),
    `start_time` DateTime('UTC') COMMENT 'Start of the span in which the piece was first met: neighbours in time are alike, and compress each other' CODEC(Delta(4), ZSTD(1)),
    `attribute` LowCardinality(String) COMMENT 'Attribute in which the piece was first met' CODEC(ZSTD(1)),
    `body` String COMMENT 'The bytes; an attribute\'s value is its pieces joined' CODEC(ZSTD(3, 23)) SETTINGS (min_compress_block_size = 8388608, max_compress_block_size = 16777216),
    `hash` FixedString(12) ALIAS toFixedString(substring(SHA256(body), 1, 12), 12) COMMENT 'First 12 bytes of the SHA-256 of `body`: computed when it is asked for, never stored',
    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1
) ENGINE = {replacing}
PARTITION BY (kept, toDate(run_hour))
ORDER BY (tenant, run_hour, trace_id, start_time, SHA256(body))
SETTINGS index_granularity = 256{durable}
COMMENT 'Pieces of large values, each once per run; an attribute is its pieces joined (spans.refs)';

INSERT INTO {db}.piece_rows{sfx} (kept, tenant, run_hour, trace_id, start_time, attribute, body)
SELECT kept, tenant, run_hour, trace_id, run_hour, attribute, body FROM {db}.payload_rows{sfx}
SETTINGS max_partitions_per_insert_block = 0;
