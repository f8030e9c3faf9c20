-- A run whose end never came: the pending span says that its entry point began. The rows of runs are gathered anew by the feed.
DROP VIEW IF EXISTS {db}.run_rows_feed {on_cluster};

ALTER TABLE {db}.span_rows{sfx} {on_cluster}
    ADD COLUMN IF NOT EXISTS `begun` String COMMENT 'Of a pending span, which says that its parent began: the parent\'s own parent [freezeframe.entry.begun]' CODEC(ZSTD(1)) AFTER `entry_target`;

ALTER TABLE {db}.run_rows{sfx} {on_cluster} DROP COLUMN IF EXISTS `entry`, DROP COLUMN IF EXISTS `entry_lacks`;

ALTER TABLE {db}.run_rows{sfx} {on_cluster}
    ADD COLUMN IF NOT EXISTS `entry` SimpleAggregateFunction(min, Tuple(rank UInt8, start_time DateTime64(9, 'UTC'), span_id String, pending Bool, name String, target String, failed Bool, input String, output String, flag_values String)) COMMENT 'The entry point\'s span: marked, else the root, else the first' CODEC(ZSTD(1)) AFTER `commit_dirty`,
    ADD COLUMN IF NOT EXISTS `entry_lacks` SimpleAggregateFunction(min, Tuple(rank UInt8, start_time DateTime64(9, 'UTC'), span_id String, pending Bool, lacks UInt32)) COMMENT 'The same of the entry point\'s span, found as in `entry`' CODEC(ZSTD(1)) AFTER `lacks`,
    ADD COLUMN IF NOT EXISTS `begun` SimpleAggregateFunction(groupUniqArrayArray, Array(UInt64)) COMMENT 'Entry spans that began; one that is not in `marks` has no recorded end, and the run is unfinished' CODEC(ZSTD(1)) AFTER `parents`;
