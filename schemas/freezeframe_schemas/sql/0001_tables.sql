-- Generated from freezeframe_schemas.tables.columns; see tables.ddl. Placeholders are filled in by the migration runner:
-- {db} the database, {on_cluster} '' or ON CLUSTER, {sfx} '' or '_local', {replacing} and {aggregating} the engines,
-- {durable} their settings.

CREATE TABLE IF NOT EXISTS {db}.span_rows{sfx} {on_cluster} (
    `kept` UInt8 COMMENT '1 once the row was copied out of its day, because the run is kept longer than the day\'s other runs' CODEC(ZSTD(1)),
    `tenant` LowCardinality(String) COMMENT 'Tenant of the span or its resource; empty where none was set' CODEC(ZSTD(1)),
    `run_hour` DateTime('UTC') COMMENT 'Hour in which the run started, the same for all spans of a run: order on disk and partition (by day) follow it' CODEC(Delta(4), ZSTD(1)),
    `trace_id` String COMMENT 'The run\'s identity: trace id, 32 lower-case hex digits' CODEC(ZSTD(1)),
    `span_id` String COMMENT '16 lower-case hex digits' CODEC(ZSTD(1)),
    `parent_span_id` String COMMENT 'Span id of the parent; empty for a root' CODEC(ZSTD(1)),
    `trace_state` String COMMENT 'W3C trace state' CODEC(ZSTD(1)),
    `flags` UInt32 COMMENT 'OTLP flags' CODEC(ZSTD(1)),
    `start_time` DateTime64(9, 'UTC') COMMENT 'When the span started' CODEC(Delta(8), ZSTD(1)),
    `duration_ns` Int64 COMMENT 'End minus start, nanoseconds' CODEC(ZSTD(1)),
    `name` LowCardinality(String) COMMENT 'Span name' CODEC(ZSTD(1)),
    `kind` LowCardinality(String) COMMENT 'Internal, Server, Client, Producer, Consumer or Unspecified' CODEC(ZSTD(1)),
    `status` LowCardinality(String) COMMENT 'Unset, Ok or Error' CODEC(ZSTD(1)),
    `status_message` String COMMENT 'The status\' message' CODEC(ZSTD(1)),
    `scope_name` LowCardinality(String) COMMENT 'Instrumentation scope that made the span' CODEC(ZSTD(1)),
    `scope_version` LowCardinality(String) COMMENT 'Its version' CODEC(ZSTD(1)),
    `scope_schema_url` LowCardinality(String) COMMENT 'Schema URL of the scope' CODEC(ZSTD(1)),
    `resource_schema_url` LowCardinality(String) COMMENT 'Schema URL of the resource' CODEC(ZSTD(1)),
    `service` LowCardinality(String) COMMENT 'Service [service.name]' CODEC(ZSTD(1)),
    `commit` LowCardinality(String) COMMENT 'Commit hash of the agent\'s code [vcs.ref.head.revision]' CODEC(ZSTD(1)),
    `commit_dirty` Nullable(Bool) COMMENT 'True where the working tree differed from the commit [freezeframe.vcs.dirty]' CODEC(ZSTD(1)),
    `run_id` String COMMENT 'The caller\'s own id of the run, where one was given [freezeframe.run.id]' CODEC(ZSTD(1)),
    `user_id` String COMMENT 'User; a surrogate where the policy redacts it [user.id]' CODEC(ZSTD(1)),
    `session_id` String COMMENT 'Session [session.id]' CODEC(ZSTD(1)),
    `conversation_id` String COMMENT 'Conversation [gen_ai.conversation.id]' CODEC(ZSTD(1)),
    `flag_values` String COMMENT 'JSON object: feature flag -> value as seen by this run (entry span) [freezeframe.flags]' CODEC(ZSTD(1)),
    `entry_kind` LowCardinality(String) COMMENT 'function, command or request (entry span) [freezeframe.entry.kind]' CODEC(ZSTD(1)),
    `entry_target` LowCardinality(String) COMMENT 'module:qualname of the entry point (entry span) [freezeframe.entry.target]' CODEC(ZSTD(1)),
    `operation` LowCardinality(String) COMMENT 'chat, embeddings, execute_tool, invoke_agent, retrieval, ... [gen_ai.operation.name]' CODEC(ZSTD(1)),
    `provider` LowCardinality(String) COMMENT 'Model provider [gen_ai.provider.name]' CODEC(ZSTD(1)),
    `agent_name` LowCardinality(String) COMMENT 'Agent [gen_ai.agent.name]' CODEC(ZSTD(1)),
    `agent_version` LowCardinality(String) COMMENT 'Version of the agent [gen_ai.agent.version]' CODEC(ZSTD(1)),
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
    `ttft_s` Nullable(Float64) COMMENT 'Seconds to the first chunk [gen_ai.response.time_to_first_chunk]' CODEC(ZSTD(1)),
    `tool_name` LowCardinality(String) COMMENT 'Tool [gen_ai.tool.name]' CODEC(ZSTD(1)),
    `tool_call_id` String COMMENT 'The model\'s id of the tool call [gen_ai.tool.call.id]' CODEC(ZSTD(1)),
    `tools_hash` LowCardinality(String) COMMENT 'Version of the tool definitions as sent (hash) [freezeframe.tool.definitions.hash]' CODEC(ZSTD(1)),
    `data_source` LowCardinality(String) COMMENT 'Retriever or index that was searched [gen_ai.data_source.id]' CODEC(ZSTD(1)),
    `error_type` LowCardinality(String) COMMENT 'Class of the error [error.type]' CODEC(ZSTD(1)),
    `exchange_kind` LowCardinality(String) COMMENT 'model, tool, retrieval, mcp or http on an exchange span, else empty [freezeframe.exchange.kind]' CODEC(ZSTD(1)),
    `seam` LowCardinality(String) COMMENT 'Where the exchange was recorded [freezeframe.exchange.seam]' CODEC(ZSTD(1)),
    `dialect` LowCardinality(String) COMMENT 'Wire dialect of the bodies [freezeframe.exchange.dialect]' CODEC(ZSTD(1)),
    `lane` LowCardinality(String) COMMENT 'Spawn ordinals of the task or thread; empty: the entry point\'s own [freezeframe.exchange.lane]' CODEC(ZSTD(1)),
    `sequence` Nullable(Int64) COMMENT 'Order of issue within the process [freezeframe.exchange.sequence]' CODEC(ZSTD(1)),
    `completion` LowCardinality(String) COMMENT 'complete, closed_early, broken or none [freezeframe.response.completion]' CODEC(ZSTD(1)),
    `http_method` LowCardinality(String) COMMENT 'HTTP method [http.request.method]' CODEC(ZSTD(1)),
    `http_status` Nullable(Int64) COMMENT 'HTTP status [http.response.status_code]' CODEC(ZSTD(1)),
    `resend` Nullable(Int64) COMMENT 'Which retry this is; absent or 0: the first attempt [http.request.resend_count]' CODEC(ZSTD(1)),
    `url` String COMMENT 'Full URL [url.full]' CODEC(ZSTD(1)),
    `chunk_sizes` Array(UInt32) COMMENT 'Bytes of each chunk as it came [freezeframe.response.chunk.sizes]' CODEC(ZSTD(1)),
    `chunk_offsets_ns` Array(UInt64) COMMENT 'Nanoseconds from the start to each chunk [freezeframe.response.chunk.offsets_ns]' CODEC(Delta(8), ZSTD(1)),
    `redaction_policy` LowCardinality(String) COMMENT 'name@hash of the policy that the span went through [freezeframe.redaction.policy]' CODEC(ZSTD(1)),
    `normalised_from` LowCardinality(String) COMMENT 'Vendor dialect that the GenAI attributes were derived from [freezeframe.normalised.from]' CODEC(ZSTD(1)),
    `input_preview` String COMMENT 'Start of the last thing that was asked, for lists' CODEC(ZSTD(1)),
    `output_preview` String COMMENT 'Start of what was answered, for lists' CODEC(ZSTD(1)),
    `payload_bytes` UInt64 COMMENT 'Bytes of the values of this span that are stored as payloads' CODEC(ZSTD(1)),
    `gaps` Array(LowCardinality(String)) COMMENT 'What this span is known to lack: attributes_dropped, request_omitted, response_omitted, result_opaque' CODEC(ZSTD(1)),
    `attributes` Map(LowCardinality(String), String) COMMENT 'Attributes without a column of their own, and small; text as it is, other types as text' CODEC(ZSTD(1)),
    `attribute_types` Map(LowCardinality(String), Enum8('int' = 1, 'double' = 2, 'bool' = 3, 'bytes' = 4, 'json' = 5, 'null' = 6)) COMMENT 'Type of each attribute in `attributes` or `refs` that is no text' CODEC(ZSTD(1)),
    `refs` Map(LowCardinality(String), Array(FixedString(12))) COMMENT 'Attribute -> hashes of its payload pieces, in order' CODEC(ZSTD(1)),
    `resource` Map(LowCardinality(String), String) COMMENT 'Resource attributes without a column of their own, and small' CODEC(ZSTD(1)),
    `resource_types` Map(LowCardinality(String), Enum8('int' = 1, 'double' = 2, 'bool' = 3, 'bytes' = 4, 'json' = 5, 'null' = 6)) COMMENT 'Type of each resource attribute in `resource` or `resource_refs` that is no text' CODEC(ZSTD(1)),
    `resource_refs` Map(LowCardinality(String), Array(FixedString(12))) COMMENT 'Large resource attribute -> hashes of its payload pieces, in order' CODEC(ZSTD(1)),
    `events.time` Array(DateTime64(9, 'UTC')) COMMENT 'When each event happened' CODEC(ZSTD(1)),
    `events.name` Array(LowCardinality(String)) COMMENT 'Name of each event' CODEC(ZSTD(1)),
    `events.attributes` Array(Map(LowCardinality(String), String)) COMMENT 'Attributes of each event' CODEC(ZSTD(1)),
    `links.trace_id` Array(String) COMMENT 'Trace id of each link' CODEC(ZSTD(1)),
    `links.span_id` Array(String) COMMENT 'Span id of each link' CODEC(ZSTD(1)),
    `links.trace_state` Array(String) COMMENT 'Trace state of each link' CODEC(ZSTD(1)),
    `links.attributes` Array(Map(LowCardinality(String), String)) COMMENT 'Attributes of each link' CODEC(ZSTD(1)),
    `rest` String COMMENT 'JSON of what OTLP carries and no column holds (dropped counts, types in events, ...); mostly empty' CODEC(ZSTD(1)),
    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX ix_run run_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX ix_conversation conversation_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX ix_user user_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX ix_start start_time TYPE minmax GRANULARITY 1
) ENGINE = {replacing}
PARTITION BY (kept, toDate(run_hour))
ORDER BY (tenant, run_hour, trace_id, start_time, span_id)
SETTINGS index_granularity = 1024{durable}
COMMENT 'Spans, one row each; read them through the view spans';

