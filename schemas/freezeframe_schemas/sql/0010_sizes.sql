-- Less on disk, and fewer files a fresh part. Metadata alone: parts of before are written anew as they merge.
ALTER TABLE {db}.span_rows{sfx} {on_cluster}
    MODIFY COLUMN `previews` Array(String) CODEC(ZSTD(3)) SETTINGS (min_compress_block_size = 1048576, max_compress_block_size = 2097152),
    MODIFY COLUMN `templates` String CODEC(ZSTD(3, 23)) SETTINGS (min_compress_block_size = 4194304, max_compress_block_size = 8388608),
    MODIFY COLUMN `resource` Map(LowCardinality(String), String) CODEC(ZSTD(3)) SETTINGS (min_compress_block_size = 1048576, max_compress_block_size = 2097152);

-- Below this size a part is one file in place of two hundred, each of which an insert writes and syncs.
ALTER TABLE {db}.span_rows{sfx} {on_cluster} MODIFY SETTING min_bytes_for_wide_part = 33554432;
