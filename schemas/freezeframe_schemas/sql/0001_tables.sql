-- The tables. `tables.columns` defines their columns; a test checks that both agree. The migration runner fills in:
-- {db} the database, {on_cluster} '' or ON CLUSTER, {sfx} '' or '_local', {replacing}, {replacing_at}, {replacing_version},
-- {aggregating} and {merge_tree} the engines, {durable} their settings.

CREATE TABLE IF NOT EXISTS {db}.span_rows{sfx} {on_cluster} (
    `kept` UInt8 COMMENT '1 if the row was copied out of its day, because its run is kept longer than the others of that day' CODEC(ZSTD(1)),
    `tenant` LowCardinality(String) COMMENT 'Tenant of the span or its resource; empty if none is set' CODEC(ZSTD(1)),
    `run_hour` DateTime('UTC') COMMENT 'Hour in which the run started, the same for all its spans; sets the partition (by day) and the order on disk' CODEC(Delta(4), ZSTD(1)),
    `trace_id` String COMMENT 'The run\'s identity: trace id, 32 lower-case hex digits' CODEC(ZSTD(1)),
    `span_id` String COMMENT '16 lower-case hex digits' CODEC(ZSTD(1)),
    `parent_span_id` String COMMENT 'Span id of the parent; empty for a root' CODEC(ZSTD(1)),
    `start_time` DateTime64(9, 'UTC') COMMENT 'When the span started' CODEC(Delta(8), ZSTD(1)),
    `duration_ns` Int64 COMMENT 'End minus start, nanoseconds' CODEC(T64, ZSTD(1)),
    `name` LowCardinality(String) COMMENT 'Span name' CODEC(ZSTD(1)),
    `status` LowCardinality(String) COMMENT 'Unset, Ok or Error' CODEC(ZSTD(1)),
    `service` LowCardinality(String) COMMENT 'Service [service.name]' CODEC(ZSTD(1)),
    `run_id` String COMMENT 'The caller\'s own id of the run, if it has one [freezeframe.run.id]' CODEC(ZSTD(1)),
    `user_id` String COMMENT 'User; a surrogate if the policy redacts it [user.id]' CODEC(ZSTD(1)),
    `session_id` String COMMENT 'Session [session.id]' CODEC(ZSTD(1)),
    `conversation_id` String COMMENT 'Conversation [gen_ai.conversation.id]' CODEC(ZSTD(1)),
    `entry_kind` LowCardinality(String) COMMENT 'function, command, request, task, prompt or program (entry span) [freezeframe.entry.kind]' CODEC(ZSTD(1)),
    `begun` String COMMENT 'On a pending span (its parent has begun): the parent\'s parent [freezeframe.entry.begun]' CODEC(ZSTD(1)),
    `operation` LowCardinality(String) COMMENT 'chat, embeddings, execute_tool, invoke_agent, retrieval, ... [gen_ai.operation.name]' CODEC(ZSTD(1)),
    `request_model` LowCardinality(String) COMMENT 'Requested model [gen_ai.request.model]' CODEC(ZSTD(1)),
    `response_model` LowCardinality(String) COMMENT 'Model that answered [gen_ai.response.model]' CODEC(ZSTD(1)),
    `input_tokens` Nullable(Int64) COMMENT 'Input tokens [gen_ai.usage.input_tokens]' CODEC(ZSTD(1)),
    `output_tokens` Nullable(Int64) COMMENT 'Output tokens [gen_ai.usage.output_tokens]' CODEC(ZSTD(1)),
    `cache_read_tokens` Nullable(Int64) COMMENT 'Input tokens read from the provider\'s cache [gen_ai.usage.cache_read.input_tokens]' CODEC(ZSTD(1)),
    `cache_write_tokens` Nullable(Int64) COMMENT 'Input tokens written to the provider\'s cache [gen_ai.usage.cache_write.input_tokens]' CODEC(ZSTD(1)),
    `reported_cost_usd` Nullable(Float64) COMMENT 'Cost of the call in US dollars, if the sender reports it [freezeframe.usage.cost_usd]' CODEC(ZSTD(1)),
    `ttft_s` Nullable(Float64) COMMENT 'Seconds until the first chunk [gen_ai.response.time_to_first_chunk]' CODEC(ZSTD(1)),
    `tool_name` LowCardinality(String) COMMENT 'Tool [gen_ai.tool.name]' CODEC(ZSTD(1)),
    `error_type` LowCardinality(String) COMMENT 'Class of the error [error.type]' CODEC(ZSTD(1)),
    `exchange_kind` LowCardinality(String) COMMENT 'model, tool, retrieval, mcp or http; empty if the span is not an exchange [freezeframe.exchange.kind]' CODEC(ZSTD(1)),
    `sequence` Nullable(Int64) COMMENT 'Position in the order in which the process made its calls [freezeframe.exchange.sequence]' CODEC(ZSTD(1)),
    `http_status` Nullable(Int64) COMMENT 'HTTP status [http.response.status_code]' CODEC(ZSTD(1)),
    `chunk_sizes` Array(UInt32) COMMENT 'Bytes of each chunk as received [freezeframe.response.chunk.sizes]' CODEC(T64, ZSTD(1)),
    `chunk_gaps` Array(UInt64) COMMENT 'First the unit in nanoseconds (1000 if that is exact, else 1), then the time from each chunk to the next' CODEC(T64, ZSTD(1)),
    `previews` Array(String) COMMENT 'Start of the last question and of the answer, for lists; empty if the span has neither' CODEC(Default) SETTINGS (min_compress_block_size = 1048576, max_compress_block_size = 2097152),
    `payload_bytes` UInt64 COMMENT 'Bytes of this span\'s values that are stored as payloads' CODEC(ZSTD(1)),
    `gaps` Array(LowCardinality(String)) COMMENT 'What this span is known to be missing: attributes_dropped, request_omitted, response_omitted, result_opaque' CODEC(ZSTD(1)),
    `attributes` Map(LowCardinality(String), String) COMMENT 'Small attributes; other types are written as text' CODEC(Default) SETTINGS (min_compress_block_size = 262144, max_compress_block_size = 524288),
    `refs` Map(LowCardinality(String), Array(FixedString(12))) COMMENT 'Large attribute -> hashes of its payload pieces, in order' CODEC(ZSTD(1)),
    `templates` String COMMENT 'For each attribute in `refs`, in order, the text around its pieces: char(0) for a piece, char(1) between attributes; without a template, an attribute is its pieces joined' CODEC(Default) SETTINGS (min_compress_block_size = 1048576, max_compress_block_size = 2097152),
    `origin` LowCardinality(String) COMMENT 'JSON of what the spans of a process share: resource attributes with their types, scope, schema URLs' CODEC(ZSTD(3)),
    `rest` String COMMENT 'JSON of what few spans have: kind, status message, events, links, dropped counts, types, ...' CODEC(ZSTD(1)),
    `stored_at` DateTime64(3, 'UTC') COMMENT 'When the collector stored it; the last time, if it was sent twice' CODEC(Delta(8), ZSTD(1)),
    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX ix_run run_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX ix_conversation conversation_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX ix_user user_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX ix_session session_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX ix_response attributes['{RESPONSE_ID}'] TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX ix_start start_time TYPE minmax GRANULARITY 1
) ENGINE = {replacing}
PARTITION BY (kept, toDate(run_hour))
ORDER BY (tenant, run_hour, service, trace_id, start_time, span_id)
TTL {RECOMPRESSED}
SETTINGS index_granularity = 256{durable}, min_bytes_for_wide_part = 33554432, min_compress_block_size = 16384, default_compression_codec = 'ZSTD(3)'
COMMENT 'Spans, one row each; read them through the view spans';

