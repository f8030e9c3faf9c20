ALTER TABLE {db}.run_rows{sfx} {on_cluster} ADD COLUMN IF NOT EXISTS
    `tools` SimpleAggregateFunction(groupUniqArrayArray, Array(String)) COMMENT 'Tools that were called' CODEC(ZSTD(1)) AFTER `models`;
