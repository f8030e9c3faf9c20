-- Prices of models, dated: a call is priced by its day. Users add rows; the longest prefix wins, then the latest date.
CREATE TABLE IF NOT EXISTS {db}.prices {on_cluster} (
    prefix String COMMENT 'Start of the model name; the longest that matches counts',
    valid_from DateTime64(9, 'UTC') COMMENT 'From when on',
    input_usd Float64 COMMENT 'US dollars per million input tokens',
    output_usd Float64 COMMENT 'US dollars per million output tokens',
    cache_read_usd Float64 COMMENT 'US dollars per million input tokens read from the cache',
    cache_write_usd Float64 COMMENT 'US dollars per million input tokens written to the cache',
    note String COMMENT 'Where the price is from'
) ENGINE = {replacing} ORDER BY (prefix, valid_from)
SETTINGS index_granularity = 1024{durable}
COMMENT 'US dollars per million tokens; extend it for your models and contracts';

INSERT INTO {db}.prices VALUES
    ('gpt-4o', '2024-10-01 00:00:00', 2.5, 10, 1.25, 2.5, 'list price'),
    ('gpt-4o-mini', '2024-07-18 00:00:00', 0.15, 0.6, 0.075, 0.15, 'list price'),
    ('gpt-4.1', '2025-04-14 00:00:00', 2, 8, 0.5, 2, 'list price'),
    ('gpt-4.1-mini', '2025-04-14 00:00:00', 0.4, 1.6, 0.1, 0.4, 'list price'),
    ('gpt-4.1-nano', '2025-04-14 00:00:00', 0.1, 0.4, 0.025, 0.1, 'list price'),
    ('gpt-5', '2025-08-07 00:00:00', 1.25, 10, 0.125, 1.25, 'list price'),
    ('gpt-5-mini', '2025-08-07 00:00:00', 0.25, 2, 0.025, 0.25, 'list price'),
    ('gpt-5-nano', '2025-08-07 00:00:00', 0.05, 0.4, 0.005, 0.05, 'list price'),
    ('o3', '2025-06-10 00:00:00', 2, 8, 0.5, 2, 'list price'),
    ('o4-mini', '2025-04-16 00:00:00', 1.1, 4.4, 0.275, 1.1, 'list price'),
    ('text-embedding-3-small', '2024-01-25 00:00:00', 0.02, 0, 0, 0.02, 'list price'),
    ('text-embedding-3-large', '2024-01-25 00:00:00', 0.13, 0, 0, 0.13, 'list price'),
    ('claude-3-5-haiku', '2024-11-04 00:00:00', 0.8, 4, 0.08, 1, 'list price'),
    ('claude-3-5-sonnet', '2024-06-20 00:00:00', 3, 15, 0.3, 3.75, 'list price'),
    ('claude-haiku-4-5', '2025-10-15 00:00:00', 1, 5, 0.1, 1.25, 'list price'),
    ('claude-sonnet-4', '2025-05-22 00:00:00', 3, 15, 0.3, 3.75, 'list price'),
    ('claude-opus-4', '2025-05-22 00:00:00', 15, 75, 1.5, 18.75, 'list price'),
    ('claude-opus-4-5', '2025-11-24 00:00:00', 5, 25, 0.5, 6.25, 'list price'),
    ('gemini-2.5-pro', '2025-06-17 00:00:00', 1.25, 10, 0.31, 1.25, 'list price'),
    ('gemini-2.5-flash', '2025-06-17 00:00:00', 0.3, 2.5, 0.075, 0.3, 'list price');