CREATE TABLE IF NOT EXISTS {db}.piece_rows{sfx} {on_cluster} (
    `kept` UInt8 COMMENT '1 if the row was copied out of its day, because its run is kept longer than the others of that day' CODEC(ZSTD(1)),
    `tenant` LowCardinality(String) COMMENT 'Tenant of the span or its resource; empty if none is set' CODEC(ZSTD(1)),
    `run_hour` DateTime('UTC') COMMENT 'Hour in which the run started, the same for all its spans; sets the partition (by day) and the order on disk' CODEC(Delta(4), ZSTD(1)),
    `service` LowCardinality(String) COMMENT 'Service [service.name]' CODEC(ZSTD(1)),
    `trace_id` String COMMENT 'The run that the piece belongs to' CODEC(ZSTD(1)),
    `start_time` DateTime('UTC') COMMENT 'Start of the span in which the piece first appeared: pieces close in time are alike and compress well' CODEC(Delta(4), ZSTD(1)),
    `attribute` LowCardinality(String) COMMENT 'Attribute in which the piece first appeared' CODEC(ZSTD(1)),
    `body` String COMMENT 'The bytes; an attribute\'s value is its pieces joined' CODEC(Default) SETTINGS (min_compress_block_size = 1048576, max_compress_block_size = 2097152),
    `hash` FixedString(12) ALIAS toFixedString(substring(SHA256(body), 1, 12), 12) COMMENT 'First 12 bytes of the SHA-256 of `body`; computed when queried, never stored',
    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1
) ENGINE = {replacing}
PARTITION BY (kept, toDate(run_hour))
ORDER BY (tenant, run_hour, service, trace_id, start_time, SHA256(body))
TTL {RECOMPRESSED}
SETTINGS index_granularity = 256{durable}, default_compression_codec = 'ZSTD(3)'
COMMENT 'Pieces of large values, each stored once per run; an attribute is its pieces joined (spans.refs)';

