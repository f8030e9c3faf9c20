"""The columns of the store, each defined once: name, type, source, meaning.

A span is in few columns: `attributes` and `refs` have all its attributes, `origin` those it shares with the
other spans of its process, `rest` those that most spans lack. Values to filter, group and sum by are also in
typed columns, which are never read back. Every other column is an expression over these, and takes no space. It
is long because it is a list.

The DDL with its COMMENTs (`ddl`), the rows (`rows`) and ``docs/tables.md`` come from these definitions. Nothing else may name
a column's type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from freezeframe_schemas import genai


class Source(StrEnum):
    """Source of a column's value."""

    FIELD = "field"
    """A field of the span itself."""
    SPAN = "span attribute"
    RESOURCE = "resource attribute"
    DERIVED = "derived"
    """Computed for queries and for order on disk; never read back into a span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    name: str
    type: str
    comment: str
    source: Source
    attribute: str = ""
    """The attribute's name, if `source` is one."""
    codec: str = "ZSTD(1)"
    """`Default` is that of the part: ZSTD(3), and ZSTD(9) once the day is old."""
    block_bytes: int | None = None
    """Minimum size of a compressed block, if the default (64 KB) is not right."""
    alias: str = ""
    """The expression that computes it, if it is not stored: in the views over the table, which does not have it."""


_LC: Final = "LowCardinality(String)"
_INT: Final = "Nullable(Int64)"
_DOUBLE: Final = "Nullable(Float64)"
_TYPES: Final = "Map(LowCardinality(String), String)"
_REFS: Final = "Map(LowCardinality(String), Array(FixedString(12)))"
_TEXTS: Final = "Map(LowCardinality(String), String)"
_READ_FROM_TEXT: Final = {
    "String": "{0}[{1}]",
    "LowCardinality(String)": "{0}[{1}]",
    "Nullable(Int64)": "toInt64OrNull({0}[{1}])",
    "Nullable(Float64)": "toFloat64OrNull({0}[{1}])",
    "Nullable(Bool)": "if(mapContains({0}, {1}), {0}[{1}] = 'true', NULL)",
    "Array(LowCardinality(String))": "JSONExtract({0}[{1}], 'Array(String)')",
}
"""Column type -> expression over the map `attributes` or `resource`."""


def _field(name: str, type_: str, comment: str, codec: str = "ZSTD(1)") -> Column:
    return Column(name=name, type=type_, comment=comment, source=Source.FIELD, codec=codec)


def _read(name: str, type_: str, comment: str, alias: str) -> Column:
    return Column(name=name, type=type_, comment=comment, source=Source.FIELD, codec="", alias=alias)


def _span(name: str, type_: str, attribute: str, comment: str, codec: str = "ZSTD(1)") -> Column:
    return Column(name=name, type=type_, comment=comment, source=Source.SPAN, attribute=attribute, codec=codec)


def _attribute(name: str, type_: str, attribute: str, comment: str) -> Column:
    """Return a column that is read from `attributes`."""
    alias = _READ_FROM_TEXT[type_].format("attributes", f"'{attribute}'")
    return Column(name=name, type=type_, comment=comment, source=Source.SPAN, attribute=attribute, codec="", alias=alias)


def _resource(name: str, type_: str, attribute: str, comment: str) -> Column:
    """Return a column that is read from `resource`."""
    alias = _READ_FROM_TEXT[type_].format("resource", f"'{attribute}'")
    return Column(name=name, type=type_, comment=comment, source=Source.RESOURCE, attribute=attribute, codec="", alias=alias)


def _derived(name: str, type_: str, comment: str, codec: str = "ZSTD(1)") -> Column:
    return Column(name=name, type=type_, comment=comment, source=Source.DERIVED, codec=codec)


TENANT: Final = _derived("tenant", _LC, "Tenant of the span or its resource; empty if none is set")
STORED_AT: Final = _derived(
    "stored_at",
    "DateTime64(3, 'UTC')",
    "When the collector stored it; the last time, if it was sent twice",
    "Delta(8), ZSTD(1)",
)
RUN_HOUR: Final = _derived(
    "run_hour",
    "DateTime('UTC')",
    "Hour in which the run started, the same for all its spans; sets the partition (by day) and the order on disk",
    "Delta(4), ZSTD(1)",
)

