-- One row per policy of redaction: what was in force for spans whose `redaction_policy` is its `label`.
CREATE OR REPLACE VIEW {db}.policies {on_cluster} AS
SELECT
    p.tenant AS tenant,
    p.name AS name,
    p.hash AS hash,
    concat(p.name, '@', p.hash) AS label,
    toString(max(p.text)) AS text,
    toDateTime64(min(p.first_used_at), 9, 'UTC') AS first_used_at
FROM {db}.policy_rows AS p
GROUP BY p.tenant, p.name, p.hash
COMMENT 'Policies of redaction and their text: SELECT text FROM policies WHERE label = ''strict@...''';
