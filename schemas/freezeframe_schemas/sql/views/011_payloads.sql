-- Pieces of large values. A value is its pieces joined: see the view contents.
CREATE OR REPLACE VIEW {db}.payloads {on_cluster} AS
SELECT * REPLACE (lower(hex(hash)) AS hash)
FROM merge({db_text}, '^payloads_(hot|kept)$') FINAL
COMMENT 'Pieces of large attribute values, each once per run';
