-- How many exchanges a run made, so that one whose span was lost is missed. Filled by the feed, which gathers all runs anew.
ALTER TABLE {db}.run_rows{sfx} {on_cluster}
    ADD COLUMN IF NOT EXISTS `made` SimpleAggregateFunction(maxMap, Map(UInt64, UInt64)) COMMENT 'Entry span -> exchanges of its run that had ended when it did; more than there are means that some were lost' CODEC(ZSTD(1)) AFTER `begun`;
