-- What was in force: the text of each policy that spans went through. It is written by the collector that stores the first such
-- span; what was stored before is noted here by name alone, until a collector that has the policy stores more of it.
CREATE TABLE IF NOT EXISTS {db}.policy_rows {on_cluster} (
    tenant LowCardinality(String) COMMENT 'Tenant whose spans went through it',
    name LowCardinality(String) COMMENT 'Name of the policy',
    hash String COMMENT 'Twelve hex digits over everything that decides what is redacted',
    text SimpleAggregateFunction(max, String) COMMENT 'The policy as TOML, in canonical form; empty where the collector that stored the spans did not have it',
    first_used_at SimpleAggregateFunction(min, DateTime64(9, 'UTC')) COMMENT 'Start of the first span that is known to have gone through it'
) ENGINE = {aggregating} ORDER BY (tenant, name, hash)
SETTINGS index_granularity = 1024{durable}
COMMENT 'Policies of redaction, as spans name them; read it through the view policies';

INSERT INTO {db}.policy_rows (tenant, name, hash, text, first_used_at)
SELECT tenant, splitByChar('@', toString(redaction_policy))[1] AS name, splitByChar('@', toString(redaction_policy))[2] AS hash, '',
    min(start_time)
FROM {db}.span_rows{sfx}
WHERE redaction_policy != ''
GROUP BY tenant, name, hash;
