-- The tables. `tables.columns` names their columns; a test holds that both say the same. Filled in by the migration runner:
-- {db} the database, {on_cluster} '' or ON CLUSTER, {sfx} '' or '_local', {replacing}, {replacing_at}, {replacing_version},
-- {aggregating} and {merge_tree} the engines, {durable} their settings.

CREATE TABLE IF NOT EXISTS {db}.span_rows{sfx} {on_cluster} (
    `kept` UInt8 COMMENT '1 once the row was copied out of its day, because the run is kept longer than the day\'s other runs' CODEC(ZSTD(1)),
    `tenant` LowCardinality(String) COMMENT 'Tenant of the span or its resource; empty where none was set' CODEC(ZSTD(1)),
    `run_hour` DateTime('UTC') COMMENT 'Hour in which the run started, the same for all spans of a run: order on disk and partition (by day) follow it' CODEC(Delta(4), ZSTD(1)),
    `trace_id` String COMMENT 'The run\'s identity: trace id, 32 lower-case hex digits' CODEC(ZSTD(1)),
    `span_id` String COMMENT '16 lower-case hex digits' CODEC(ZSTD(1)),
    `parent_span_id` String COMMENT 'Span id of the parent; empty for a root' CODEC(ZSTD(1)),
    `start_time` DateTime64(9, 'UTC') COMMENT 'When the span started' CODEC(Delta(8), ZSTD(1)),
    `duration_ns` Int64 COMMENT 'End minus start, nanoseconds' CODEC(T64, ZSTD(1)),
    `name` LowCardinality(String) COMMENT 'Span name' CODEC(ZSTD(1)),
    `status` LowCardinality(String) COMMENT 'Unset, Ok or Error' CODEC(ZSTD(1)),
    `service` LowCardinality(String) COMMENT 'Service [service.name]' CODEC(ZSTD(1)),
    `run_id` String COMMENT 'The caller\'s own id of the run, where one was given [freezeframe.run.id]' CODEC(ZSTD(1)),
    `user_id` String COMMENT 'User; a surrogate where the policy redacts it [user.id]' CODEC(ZSTD(1)),
    `session_id` String COMMENT 'Session [session.id]' CODEC(ZSTD(1)),
    `conversation_id` String COMMENT 'Conversation [gen_ai.conversation.id]' CODEC(ZSTD(1)),
    `entry_kind` LowCardinality(String) COMMENT 'function, command, request, task, prompt or program (entry span) [freezeframe.entry.kind]' CODEC(ZSTD(1)),
    `begun` String COMMENT 'Of a pending span, which says that its parent began: the parent\'s own parent [freezeframe.entry.begun]' CODEC(ZSTD(1)),
    `operation` LowCardinality(String) COMMENT 'chat, embeddings, execute_tool, invoke_agent, retrieval, ... [gen_ai.operation.name]' CODEC(ZSTD(1)),
    `request_model` LowCardinality(String) COMMENT 'Model that was asked for [gen_ai.request.model]' CODEC(ZSTD(1)),
    `response_model` LowCardinality(String) COMMENT 'Model that answered [gen_ai.response.model]' CODEC(ZSTD(1)),
    `input_tokens` Nullable(Int64) COMMENT 'Tokens in [gen_ai.usage.input_tokens]' CODEC(ZSTD(1)),
    `output_tokens` Nullable(Int64) COMMENT 'Tokens out [gen_ai.usage.output_tokens]' CODEC(ZSTD(1)),
    `cache_read_tokens` Nullable(Int64) COMMENT 'Input tokens read from the provider\'s cache [gen_ai.usage.cache_read.input_tokens]' CODEC(ZSTD(1)),
    `cache_write_tokens` Nullable(Int64) COMMENT 'Input tokens written to the provider\'s cache [gen_ai.usage.cache_write.input_tokens]' CODEC(ZSTD(1)),
    `told_cost_usd` Nullable(Float64) COMMENT 'US dollars that the call cost, where its sender says so [freezeframe.usage.cost_usd]' CODEC(ZSTD(1)),
    `ttft_s` Nullable(Float64) COMMENT 'Seconds to the first chunk [gen_ai.response.time_to_first_chunk]' CODEC(ZSTD(1)),
    `tool_name` LowCardinality(String) COMMENT 'Tool [gen_ai.tool.name]' CODEC(ZSTD(1)),
    `error_type` LowCardinality(String) COMMENT 'Class of the error [error.type]' CODEC(ZSTD(1)),
    `exchange_kind` LowCardinality(String) COMMENT 'model, tool, retrieval, mcp or http on an exchange span, else empty [freezeframe.exchange.kind]' CODEC(ZSTD(1)),
    `sequence` Nullable(Int64) COMMENT 'Order of issue within the process [freezeframe.exchange.sequence]' CODEC(ZSTD(1)),
    `http_status` Nullable(Int64) COMMENT 'HTTP status [http.response.status_code]' CODEC(ZSTD(1)),
    `chunk_sizes` Array(UInt32) COMMENT 'Bytes of each chunk as it came [freezeframe.response.chunk.sizes]' CODEC(T64, ZSTD(1)),
    `chunk_gaps` Array(UInt64) COMMENT 'First the unit in nanoseconds, 1000 if that is exact, else 1; then for each chunk the time since the one before it' CODEC(T64, ZSTD(1)),
    `previews` Array(String) COMMENT 'Start of the last thing that was asked, and of what was answered, for lists; empty where a span has neither' CODEC(Default) SETTINGS (min_compress_block_size = 1048576, max_compress_block_size = 2097152),
    `payload_bytes` UInt64 COMMENT 'Bytes of the values of this span that are stored as payloads' CODEC(ZSTD(1)),
    `gaps` Array(LowCardinality(String)) COMMENT 'What this span is known to lack: attributes_dropped, request_omitted, response_omitted, result_opaque' CODEC(ZSTD(1)),
    `attributes` Map(LowCardinality(String), String) COMMENT 'Every attribute that is small; text as it is, other types as text' CODEC(Default) SETTINGS (min_compress_block_size = 262144, max_compress_block_size = 524288),
    `refs` Map(LowCardinality(String), Array(FixedString(12))) COMMENT 'Large attribute -> hashes of its payload pieces, in order' CODEC(ZSTD(1)),
    `templates` String COMMENT 'Of each attribute in `refs`, in order, what is around its pieces: char(0) for a piece, char(1) between attributes; an attribute without a template is its pieces joined' CODEC(Default) SETTINGS (min_compress_block_size = 1048576, max_compress_block_size = 2097152),
    `origin` LowCardinality(String) COMMENT 'JSON of what all spans of a process share: attributes of the resource with their types, the scope, schema URLs' CODEC(ZSTD(3)),
    `rest` String COMMENT 'JSON of what most spans lack: kind, status message, events, links, dropped counts, types, ...' CODEC(ZSTD(1)),
    `stored_at` DateTime64(3, 'UTC') COMMENT 'When the collector gave it to the store, the last time if it was sent twice' CODEC(Delta(8), ZSTD(1)),
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
    `kept` UInt8 COMMENT '1 once the row was copied out of its day, because the run is kept longer than the day\'s other runs' CODEC(ZSTD(1)),
    `tenant` LowCardinality(String) COMMENT 'Tenant of the span or its resource; empty where none was set' CODEC(ZSTD(1)),
    `run_hour` DateTime('UTC') COMMENT 'Hour in which the run started, the same for all spans of a run: order on disk and partition (by day) follow it' CODEC(Delta(4), ZSTD(1)),
    `service` LowCardinality(String) COMMENT 'Service [service.name]' CODEC(ZSTD(1)),
    `trace_id` String COMMENT 'The run that the piece belongs to' CODEC(ZSTD(1)),
    `start_time` DateTime('UTC') COMMENT 'Start of the span in which the piece was first met: neighbours in time are alike, and compress each other' CODEC(Delta(4), ZSTD(1)),
    `attribute` LowCardinality(String) COMMENT 'Attribute in which the piece was first met' CODEC(ZSTD(1)),
    `body` String COMMENT 'The bytes; an attribute\'s value is its pieces joined' CODEC(Default) SETTINGS (min_compress_block_size = 1048576, max_compress_block_size = 2097152),
    `hash` FixedString(12) ALIAS toFixedString(substring(SHA256(body), 1, 12), 12) COMMENT 'First 12 bytes of the SHA-256 of `body`: computed when it is asked for, never stored',
    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1
) ENGINE = {replacing}
PARTITION BY (kept, toDate(run_hour))
ORDER BY (tenant, run_hour, service, trace_id, start_time, SHA256(body))
TTL {RECOMPRESSED}
SETTINGS index_granularity = 256{durable}, default_compression_codec = 'ZSTD(3)'
COMMENT 'Pieces of large values, each once per run; an attribute is its pieces joined (spans.refs)';