CREATE TABLE IF NOT EXISTS {db}.run_rows{sfx} {on_cluster} (
    `kept` UInt8 COMMENT '1 if the row was copied out of its day, because its run is kept longer than the others of that day' CODEC(ZSTD(1)),
    `tenant` LowCardinality(String) COMMENT 'Tenant of the span or its resource; empty if none is set' CODEC(ZSTD(1)),
    `run_hour` DateTime('UTC') COMMENT 'Hour in which the run started, the same for all its spans; sets the partition (by day) and the order on disk' CODEC(Delta(4), ZSTD(1)),
    `trace_id` String COMMENT 'The run\'s identity' CODEC(ZSTD(1)),
    `start_time` SimpleAggregateFunction(min, DateTime64(9, 'UTC')) COMMENT 'First start of a span' CODEC(ZSTD(1)),
    `end_time` SimpleAggregateFunction(max, DateTime64(9, 'UTC')) COMMENT 'Last end of a span' CODEC(ZSTD(1)),
    `run_id` SimpleAggregateFunction(max, String) COMMENT 'The caller\'s run id, of any span that has it' CODEC(ZSTD(1)),
    `service` SimpleAggregateFunction(max, String) COMMENT 'Service, of any span that has it' CODEC(ZSTD(1)),
    `agent` SimpleAggregateFunction(max, String) COMMENT 'Agent, of any span that has it' CODEC(ZSTD(1)),
    `user_id` SimpleAggregateFunction(max, String) COMMENT 'User, of any span that has it' CODEC(ZSTD(1)),
    `session_id` SimpleAggregateFunction(max, String) COMMENT 'Session, of any span that has it' CODEC(ZSTD(1)),
    `conversation_id` SimpleAggregateFunction(max, String) COMMENT 'Conversation, of any span that has it' CODEC(ZSTD(1)),
    `commit` SimpleAggregateFunction(max, String) COMMENT 'Commit hash of the agent\'s code, of any span that has it' CODEC(ZSTD(1)),
    `commit_dirty` SimpleAggregateFunction(max, Int8) COMMENT '1 dirty, 0 clean, -1 unknown' CODEC(ZSTD(1)),
    `entry` SimpleAggregateFunction(min, Tuple(
        rank UInt8,
        start_time DateTime64(9, 'UTC'),
        span_id String,
        pending Bool,
        name String,
        target String,
        failed Bool,
        input String,
        output String,
        flag_values String)) COMMENT 'Span of the entry point: the marked one, else the root, else the first' CODEC(ZSTD(1)),
    `first_error` SimpleAggregateFunction(min, Tuple(
        start_time DateTime64(9, 'UTC'),
        error String)) COMMENT 'Error of the first span that failed; its time is in the far future if none did' CODEC(ZSTD(1)),
    `has_exchanges` SimpleAggregateFunction(max, UInt8) COMMENT '1 if the run has exchanges' CODEC(ZSTD(1)),
    `models` SimpleAggregateFunction(groupUniqArrayArray, Array(String)) COMMENT 'Requested models' CODEC(ZSTD(1)),
    `tools` SimpleAggregateFunction(groupUniqArrayArray, Array(String)) COMMENT 'Tools that were called' CODEC(ZSTD(1)),
    `marks` SimpleAggregateFunction(maxMap, Map(UInt64, UInt64)) COMMENT 'Span -> bits: 1 error; exchange: 2 model, 4 tool, 8 retrieval, 16 other; operation: 32 model, 64 tool, 128 retrieval; from bit 8 input tokens, from bit 36 output tokens, 28 bits each' CODEC(ZSTD(1)),
    `lacks` SimpleAggregateFunction(groupBitOr, UInt32) COMMENT 'Bits by position in run.KIT: parts of the replay kit that some exchange is missing' CODEC(ZSTD(1)),
    `entry_lacks` SimpleAggregateFunction(min, Tuple(
        rank UInt8,
        start_time DateTime64(9, 'UTC'),
        span_id String,
        pending Bool,
        lacks UInt32)) COMMENT 'The same for the span of the entry point, chosen as in `entry`' CODEC(ZSTD(1)),
    `gaps` SimpleAggregateFunction(groupUniqArrayArray, Array(String)) COMMENT 'What spans are known to be missing; see spans.gaps' CODEC(ZSTD(1)),
    `parents` SimpleAggregateFunction(groupUniqArrayArray, Array(UInt64)) COMMENT 'Parents that are missing from a batch; one that is not in `marks` either leaves orphans' CODEC(ZSTD(1)),
    `begun` SimpleAggregateFunction(groupUniqArrayArray, Array(UInt64)) COMMENT 'Entry spans that have begun; if one is not in `marks`, its end was not recorded and the run is unfinished' CODEC(ZSTD(1)),
    `made` SimpleAggregateFunction(maxMap, Map(UInt64, UInt64)) COMMENT 'Entry span -> exchanges of the run that had ended by its end; if that is more than are stored, some were lost' CODEC(ZSTD(1)),
    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX ix_run run_id TYPE bloom_filter(0.001) GRANULARITY 1
) ENGINE = {aggregating}
PARTITION BY (kept, toDate(run_hour))
ORDER BY (tenant, run_hour, trace_id)
SETTINGS index_granularity = 1024{durable}
COMMENT 'What the list of runs needs, gathered as spans arrive; read it through the view runs';