KEPT: Final = _derived(
    "kept",
    "UInt8",
    "1 if the row was copied out of its day, because its run is kept longer than the others of that day",
)

SERVICE: Final = Column(name="service", type=_LC, comment="Service", source=Source.RESOURCE, attribute=genai.SERVICE_NAME)

RESOURCE_REFS: Final = (
    "mapApply((name, hashes) -> (name, arrayMap(hash -> toFixedString(unhex(hash), 12), hashes)),"
    " JSONExtract(origin, 'refs', 'Map(String, Array(String))'))"
)
SPAN_COLUMNS: Final[tuple[Column, ...]] = (
    KEPT,
    TENANT,
    RUN_HOUR,
    _field("trace_id", "String", "The run's identity: trace id, 32 lower-case hex digits"),
    _field("span_id", "String", "16 lower-case hex digits"),
    _field("parent_span_id", "String", "Span id of the parent; empty for a root"),
    _read("trace_state", "String", "W3C trace state", "JSONExtractString(rest, 'trace_state')"),
    _read("flags", "UInt32", "OTLP flags", "JSONExtractUInt(rest, 'flags')"),
    _field("start_time", "DateTime64(9, 'UTC')", "When the span started", "Delta(8), ZSTD(1)"),
    _field("duration_ns", "Int64", "End minus start, nanoseconds", "T64, ZSTD(1)"),
    _field("name", _LC, "Span name"),
    _read(
        "kind",
        _LC,
        "Internal, Server, Client, Producer, Consumer or Unspecified",
        "if(JSONHas(rest, 'kind'), JSONExtractString(rest, 'kind'), 'Internal')",
    ),
    _field("status", _LC, "Unset, Ok or Error"),
    _read("status_message", "String", "Status message", "JSONExtractString(rest, 'status_message')"),
    *(
        _read(name, _LC, text, f"JSONExtractString(origin, '{name}')")
        for name, text in (
            ("scope_name", "Instrumentation scope that made the span"),
            ("scope_version", "Its version"),
            ("scope_schema_url", "Schema URL of the scope"),
            ("resource_schema_url", "Schema URL of the resource"),
        )
    ),
    # who and what
    SERVICE,
    _resource("commit", _LC, genai.VCS_REVISION, "Commit hash of the agent's code"),
    _resource("commit_dirty", "Nullable(Bool)", genai.VCS_DIRTY, "True if the working tree differed from the commit"),
    _span("run_id", "String", genai.RUN_ID, "The caller's own id of the run, if it has one"),
    _span("user_id", "String", genai.USER_ID, "User; a surrogate if the policy redacts it"),
    _span("session_id", "String", genai.SESSION_ID, "Session"),
    _span("conversation_id", "String", genai.CONVERSATION_ID, "Conversation"),
    _attribute("flag_values", "String", genai.FLAGS, "JSON object: feature flag -> its value in this run (entry span)"),
    _span("entry_kind", _LC, genai.ENTRY_KIND, "function, command, request, task, prompt or program (entry span)"),
    _attribute("entry_target", _LC, genai.ENTRY_TARGET, "module:qualname of the entry point (entry span)"),
    _span("begun", "String", genai.ENTRY_BEGUN, "On a pending span (its parent has begun): the parent's parent"),
    # the operation
    _span("operation", _LC, genai.OPERATION_NAME, "chat, embeddings, execute_tool, invoke_agent, retrieval, ..."),
    _attribute("provider", _LC, genai.PROVIDER_NAME, "Model provider"),
    _attribute("agent_name", _LC, genai.AGENT_NAME, "Agent"),
    _attribute("agent_version", _LC, genai.AGENT_VERSION, "Version of the agent"),
    _span("request_model", _LC, genai.REQUEST_MODEL, "Requested model"),
    _span("response_model", _LC, genai.RESPONSE_MODEL, "Model that answered"),
    _attribute("response_id", "String", genai.RESPONSE_ID, "The provider's response id"),
    _attribute("system_fingerprint", _LC, genai.OPENAI_SYSTEM_FINGERPRINT, "system_fingerprint of the response"),
    _attribute("temperature", _DOUBLE, genai.REQUEST_TEMPERATURE, "Sampling temperature"),
    _attribute("top_p", _DOUBLE, genai.REQUEST_TOP_P, "Nucleus sampling"),
    _attribute("seed", _INT, genai.REQUEST_SEED, "Seed as sent"),
    _attribute("max_tokens", _INT, genai.REQUEST_MAX_TOKENS, "Maximum output tokens as sent"),
    _attribute("stream", "Nullable(Bool)", genai.REQUEST_STREAM, "True if the response was streamed"),
    _attribute("finish_reasons", "Array(LowCardinality(String))", genai.RESPONSE_FINISH_REASONS, "Why each choice ended"),
    _span("input_tokens", _INT, genai.USAGE_INPUT_TOKENS, "Input tokens"),
    _span("output_tokens", _INT, genai.USAGE_OUTPUT_TOKENS, "Output tokens"),
    _span("cache_read_tokens", _INT, genai.USAGE_CACHE_READ_TOKENS, "Input tokens read from the provider's cache"),
    _span("cache_write_tokens", _INT, genai.USAGE_CACHE_WRITE_TOKENS, "Input tokens written to the provider's cache"),
    _attribute("reasoning_tokens", _INT, genai.USAGE_REASONING_TOKENS, "Output tokens spent on reasoning"),
    _span("reported_cost_usd", _DOUBLE, genai.USAGE_COST_USD, "Cost of the call in US dollars, if the sender reports it"),
    _span("ttft_s", _DOUBLE, genai.RESPONSE_TIME_TO_FIRST_CHUNK, "Seconds until the first chunk"),
    _span("tool_name", _LC, genai.TOOL_NAME, "Tool"),
    _attribute("tool_call_id", "String", genai.TOOL_CALL_ID, "The tool call's id, given by the model"),
    _attribute("tools_hash", _LC, genai.TOOL_DEFINITIONS_HASH, "Hash of the tool definitions as sent"),
    _attribute("data_source", _LC, genai.DATA_SOURCE_ID, "Retriever or index that was searched"),
    _span("error_type", _LC, genai.ERROR_TYPE, "Class of the error"),
    # the exchange
    _span(
        "exchange_kind", _LC, genai.EXCHANGE_KIND, "model, tool, retrieval, mcp or http; empty if the span is not an exchange"
    ),
    _attribute("seam", _LC, genai.EXCHANGE_SEAM, "Where the exchange was recorded"),
    _attribute("dialect", _LC, genai.EXCHANGE_DIALECT, "Wire dialect of the bodies"),
    _attribute("lane", _LC, genai.EXCHANGE_LANE, "Spawn ordinals of the task or thread; empty for the entry point's own lane"),
    _span("sequence", _INT, genai.EXCHANGE_SEQUENCE, "Position in the order in which the process made its calls"),
    _attribute("completion", _LC, genai.RESPONSE_COMPLETION, "complete, closed_early, broken or none"),
    _attribute("http_method", _LC, genai.HTTP_REQUEST_METHOD, "HTTP method"),
    _span("http_status", _INT, genai.HTTP_RESPONSE_STATUS_CODE, "HTTP status"),
    _attribute("resend", _INT, genai.HTTP_REQUEST_RESEND_COUNT, "Number of the retry; 0 or absent for the first attempt"),
    _attribute("url", "String", genai.URL_FULL, "Full URL"),
    _span("chunk_sizes", "Array(UInt32)", genai.RESPONSE_CHUNK_SIZES, "Bytes of each chunk as received", "T64, ZSTD(1)"),
    _field(
        "chunk_gaps",
        "Array(UInt64)",
        "First the unit in nanoseconds (1000 if that is exact, else 1), then the time from each chunk to the next",
        "T64, ZSTD(1)",
    ),
    Column(
        name="chunk_offsets_ns",
        type="Array(UInt64)",
        comment="Nanoseconds from the start of the span to each chunk",
        source=Source.SPAN,
        attribute=genai.RESPONSE_CHUNK_OFFSETS_NS,
        codec="",
        alias="arrayMap(offset -> offset * chunk_gaps[1], arrayCumSum(arrayPopFront(chunk_gaps)))",
    ),
    _attribute("redaction_policy", _LC, genai.REDACTION_POLICY, "name@hash of the policy that redacted the span"),
    _attribute("normalised_from", _LC, genai.NORMALISED_FROM, "Vendor dialect that the GenAI attributes were mapped from"),
    # for lists
    Column(
        name="previews",
        type="Array(String)",
        comment="Start of the last question and of the answer, for lists; empty if the span has neither",
        source=Source.DERIVED,
        codec="Default",
        block_bytes=1 << 20,
    ),
    _derived("payload_bytes", "UInt64", "Bytes of this span's values that are stored as payloads"),
    _derived(
        "gaps",
        "Array(LowCardinality(String))",
        "What this span is known to be missing: attributes_dropped, request_omitted, response_omitted, result_opaque",
    ),
    # the span
    Column(
        name="attributes",
        type=_TEXTS,
        comment="Small attributes; other types are written as text",
        source=Source.FIELD,
        codec="Default",
        block_bytes=256 << 10,
    ),
    _read(
        "attribute_types",
        _TYPES,
        "Type of each attribute whose type is not the usual one of its name: text, int, double, bool, bytes, json, null",
        "JSONExtract(rest, 'types', 'Map(String, String)')",
    ),
    _field("refs", _REFS, "Large attribute -> hashes of its payload pieces, in order"),
    Column(
        name="templates",
        type="String",
        comment="For each attribute in `refs`, in order, the text around its pieces: char(0) for a piece, char(1) between"
        " attributes; without a template, an attribute is its pieces joined",
        source=Source.FIELD,
        codec="Default",
        # a turn's request has the previous one's template, a little longer: ZSTD finds it in the block
        block_bytes=1 << 20,
    ),
    _field(
        "origin",
        _LC,
        "JSON of what the spans of a process share: resource attributes with their types, scope, schema URLs",
        "ZSTD(3)",
    ),
    _read(
        "resource",
        _TEXTS,
        "Small resource attributes; other types are written as text",
        "JSONExtract(origin, 'resource', 'Map(String, String)')",
    ),
    _read(
        "resource_types",
        _TYPES,
        "The same for resource attributes",
        "JSONExtract(origin, 'types', 'Map(String, String)')",
    ),
    _read(
        "resource_refs",
        _REFS,
        "Large resource attribute -> hashes of its payload pieces, in order",
        RESOURCE_REFS,
    ),
    *(
        _read(
            f"{items}.{name}", f"Array({type_})", text, expression.format(f"JSONExtract(rest, '{items}', '{name}', '{read}')")
        )
        for items, name, type_, read, text, expression in (
            (
                *("events", "time", "DateTime64(9, 'UTC')", "Array(Int64)", "Time of each event"),
                "arrayMap(time -> fromUnixTimestamp64Nano(time, 'UTC'), {})",
            ),
            ("events", "name", _LC, "Array(String)", "Name of each event", "{}"),
            ("events", "attributes", _TEXTS, "Array(Map(String, String))", "Attributes of each event", "{}"),
            ("links", "trace_id", "String", "Array(String)", "Trace id of each link", "{}"),
            ("links", "span_id", "String", "Array(String)", "Span id of each link", "{}"),
            ("links", "trace_state", "String", "Array(String)", "Trace state of each link", "{}"),
            ("links", "attributes", _TEXTS, "Array(Map(String, String))", "Attributes of each link", "{}"),
        )
    ),
    _field("rest", "String", "JSON of what few spans have: kind, status message, events, links, dropped counts, types, ..."),
    STORED_AT,
)
STORED_SPAN_COLUMNS: Final = tuple(column for column in SPAN_COLUMNS if not column.alias)