CREATE TABLE IF NOT EXISTS {db}.run_rows{sfx} {on_cluster} (
    `kept` UInt8 COMMENT '1 once the row was copied out of its day, because the run is kept longer than the day\'s other runs' CODEC(ZSTD(1)),
    `tenant` LowCardinality(String) COMMENT 'Tenant of the span or its resource; empty where none was set' CODEC(ZSTD(1)),
    `run_hour` DateTime('UTC') COMMENT 'Hour in which the run started, the same for all spans of a run: order on disk and partition (by day) follow it' CODEC(Delta(4), ZSTD(1)),
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
    `commit_dirty` SimpleAggregateFunction(max, Int8) COMMENT '1 dirty, 0 clean, -1 not known' CODEC(ZSTD(1)),
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
        flag_values String)) COMMENT 'The entry point\'s span: marked, else the root, else the first' CODEC(ZSTD(1)),
    `first_error` SimpleAggregateFunction(min, Tuple(
        start_time DateTime64(9, 'UTC'),
        error String)) COMMENT 'Error of the first span that failed; in the far future where none did' CODEC(ZSTD(1)),
    `has_exchanges` SimpleAggregateFunction(max, UInt8) COMMENT '1 where the run was recorded with exchanges' CODEC(ZSTD(1)),
    `models` SimpleAggregateFunction(groupUniqArrayArray, Array(String)) COMMENT 'Models that were asked for' CODEC(ZSTD(1)),
    `marks` SimpleAggregateFunction(maxMap, Map(UInt64, UInt64)) COMMENT 'Span -> bits: 1 error; exchange: 2 model, 4 tool, 8 retrieval, 16 other; operation: 32 model, 64 tool, 128 retrieval; from bit 8 input tokens, from bit 36 output tokens, 28 bits each' CODEC(ZSTD(1)),
    `lacks` SimpleAggregateFunction(groupBitOr, UInt32) COMMENT 'Bits, by place in run.KIT: fields of the replay kit that some exchange lacks' CODEC(ZSTD(1)),
    `entry_lacks` SimpleAggregateFunction(min, Tuple(
        rank UInt8,
        start_time DateTime64(9, 'UTC'),
        span_id String,
        pending Bool,
        lacks UInt32)) COMMENT 'The same of the entry point\'s span, found as in `entry`' CODEC(ZSTD(1)),
    `gaps` SimpleAggregateFunction(groupUniqArrayArray, Array(String)) COMMENT 'What spans are known to lack, see spans.gaps' CODEC(ZSTD(1)),
    `parents` SimpleAggregateFunction(groupUniqArrayArray, Array(UInt64)) COMMENT 'Spans named as a parent in a batch that lacks one of them; one that is not in `marks` either leaves orphans' CODEC(ZSTD(1)),
    `begun` SimpleAggregateFunction(groupUniqArrayArray, Array(UInt64)) COMMENT 'Entry spans that began; one that is not in `marks` has no recorded end, and the run is unfinished' CODEC(ZSTD(1)),
    `made` SimpleAggregateFunction(maxMap, Map(UInt64, UInt64)) COMMENT 'Entry span -> exchanges of its run that had ended when it did; more than there are means that some were lost' CODEC(ZSTD(1)),
    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX ix_run run_id TYPE bloom_filter(0.001) GRANULARITY 1
) ENGINE = {aggregating}
PARTITION BY (kept, toDate(run_hour))
ORDER BY (tenant, run_hour, trace_id)
SETTINGS index_granularity = 1024{durable}
COMMENT 'What the list of runs needs, gathered as spans come; read it through the view runs';