CREATE TABLE IF NOT EXISTS {db}.call_rows{sfx} {on_cluster} (
    `kept` UInt8 COMMENT '1 if the row was copied out of its day, because its run is kept longer than the others of that day' CODEC(ZSTD(1)),
    `run_hour` DateTime('UTC') COMMENT 'Hour in which the run started, the same for all its spans; sets the partition (by day) and the order on disk' CODEC(Delta(4), ZSTD(1)),
    `tenant` LowCardinality(String) COMMENT 'Tenant of the span or its resource; empty if none is set' CODEC(ZSTD(1)),
    `trace_id` String COMMENT 'The run\'s identity: trace id, 32 lower-case hex digits' CODEC(ZSTD(1)),
    `span_id` String COMMENT '16 lower-case hex digits' CODEC(ZSTD(1)),
    `parent_span_id` String COMMENT 'Span id of the parent; empty for a root' CODEC(ZSTD(1)),
    `start_time` DateTime64(9, 'UTC') COMMENT 'When the span started' CODEC(Delta(8), ZSTD(1)),
    `name` LowCardinality(String) COMMENT 'Span name' CODEC(ZSTD(1)),
    `status` LowCardinality(String) COMMENT 'Unset, Ok or Error' CODEC(ZSTD(1)),
    `service` LowCardinality(String) COMMENT 'Service [service.name]' CODEC(ZSTD(1)),
    `commit` LowCardinality(String) COMMENT 'Commit hash of the agent\'s code [vcs.ref.head.revision]' CODEC(ZSTD(1)),
    `run_id` String COMMENT 'The caller\'s own id of the run, if it has one [freezeframe.run.id]' CODEC(ZSTD(1)),
    `user_id` String COMMENT 'User; a surrogate if the policy redacts it [user.id]' CODEC(ZSTD(1)),
    `operation` LowCardinality(String) COMMENT 'chat, embeddings, execute_tool, invoke_agent, retrieval, ... [gen_ai.operation.name]' CODEC(ZSTD(1)),
    `provider` LowCardinality(String) COMMENT 'Model provider [gen_ai.provider.name]' CODEC(ZSTD(1)),
    `agent_name` LowCardinality(String) COMMENT 'Agent [gen_ai.agent.name]' CODEC(ZSTD(1)),
    `request_model` LowCardinality(String) COMMENT 'Requested model [gen_ai.request.model]' CODEC(ZSTD(1)),
    `response_model` LowCardinality(String) COMMENT 'Model that answered [gen_ai.response.model]' CODEC(ZSTD(1)),
    `response_id` String COMMENT 'The provider\'s response id [gen_ai.response.id]' CODEC(ZSTD(1)),
    `system_fingerprint` LowCardinality(String) COMMENT 'system_fingerprint of the response [openai.response.system_fingerprint]' CODEC(ZSTD(1)),
    `temperature` Nullable(Float64) COMMENT 'Sampling temperature [gen_ai.request.temperature]' CODEC(ZSTD(1)),
    `top_p` Nullable(Float64) COMMENT 'Nucleus sampling [gen_ai.request.top_p]' CODEC(ZSTD(1)),
    `seed` Nullable(Int64) COMMENT 'Seed as sent [gen_ai.request.seed]' CODEC(ZSTD(1)),
    `max_tokens` Nullable(Int64) COMMENT 'Maximum output tokens as sent [gen_ai.request.max_tokens]' CODEC(ZSTD(1)),
    `stream` Nullable(Bool) COMMENT 'True if the response was streamed [gen_ai.request.stream]' CODEC(ZSTD(1)),
    `finish_reasons` Array(LowCardinality(String)) COMMENT 'Why each choice ended [gen_ai.response.finish_reasons]' CODEC(ZSTD(1)),
    `input_tokens` Nullable(Int64) COMMENT 'Input tokens [gen_ai.usage.input_tokens]' CODEC(ZSTD(1)),
    `output_tokens` Nullable(Int64) COMMENT 'Output tokens [gen_ai.usage.output_tokens]' CODEC(ZSTD(1)),
    `cache_read_tokens` Nullable(Int64) COMMENT 'Input tokens read from the provider\'s cache [gen_ai.usage.cache_read.input_tokens]' CODEC(ZSTD(1)),
    `cache_write_tokens` Nullable(Int64) COMMENT 'Input tokens written to the provider\'s cache [gen_ai.usage.cache_write.input_tokens]' CODEC(ZSTD(1)),
    `reasoning_tokens` Nullable(Int64) COMMENT 'Output tokens spent on reasoning [gen_ai.usage.reasoning.output_tokens]' CODEC(ZSTD(1)),
    `reported_cost_usd` Nullable(Float64) COMMENT 'Cost of the call in US dollars, if the sender reports it [freezeframe.usage.cost_usd]' CODEC(ZSTD(1)),
    `ttft_s` Nullable(Float64) COMMENT 'Seconds until the first chunk [gen_ai.response.time_to_first_chunk]' CODEC(ZSTD(1)),
    `tools_hash` LowCardinality(String) COMMENT 'Hash of the tool definitions as sent [freezeframe.tool.definitions.hash]' CODEC(ZSTD(1)),
    `http_status` Nullable(Int64) COMMENT 'HTTP status [http.response.status_code]' CODEC(ZSTD(1)),
    `error_type` LowCardinality(String) COMMENT 'Class of the error [error.type]' CODEC(ZSTD(1)),
    `ms` Float64 COMMENT 'Milliseconds from start to end' CODEC(ZSTD(1)),
    `input_preview` String COMMENT 'Start of the last question' CODEC(ZSTD(1)),
    `output_preview` String COMMENT 'Start of the answer' CODEC(ZSTD(1)),
    `shown` UInt8 COMMENT '1 on the row that represents the call and has everything reported about it; all other rows are blank' CODEC(ZSTD(1)),
    `started_ns` Int64 COMMENT 'Earliest reported start of the call in this run, Unix nanoseconds' CODEC(ZSTD(1)),
    `ended_ns` Int64 COMMENT 'Latest reported end, Unix nanoseconds' CODEC(ZSTD(1)),
    `reported_by` LowCardinality(String) COMMENT 'Instrumentations that report the call in this run' CODEC(ZSTD(1)),
    `rank` UInt8 COMMENT 'How much they report: 8 in a span, 4 an answer, 2 a question, 1 below another span' CODEC(ZSTD(1)),
    `keys` Array(UInt64) COMMENT 'Hashes of service and response id, and of service and tokens; by these, reports in other runs are matched' CODEC(ZSTD(1)),
    `version` UInt64 COMMENT 'When the calls of this run were last joined, Unix nanoseconds; the latest row counts' CODEC(ZSTD(1)),
    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX ix_keys keys TYPE bloom_filter(0.001) GRANULARITY 1
) ENGINE = {replacing_version}
PARTITION BY (kept, toDate(run_hour))
ORDER BY (tenant, run_hour, trace_id, span_id)
SETTINGS index_granularity = 1024{durable}
COMMENT 'Model calls reported by other instrumentations, joined as spans arrive; read them through the view model_calls';

