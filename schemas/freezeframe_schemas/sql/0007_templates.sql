-- What is around the long strings of a large value lies with the span; the strings themselves are its pieces. Rows of before have no
-- templates, and stay as they are: their values are their pieces joined.
ALTER TABLE {db}.span_rows{sfx} {on_cluster} ADD COLUMN IF NOT EXISTS `templates` String COMMENT 'Of each attribute in `refs`, in order, what is around its pieces: char(0) for a piece, char(1) between attributes; an attribute without a template is its pieces joined' CODEC(ZSTD(1, 23)) SETTINGS (min_compress_block_size = 4194304, max_compress_block_size = 8388608) AFTER `refs`;

ALTER TABLE {db}.span_rows{sfx} {on_cluster} COMMENT COLUMN refs 'Large attribute -> hashes of its payload pieces, in order';
