CREATE OR REPLACE VIEW {db}.rejected {on_cluster} AS
SELECT *
FROM {db}.rejected_rows
COMMENT 'Rejected spans: SELECT reason, count() FROM rejected GROUP BY reason';
