-- What is known late about a run: that it is to be kept. And what was taken away, by whom.
CREATE TABLE IF NOT EXISTS {db}.pins {on_cluster} (
    tenant LowCardinality(String) COMMENT 'Tenant of the run',
    trace_id String COMMENT 'The run',
    pinned UInt8 COMMENT '1 pinned, 0 no longer',
    note String COMMENT 'Why',
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When; the last one counts'
) ENGINE = {replacing_at} ORDER BY (tenant, trace_id)
SETTINGS index_granularity = 1024{durable}
COMMENT 'Runs that are kept until somebody unpins them';

CREATE TABLE IF NOT EXISTS {db}.audit {on_cluster} (
    time DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When',
    action LowCardinality(String) COMMENT 'pin, unpin, delete_run, delete_user, delete_tenant, expire, restore',
    subject String COMMENT 'Run, user surrogate, tenant or day',
    rows UInt64 COMMENT 'Spans that it touched',
    note String COMMENT 'Why, as given'
) ENGINE = {merge_tree} ORDER BY time
SETTINGS index_granularity = 1024{durable}
COMMENT 'What was kept and taken away';
