-- Pieces of large values. A value is its pieces joined: see the view contents.
CREATE OR REPLACE VIEW {db}.payloads {on_cluster} AS
SELECT
    *,
    lower(hex(hash)) AS hash -- Name of the piece in spans.refs: the first 12 bytes of its SHA-256, hex
FROM {db}.piece_rows FINAL
COMMENT 'Pieces of large attribute values, each once per run';