PAYLOAD_COLUMNS: Final[tuple[Column, ...]] = (
    KEPT,
    TENANT,
    RUN_HOUR,
    SERVICE,
    _field("trace_id", "String", "The run that the piece belongs to"),
    _derived(
        "start_time",
        "DateTime('UTC')",
        "Start of the span in which the piece first appeared: pieces close in time are alike and compress well",
        "Delta(4), ZSTD(1)",
    ),
    _field("attribute", _LC, "Attribute in which the piece first appeared"),
    Column(
        name="body",
        type="String",
        comment="The bytes; an attribute's value is its pieces joined",
        source=Source.FIELD,
        codec="Default",
        # a service's runs lie together: one has the prompts and tools of the one before it
        block_bytes=1 << 20,
    ),
)
PIECE_NAME: Final = Column(
    name="hash",
    type="FixedString(12)",
    comment="First 12 bytes of the SHA-256 of `body`; computed when queried, never stored",
    source=Source.DERIVED,
    codec="",
)
"""The column by which spans name pieces. A stored name would be 12 bytes that no codec can compress."""

REJECTED_COLUMNS: Final[tuple[Column, ...]] = (
    _field("time", "DateTime64(9, 'UTC')", "When the span was rejected", "Delta(8), ZSTD(1)"),
    TENANT,
    _field("trace_id", "String", "Trace id, as far as it could be read"),
    _field("span_id", "String", "Span id, as far as it could be read"),
    _field("name", "String", "Span name"),
    _field("reason", _LC, "Short reason, from a fixed list"),
    _field("detail", "String", "What was wrong: found and expected, without payloads"),
)

