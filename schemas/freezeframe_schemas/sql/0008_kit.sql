-- What the spans of a run lack of the replay kit, worked out as they come. Filled by the feed, which gathers all runs anew.
ALTER TABLE {db}.run_rows{sfx} {on_cluster}
    ADD COLUMN IF NOT EXISTS `lacks` SimpleAggregateFunction(groupBitOr, UInt32) COMMENT 'Bits, by place in run.KIT: fields of the replay kit that some exchange lacks' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `entry_lacks` SimpleAggregateFunction(min, Tuple(rank UInt8, start_time DateTime64(9, 'UTC'), span_id String, lacks UInt32)) COMMENT 'The same of the entry point\'s span, found as in `entry`' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `gaps` SimpleAggregateFunction(groupUniqArrayArray, Array(String)) COMMENT 'What spans are known to lack, see spans.gaps' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS `parents` SimpleAggregateFunction(groupUniqArrayArray, Array(UInt64)) COMMENT 'Spans named as a parent in a batch that lacks one of them; one that is not in `marks` either leaves orphans' CODEC(ZSTD(1));