CREATE TABLE IF NOT EXISTS {db}.call_rows{sfx} {on_cluster} (
    `kept` UInt8 COMMENT '1 once the row was copied out of its day, because the run is kept longer than the day\'s other runs' CODEC(ZSTD(1)),
    `run_hour` DateTime('UTC') COMMENT 'Hour in which the run started, the same for all spans of a run: order on disk and partition (by day) follow it' CODEC(Delta(4), ZSTD(1)),
    `tenant` LowCardinality(String) COMMENT 'Tenant of the span or its resource; empty where none was set' CODEC(ZSTD(1)),
    `trace_id` String COMMENT 'The run\'s identity: trace id, 32 lower-case hex digits' CODEC(ZSTD(1)),
    `span_id` String COMMENT '16 lower-case hex digits' CODEC(ZSTD(1)),
    `parent_span_id` String COMMENT 'Span id of the parent; empty for a root' CODEC(ZSTD(1)),
    `start_time` DateTime64(9, 'UTC') COMMENT 'When the span started' CODEC(Delta(8), ZSTD(1)),
    `name` LowCardinality(String) COMMENT 'Span name' CODEC(ZSTD(1)),
    `status` LowCardinality(String) COMMENT 'Unset, Ok or Error' CODEC(ZSTD(1)),
    `service` LowCardinality(String) COMMENT 'Service [service.name]' CODEC(ZSTD(1)),
    `commit` LowCardinality(String) COMMENT 'Commit hash of the agent\'s code [vcs.ref.head.revision]' CODEC(ZSTD(1)),
    `run_id` String COMMENT 'The caller\'s own id of the run, where one was given [freezeframe.run.id]' CODEC(ZSTD(1)),
    `user_id` String COMMENT 'User; a surrogate where the policy redacts it [user.id]' CODEC(ZSTD(1)),
    `operation` LowCardinality(String) COMMENT 'chat, embeddings, execute_tool, invoke_agent, retrieval, ... [gen_ai.operation.name]' CODEC(ZSTD(1)),
    `provider` LowCardinality(String) COMMENT 'Model provider [gen_ai.provider.name]' CODEC(ZSTD(1)),
    `agent_name` LowCardinality(String) COMMENT 'Agent [gen_ai.agent.name]' CODEC(ZSTD(1)),
    `request_model` LowCardinality(String) COMMENT 'Model that was asked for [gen_ai.request.model]' CODEC(ZSTD(1)),
    `response_model` LowCardinality(String) COMMENT 'Model that answered [gen_ai.response.model]' CODEC(ZSTD(1)),
    `response_id` String COMMENT 'The provider\'s id of the response [gen_ai.response.id]' CODEC(ZSTD(1)),
    `system_fingerprint` LowCardinality(String) COMMENT 'system_fingerprint as answered [openai.response.system_fingerprint]' CODEC(ZSTD(1)),
    `temperature` Nullable(Float64) COMMENT 'Sampling temperature [gen_ai.request.temperature]' CODEC(ZSTD(1)),
    `top_p` Nullable(Float64) COMMENT 'Nucleus sampling [gen_ai.request.top_p]' CODEC(ZSTD(1)),
    `seed` Nullable(Int64) COMMENT 'Seed as sent [gen_ai.request.seed]' CODEC(ZSTD(1)),
    `max_tokens` Nullable(Int64) COMMENT 'Limit of output tokens as sent [gen_ai.request.max_tokens]' CODEC(ZSTD(1)),
    `stream` Nullable(Bool) COMMENT 'True where the response was streamed [gen_ai.request.stream]' CODEC(ZSTD(1)),
    `finish_reasons` Array(LowCardinality(String)) COMMENT 'Why each choice ended [gen_ai.response.finish_reasons]' CODEC(ZSTD(1)),
    `input_tokens` Nullable(Int64) COMMENT 'Tokens in [gen_ai.usage.input_tokens]' CODEC(ZSTD(1)),
    `output_tokens` Nullable(Int64) COMMENT 'Tokens out [gen_ai.usage.output_tokens]' CODEC(ZSTD(1)),
    `cache_read_tokens` Nullable(Int64) COMMENT 'Input tokens read from the provider\'s cache [gen_ai.usage.cache_read.input_tokens]' CODEC(ZSTD(1)),
    `cache_write_tokens` Nullable(Int64) COMMENT 'Input tokens written to the provider\'s cache [gen_ai.usage.cache_write.input_tokens]' CODEC(ZSTD(1)),
    `reasoning_tokens` Nullable(Int64) COMMENT 'Output tokens spent on reasoning [gen_ai.usage.reasoning.output_tokens]' CODEC(ZSTD(1)),
    `told_cost_usd` Nullable(Float64) COMMENT 'US dollars that the call cost, where its sender says so [freezeframe.usage.cost_usd]' CODEC(ZSTD(1)),
    `ttft_s` Nullable(Float64) COMMENT 'Seconds to the first chunk [gen_ai.response.time_to_first_chunk]' CODEC(ZSTD(1)),
    `tools_hash` LowCardinality(String) COMMENT 'Version of the tool definitions as sent (hash) [freezeframe.tool.definitions.hash]' CODEC(ZSTD(1)),
    `http_status` Nullable(Int64) COMMENT 'HTTP status [http.response.status_code]' CODEC(ZSTD(1)),
    `error_type` LowCardinality(String) COMMENT 'Class of the error [error.type]' CODEC(ZSTD(1)),
    `ms` Float64 COMMENT 'Milliseconds from start to end' CODEC(ZSTD(1)),
    `input_preview` String COMMENT 'Start of the last thing that was asked' CODEC(ZSTD(1)),
    `output_preview` String COMMENT 'Start of what was answered' CODEC(ZSTD(1)),
    `shown` UInt8 COMMENT '1 on the one row that stands for a call, with what all tell of it; every other row is blank' CODEC(ZSTD(1)),
    `started_ns` Int64 COMMENT 'First start of what this run tells of the call, Unix nanoseconds' CODEC(ZSTD(1)),
    `ended_ns` Int64 COMMENT 'Last end of it' CODEC(ZSTD(1)),
    `tellers` LowCardinality(String) COMMENT 'Instrumentations that tell of the call in this run' CODEC(ZSTD(1)),
    `rank` UInt8 COMMENT 'How much they tell: 8 in a span, 4 an answer, 2 a question, 1 below another span' CODEC(ZSTD(1)),
    `keys` Array(UInt64) COMMENT 'Hashes of service and response id, and of service and tokens: by them other runs tell of it' CODEC(ZSTD(1)),
    `version` UInt64 COMMENT 'When the calls of this run were last joined, Unix nanoseconds: the latest row counts' CODEC(ZSTD(1)),
    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX ix_keys keys TYPE bloom_filter(0.001) GRANULARITY 1
) ENGINE = {replacing_version}
PARTITION BY (kept, toDate(run_hour))
ORDER BY (tenant, run_hour, trace_id, span_id)
SETTINGS index_granularity = 1024{durable}
COMMENT 'Model calls that other instrumentations tell of, joined as spans come; read them through the view model_calls';