_FIRST: Final = (
    "Tuple(rank UInt8, start_time DateTime64(9, 'UTC'), span_id String, pending Bool, name String, target String,"
    " failed Bool, input String, output String, flag_values String)"
)

RUN_COLUMNS: Final[tuple[Column, ...]] = (
    KEPT,
    TENANT,
    RUN_HOUR,
    _field("trace_id", "String", "The run's identity"),
    _derived("start_time", "SimpleAggregateFunction(min, DateTime64(9, 'UTC'))", "First start of a span"),
    _derived("end_time", "SimpleAggregateFunction(max, DateTime64(9, 'UTC'))", "Last end of a span"),
    *(
        _derived(name, "SimpleAggregateFunction(max, String)", f"{text}, of any span that has it")
        for name, text in (
            ("run_id", "The caller's run id"),
            ("service", "Service"),
            ("agent", "Agent"),
            ("user_id", "User"),
            ("session_id", "Session"),
            ("conversation_id", "Conversation"),
            ("commit", "Commit hash of the agent's code"),
        )
    ),
    _derived("commit_dirty", "SimpleAggregateFunction(max, Int8)", "1 dirty, 0 clean, -1 unknown"),
    _derived(
        "entry",
        f"SimpleAggregateFunction(min, {_FIRST})",
        "Span of the entry point: the marked one, else the root, else the first",
    ),
    _derived(
        "first_error",
        "SimpleAggregateFunction(min, Tuple(start_time DateTime64(9, 'UTC'), error String))",
        "Error of the first span that failed; its time is in the far future if none did",
    ),
    _derived("has_exchanges", "SimpleAggregateFunction(max, UInt8)", "1 if the run has exchanges"),
    _derived("models", "SimpleAggregateFunction(groupUniqArrayArray, Array(String))", "Requested models"),
    _derived("tools", "SimpleAggregateFunction(groupUniqArrayArray, Array(String))", "Tools that were called"),
    # A map keyed by span, so that a span that was sent twice counts once: a sum would count it twice.
    _derived(
        "marks",
        "SimpleAggregateFunction(maxMap, Map(UInt64, UInt64))",
        "Span -> bits: 1 error; exchange: 2 model, 4 tool, 8 retrieval, 16 other; operation: 32 model, 64 tool, 128 retrieval;"
        " from bit 8 input tokens, from bit 36 output tokens, 28 bits each",
    ),
    _derived(
        "lacks",
        "SimpleAggregateFunction(groupBitOr, UInt32)",
        "Bits by position in run.KIT: parts of the replay kit that some exchange is missing",
    ),
    _derived(
        "entry_lacks",
        "SimpleAggregateFunction(min,"
        " Tuple(rank UInt8, start_time DateTime64(9, 'UTC'), span_id String, pending Bool, lacks UInt32))",
        "The same for the span of the entry point, chosen as in `entry`",
    ),
    _derived(
        "gaps",
        "SimpleAggregateFunction(groupUniqArrayArray, Array(String))",
        "What spans are known to be missing; see spans.gaps",
    ),
    _derived(
        "parents",
        "SimpleAggregateFunction(groupUniqArrayArray, Array(UInt64))",
        "Parents that are missing from a batch; one that is not in `marks` either leaves orphans",
    ),
    _derived(
        "begun",
        "SimpleAggregateFunction(groupUniqArrayArray, Array(UInt64))",
        "Entry spans that have begun; if one is not in `marks`, its end was not recorded and the run is unfinished",
    ),
    _derived(
        "made",
        "SimpleAggregateFunction(maxMap, Map(UInt64, UInt64))",
        "Entry span -> exchanges of the run that had ended by its end; if that is more than are stored, some were lost",
    ),
)