CREATE TABLE IF NOT EXISTS {db}.payload_rows{sfx} {on_cluster} (
    `kept` UInt8 COMMENT '1 once the row was copied out of its day, because the run is kept longer than the day\'s other runs' CODEC(ZSTD(1)),
    `tenant` LowCardinality(String) COMMENT 'Tenant of the span or its resource; empty where none was set' CODEC(ZSTD(1)),
    `run_hour` DateTime('UTC') COMMENT 'Hour in which the run started, the same for all spans of a run: order on disk and partition (by day) follow it' CODEC(Delta(4), ZSTD(1)),
    `trace_id` String COMMENT 'The run that the piece belongs to' CODEC(ZSTD(1)),
    `hash` FixedString(12) COMMENT 'First 12 bytes of the SHA-256 of `body`' CODEC(NONE),
    `attribute` LowCardinality(String) COMMENT 'Attribute in which the piece was first met' CODEC(ZSTD(1)),
    `body` String COMMENT 'The bytes; an attribute\'s value is its pieces joined' CODEC(ZSTD(3, 23)) SETTINGS (min_compress_block_size = 8388608, max_compress_block_size = 16777216),
    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1
) ENGINE = {replacing}
PARTITION BY (kept, toDate(run_hour))
ORDER BY (tenant, run_hour, trace_id, hash)
SETTINGS index_granularity = 256{durable}
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
    `entry` SimpleAggregateFunction(min, Tuple(rank UInt8, start_time DateTime64(9, 'UTC'), span_id String, name String, target String, failed Bool, input String, output String, flag_values String)) COMMENT 'The entry point\'s span: marked, else the root, else the first' CODEC(ZSTD(1)),
    `first_error` SimpleAggregateFunction(min, Tuple(start_time DateTime64(9, 'UTC'), error String)) COMMENT 'Error of the first span that failed; in the far future where none did' CODEC(ZSTD(1)),
    `has_exchanges` SimpleAggregateFunction(max, UInt8) COMMENT '1 where the run was recorded with exchanges' CODEC(ZSTD(1)),
    `models` SimpleAggregateFunction(groupUniqArrayArray, Array(String)) COMMENT 'Models that were asked for' CODEC(ZSTD(1)),
    `marks` SimpleAggregateFunction(maxMap, Map(UInt64, UInt64)) COMMENT 'Span -> bits: 1 error; exchange: 2 model, 4 tool, 8 retrieval, 16 other; operation: 32 model, 64 tool, 128 retrieval' CODEC(ZSTD(1)),
    `tokens_in` SimpleAggregateFunction(maxMap, Map(UInt64, UInt64)) COMMENT 'Span -> input tokens' CODEC(ZSTD(1)),
    `tokens_out` SimpleAggregateFunction(maxMap, Map(UInt64, UInt64)) COMMENT 'Span -> output tokens' CODEC(ZSTD(1)),
    INDEX ix_trace trace_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX ix_run run_id TYPE bloom_filter(0.001) GRANULARITY 1
) ENGINE = {aggregating}
PARTITION BY (kept, toDate(run_hour))
ORDER BY (tenant, run_hour, trace_id)
SETTINGS index_granularity = 1024{durable}
COMMENT 'What the list of runs needs, gathered as spans come; read it through the view runs';

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