CREATE TABLE IF NOT EXISTS {db}.rejected_rows{sfx} {on_cluster} (
    `time` DateTime64(9, 'UTC') COMMENT 'When the span was set aside' CODEC(Delta(8), ZSTD(1)),
    `tenant` LowCardinality(String) COMMENT 'Tenant of the span or its resource; empty where none was set' CODEC(ZSTD(1)),
    `trace_id` String COMMENT 'Trace id as far as it was readable' CODEC(ZSTD(1)),
    `span_id` String COMMENT 'Span id as far as it was readable' CODEC(ZSTD(1)),
    `name` String COMMENT 'Span name' CODEC(ZSTD(1)),
    `reason` LowCardinality(String) COMMENT 'Short cause, one of a few words' CODEC(ZSTD(1)),
    `detail` String COMMENT 'What was wrong, found and expected; no payload' CODEC(ZSTD(1)),
    INDEX ix_trace trace_id TYPE bloom_filter(0.01) GRANULARITY 1
) ENGINE = {merge_tree}
PARTITION BY toYYYYMM(time)
ORDER BY (tenant, time)
SETTINGS index_granularity = 1024{durable}
COMMENT 'Spans that were set aside, with the reason';

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

-- Runs to keep, and who removed what.
CREATE TABLE IF NOT EXISTS {db}.pins {on_cluster} (
    tenant LowCardinality(String) COMMENT 'Tenant of the run',
    trace_id String COMMENT 'The run',
    pinned UInt8 COMMENT '1 pinned, 0 no longer',
    note String COMMENT 'Why',
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When; the last one counts'
) ENGINE = {replacing_at} ORDER BY (tenant, trace_id)
SETTINGS index_granularity = 1024{durable}
COMMENT 'Runs that are kept until somebody unpins them';