ATTRIBUTE_COLUMNS: Final = tuple(c for c in SPAN_COLUMNS if c.source is Source.SPAN)
RESOURCE_COLUMNS: Final = tuple(c for c in SPAN_COLUMNS if c.source is Source.RESOURCE)
TYPE_OF: Final[Mapping[str, str]] = {
    column.attribute: name
    for column in (*ATTRIBUTE_COLUMNS, *RESOURCE_COLUMNS)
    for start, name in (("Nullable(Int", "int"), ("Nullable(F", "double"), ("Nullable(B", "bool"), ("Array(", "json"))
    if column.type.startswith(start)
}
"""Attribute -> its type if no other is stored, for attributes that are not text."""

_OF_A_CALL: Final = (
    "tenant, trace_id, span_id, parent_span_id, start_time, name, status, service, commit, run_id, user_id, operation,"
    " provider, agent_name, request_model, response_model, response_id, system_fingerprint, temperature, top_p, seed,"
    " max_tokens, stream, finish_reasons, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens,"
    " reported_cost_usd, ttft_s, tools_hash, http_status, error_type"
)
REPORTED_COLUMNS: Final[tuple[Column, ...]] = (
    *(
        replace(column, alias="", codec=column.codec or "ZSTD(1)")
        for name in _OF_A_CALL.split(", ")
        for column in SPAN_COLUMNS
        if column.name == name
    ),
    _derived("ms", "Float64", "Milliseconds from start to end"),
    _derived("input_preview", "String", "Start of the last question"),
    _derived("output_preview", "String", "Start of the answer"),
)
"""Columns of a model call that `spans` and `call_rows` share."""

