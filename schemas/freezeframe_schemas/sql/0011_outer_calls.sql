-- Of two spans that tell of one call of a model the inner one counts. Filled by the feed, which gathers all runs anew.
ALTER TABLE {db}.run_rows{sfx} {on_cluster}
    ADD COLUMN IF NOT EXISTS `outer_calls` SimpleAggregateFunction(groupUniqArrayArray, Array(UInt64)) COMMENT 'Spans below which another instrumentation\'s span tells of a model call: where one tells of such a call itself, the inner one counts' CODEC(ZSTD(1));