-- What people say of runs and steps. One row each: the last one counts, and one without label and note says that there is none.
CREATE TABLE IF NOT EXISTS {db}.labels {on_cluster} (
    tenant LowCardinality(String) COMMENT 'Tenant of the run',
    trace_id String COMMENT 'The run',
    span_id String COMMENT 'The step; empty for the run as a whole',
    label LowCardinality(String) COMMENT 'good, bad, or a word of your own; empty for a note only',
    note String COMMENT 'What was noted, redacted as the run is',
    author String COMMENT 'Name of the user of the machine where it was noted',
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When; the last one counts'
) ENGINE = {replacing_at} ORDER BY (tenant, trace_id, span_id)
SETTINGS index_granularity = 1024{durable}
COMMENT 'Labels and notes on runs and steps, the last of each with FINAL';

-- Runs in which a value was found after other spans of them were stored, until a collector has gone through those.
CREATE TABLE IF NOT EXISTS {db}.unsettled_rows {on_cluster} (
    tenant LowCardinality(String) COMMENT 'Tenant by the sender\'s token; empty without one',
    trace_id String COMMENT 'The run',
    since DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When that was noted'
) ENGINE = {replacing} ORDER BY (tenant, trace_id)
SETTINGS index_granularity = 1024{durable}
COMMENT 'Runs of which stored spans may still hold forms of a private value in clear; see runs.settled';