CALL_COLUMNS: Final[tuple[Column, ...]] = (
    KEPT,
    RUN_HOUR,
    *REPORTED_COLUMNS,
    _derived(
        "shown", "UInt8", "1 on the row that represents the call and has everything reported about it; all other rows are blank"
    ),
    _derived("started_ns", "Int64", "Earliest reported start of the call in this run, Unix nanoseconds"),
    _derived("ended_ns", "Int64", "Latest reported end, Unix nanoseconds"),
    _derived("reported_by", _LC, "Instrumentations that report the call in this run"),
    _derived("rank", "UInt8", "How much they report: 8 in a span, 4 an answer, 2 a question, 1 below another span"),
    _derived(
        "keys",
        "Array(UInt64)",
        "Hashes of service and response id, and of service and tokens; by these, reports in other runs are matched",
    ),
    _derived("version", "UInt64", "When the calls of this run were last joined, Unix nanoseconds; the latest row counts"),
)

CONTENT_ATTRIBUTES: Final = frozenset(
    {
        genai.INPUT_MESSAGES,
        genai.OUTPUT_MESSAGES,
        genai.SYSTEM_INSTRUCTIONS,
        genai.TOOL_DEFINITIONS,
        genai.TOOL_CALL_ARGUMENTS,
        genai.TOOL_CALL_RESULT,
        genai.RETRIEVAL_QUERY,
        genai.RETRIEVAL_DOCUMENTS,
        genai.REQUEST_BODY,
        genai.RESPONSE_BODY,
        genai.ENTRY_INPUT,
        genai.ENTRY_OUTPUT,
        genai.ERROR_CHAIN,
    }
)
"""Stored as payloads whatever their size, so that a search finds them all in one place."""

INLINE_LIMIT: Final = 512
"""Bytes. Any other text longer than this is stored as a payload too."""
PIECE_LIMIT: Final = 1 << 20
"""Bytes of the largest piece. Merges of the store hold whole values in memory: multi-gigabyte ones stopped others for days
(langfuse#4517)."""