CREATE TABLE IF NOT EXISTS {db}.rejected_rows{sfx} {on_cluster} (
    `time` DateTime64(9, 'UTC') COMMENT 'When the span was rejected' CODEC(Delta(8), ZSTD(1)),
    `tenant` LowCardinality(String) COMMENT 'Tenant of the span or its resource; empty if none is set' CODEC(ZSTD(1)),
    `trace_id` String COMMENT 'Trace id, as far as it could be read' CODEC(ZSTD(1)),
    `span_id` String COMMENT 'Span id, as far as it could be read' CODEC(ZSTD(1)),
    `name` String COMMENT 'Span name' CODEC(ZSTD(1)),
    `reason` LowCardinality(String) COMMENT 'Short reason, from a fixed list' CODEC(ZSTD(1)),
    `detail` String COMMENT 'What was wrong: found and expected, without payloads' CODEC(ZSTD(1)),
    INDEX ix_trace trace_id TYPE bloom_filter(0.01) GRANULARITY 1
) ENGINE = {merge_tree}
PARTITION BY toYYYYMM(time)
ORDER BY (tenant, time)
SETTINGS index_granularity = 1024{durable}
COMMENT 'Rejected spans, with the reason';

-- Prices of models, dated: a call is priced by its day. Users add rows; the longest prefix wins, then the latest date.
CREATE TABLE IF NOT EXISTS {db}.prices {on_cluster} (
    prefix String COMMENT 'Start of the model name; the longest match counts',
    valid_from DateTime64(9, 'UTC') COMMENT 'Valid from this time on',
    input_usd Float64 COMMENT 'US dollars per million input tokens',
    output_usd Float64 COMMENT 'US dollars per million output tokens',
    cache_read_usd Float64 COMMENT 'US dollars per million input tokens read from the cache',
    cache_write_usd Float64 COMMENT 'US dollars per million input tokens written to the cache',
    note String COMMENT 'Source of the price'
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

-- Pinned runs, and who removed what.
CREATE TABLE IF NOT EXISTS {db}.pins {on_cluster} (
    tenant LowCardinality(String) COMMENT 'Tenant of the run',
    trace_id String COMMENT 'The run',
    pinned UInt8 COMMENT '1 pinned, 0 no longer',
    note String COMMENT 'Why',
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When; the last one counts'
) ENGINE = {replacing_at} ORDER BY (tenant, trace_id)
SETTINGS index_granularity = 1024{durable}
COMMENT 'Runs that are kept until they are unpinned';

-- Labels and notes on runs and steps: the last row counts; one without a label and a note removes them.
CREATE TABLE IF NOT EXISTS {db}.labels {on_cluster} (
    tenant LowCardinality(String) COMMENT 'Tenant of the run',
    trace_id String COMMENT 'The run',
    span_id String COMMENT 'The step; empty for the run as a whole',
    label LowCardinality(String) COMMENT 'good, bad, or a word of your own; empty for a note only',
    note String COMMENT 'The note, redacted like the run',
    author String COMMENT 'User name on the machine where it was written',
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When; the last one counts'
) ENGINE = {replacing_at} ORDER BY (tenant, trace_id, span_id)
SETTINGS index_granularity = 1024{durable}
COMMENT 'Labels and notes on runs and steps, the last of each with FINAL';

-- Runs in which a value was found after other spans of the run were stored, until a collector has gone through these.
CREATE TABLE IF NOT EXISTS {db}.unsettled_rows {on_cluster} (
    tenant LowCardinality(String) COMMENT 'Tenant of the sender\'s token; empty without one',
    trace_id String COMMENT 'The run',
    since DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When this was noticed'
) ENGINE = {replacing} ORDER BY (tenant, trace_id)
SETTINGS index_granularity = 1024{durable}
COMMENT 'Runs whose stored spans may still hold a private value in clear; see runs.settled';

CREATE TABLE IF NOT EXISTS {db}.audit {on_cluster} (
    time DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When',
    action LowCardinality(String) COMMENT 'pin, unpin, delete_run, delete_user, delete_tenant, expire, restore',
    subject String COMMENT 'Run, user surrogate, tenant or day',
    rows UInt64 COMMENT 'Number of spans affected',
    note String COMMENT 'Reason, as given'
) ENGINE = {merge_tree} ORDER BY time
SETTINGS index_granularity = 1024{durable}
COMMENT 'Pins, deletions, expirations and restores';

-- The text of each policy that redacted spans, written by the collector that stores the first such span.
CREATE TABLE IF NOT EXISTS {db}.policy_rows {on_cluster} (
    tenant LowCardinality(String) COMMENT 'Tenant whose spans it redacted',
    name LowCardinality(String) COMMENT 'Name of the policy',
    hash String COMMENT 'Twelve hex digits: hash of everything that decides what is redacted',
    text SimpleAggregateFunction(max, String) COMMENT 'The policy as canonical TOML; empty if the collector that stored the spans did not have it',
    first_used_at SimpleAggregateFunction(min, DateTime64(9, 'UTC')) COMMENT 'Start of the first span that it is known to have redacted'
) ENGINE = {aggregating} ORDER BY (tenant, name, hash)
SETTINGS index_granularity = 1024{durable}
COMMENT 'Redaction policies that spans name; read them through the view policies';

-- Who asked the embedded store what.
CREATE TABLE IF NOT EXISTS {db}.queries {on_cluster} (
    time DateTime64(3, 'UTC') COMMENT 'Time of the query',
    user LowCardinality(String) COMMENT 'User that the password belongs to: default (the reader token) or admin',
    address LowCardinality(String) COMMENT 'Client address',
    client LowCardinality(String) COMMENT 'Client program (User-Agent)',
    statement String COMMENT 'The statement without comments; literals, and quoted names that are not plain identifiers, are replaced by ?',
    runs Array(String) COMMENT 'Runs of this store whose trace ids are in the statement or its parameters',
    duration_ms UInt32 COMMENT 'Milliseconds until the end of the answer',
    outcome LowCardinality(String) COMMENT 'ok, failed, refused (readers may not ask it), or left (the client disconnected)',
    error_code UInt32 COMMENT 'The engine''s error code; 0 if there was no error'
) ENGINE = {merge_tree}
PARTITION BY toMonday(time)
ORDER BY time
TTL toDateTime(time) + INTERVAL 90 DAY
SETTINGS index_granularity = 1024, ttl_only_drop_parts = 1{durable}
COMMENT 'Queries of the embedded store, kept for 90 days; a ClickHouse server keeps its own in system.query_log';
