-- Every span once: a span that was sent twice, or is being copied to be kept, counts once. A pending span, which says that an
-- entry point began, is not one: see unfinished_runs.
CREATE OR REPLACE VIEW {db}.spans {on_cluster} AS
SELECT
    * EXCEPT (previews, templates, begun, origin, chunk_gaps) REPLACE (
        mapApply((name, hashes) -> (name, arrayMap(hash -> lower(hex(hash)), hashes)), refs) AS refs),
    {COMPUTED_BUT_REFS},
    JSONExtract(origin, 'refs', 'Map(LowCardinality(String), Array(String))') AS resource_refs,
    previews[1] AS input_preview, -- Start of the last question
    previews[2] AS output_preview, -- Start of the answer
    has(refs.keys, '{ERROR_CHAIN}') AS raised, -- True if the call ended in an exception; read from the names in `refs` alone
    start_time + toIntervalNanosecond(duration_ns) AS end_time, -- When the span ended
    duration_ns / 1e6 AS ms -- Milliseconds from start to end
FROM {db}.span_rows FINAL
WHERE begun = ''
COMMENT 'Every span once';
