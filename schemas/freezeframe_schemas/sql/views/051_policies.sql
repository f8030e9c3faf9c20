-- One row per policy of redaction: what was in force for spans whose `redaction_policy` is its `label`.
CREATE OR REPLACE VIEW {db}.policies {on_cluster} AS
SELECT
    p.tenant AS tenant, -- Tenant whose spans went through it
    p.name AS name, -- Name of the policy
    p.hash AS hash, -- Twelve hex digits over everything that decides what is redacted
    concat(p.name, '@', p.hash) AS label, -- As spans name it: spans.redaction_policy
    toString(max(p.text)) AS text, -- The policy as TOML; empty if the collector that stored the spans did not have it
    toDateTime64(min(p.first_used_at), 9, 'UTC') AS first_used_at -- Start of the first span that is known to have gone through it
FROM {db}.policy_rows AS p
GROUP BY p.tenant, p.name, p.hash
COMMENT 'Policies of redaction and their text: SELECT text FROM policies WHERE label = ''strict@...''';
