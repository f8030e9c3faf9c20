-- What other instrumentations tell of model calls, joined: a row for each span or log record that tells of one. Filled by
-- the collector, which joins the calls of all stored runs when this is applied.
DROP VIEW IF EXISTS {db}.run_rows_feed {on_cluster};

ALTER TABLE {db}.run_rows{sfx} {on_cluster} DROP COLUMN IF EXISTS `outer_calls`;

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