CREATE TABLE IF NOT EXISTS {db}.audit {on_cluster} (
    time DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When',
    action LowCardinality(String) COMMENT 'pin, unpin, delete_run, delete_user, delete_tenant, expire, restore',
    subject String COMMENT 'Run, user surrogate, tenant or day',
    rows UInt64 COMMENT 'Spans that it touched',
    note String COMMENT 'Why, as given'
) ENGINE = {merge_tree} ORDER BY time
SETTINGS index_granularity = 1024{durable}
COMMENT 'What was kept and taken away';

-- The text of each policy that spans went through, from the collector that stores the first such span.
CREATE TABLE IF NOT EXISTS {db}.policy_rows {on_cluster} (
    tenant LowCardinality(String) COMMENT 'Tenant whose spans went through it',
    name LowCardinality(String) COMMENT 'Name of the policy',
    hash String COMMENT 'Twelve hex digits over everything that decides what is redacted',
    text SimpleAggregateFunction(max, String) COMMENT 'The policy as TOML, in canonical form; empty where the collector that stored the spans did not have it',
    first_used_at SimpleAggregateFunction(min, DateTime64(9, 'UTC')) COMMENT 'Start of the first span that is known to have gone through it'
) ENGINE = {aggregating} ORDER BY (tenant, name, hash)
SETTINGS index_granularity = 1024{durable}
COMMENT 'Policies of redaction, as spans name them; read it through the view policies';

-- Who asked the embedded store what.
CREATE TABLE IF NOT EXISTS {db}.queries {on_cluster} (
    time DateTime64(3, 'UTC') COMMENT 'When it was asked',
    user LowCardinality(String) COMMENT 'Whose password was shown: default (the reader token) or admin',
    address LowCardinality(String) COMMENT 'Where the request came from',
    client LowCardinality(String) COMMENT 'The program, as it names itself (User-Agent)',
    statement String COMMENT 'What was asked, each literal and each quoted name that is not a plain one replaced by ?, without comments',
    runs Array(String) COMMENT 'Runs of this store that the statement or its parameters name by their trace id',
    duration_ms UInt32 COMMENT 'Until the end of the answer',
    outcome LowCardinality(String) COMMENT 'ok, failed, refused (not a reader''s to ask), or left (the client went away)',
    error_code UInt32 COMMENT 'The engine''s code of the error; 0 if there was none'
) ENGINE = {merge_tree}
PARTITION BY toMonday(time)
ORDER BY time
TTL toDateTime(time) + INTERVAL 90 DAY
SETTINGS index_granularity = 1024, ttl_only_drop_parts = 1{durable}
COMMENT 'Who asked the collector what, for 90 days; a ClickHouse server keeps its own in system.query_log';
