-- One row per redaction policy: the one that applied to spans whose `redaction_policy` is its `label`.
CREATE OR REPLACE VIEW {db}.policies {on_cluster} AS
SELECT
    p.tenant AS tenant, -- Tenant whose spans it redacted
    p.name AS name, -- Name of the policy
    p.hash AS hash, -- Twelve hex digits: hash of everything that decides what is redacted
    concat(p.name, '@', p.hash) AS label, -- As in spans.redaction_policy
    toString(max(p.text)) AS text, -- The policy as TOML; empty if the collector that stored the spans did not have it
    toDateTime64(min(p.first_used_at), 9, 'UTC') AS first_used_at -- Start of the first span that it is known to have redacted
FROM {db}.policy_rows AS p
GROUP BY p.tenant, p.name, p.hash
COMMENT 'Redaction policies and their text: SELECT text FROM policies WHERE label = ''strict@...''';
