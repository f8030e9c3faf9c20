"""Coding agents (Claude Code, Codex CLI, Gemini CLI): their log records, which `sessions` has put into one run per session.

A prompt is an entry point of the run, a request or its answer a model call, a tool's result a tool call.

Sources:

- Claude Code: https://code.claude.com/docs/en/monitoring-usage (as it names version 2.1.199), and what version 2.1.197 sent. It
  writes input tokens as Anthropic counts them, without what came from the cache.
- Codex CLI: https://github.com/openai/codex, codex-rs/otel/src/events, and what version 0.169.0 sent. A request and its answer
  are two records without a common id, which `store.calls` joins.
- Gemini CLI: https://github.com/google-gemini/gemini-cli, packages/core/src/telemetry/types.ts, and what version 0.61.0 sent.
  Requests and answers are Gemini's own JSON, if it logs prompts, which is its default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.coding_agents import CLAUDE_CODE, CODEX, GEMINI_CLI, CodingAgent
from freezeframe_schemas.otlp.sessions import number
from freezeframe_schemas.span import SpanRecord, StatusCode
from freezeframe_schemas.vendors.dialect import Dialect, json_of, plain
from freezeframe_schemas.wire import gemini
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import as_objects
from freezeframe_schemas.wire.frames import Frame
from freezeframe_schemas.wire.gemini_stream import assemble
from freezeframe_schemas.wire.openai_content import read_message

_HIDDEN: Final = ("<REDACTED>", "[REDACTED]")
"""Placeholder of Claude Code and Codex for a text that they must not log."""

_Derive = Callable[[str, SpanRecord, AttributeWriter], None]
"""Takes the event's name without the agent's own, the span and where to write."""


def _session_dialect(agent: CodingAgent, *, derive: _Derive, user: Sequence[str]) -> Dialect:
    """Return the dialect of a coding agent; `user` names attributes, the first of which with a value counts."""

    def fits(span: SpanRecord) -> bool:
        return span.name.startswith(agent.events) and genai.EVENT_NAME in span.attributes

    def derive_record(span: SpanRecord, out: AttributeWriter) -> None:
        out.text(genai.SESSION_ID, span.text(agent.session))
        out.text(genai.CONVERSATION_ID, span.text(agent.session))
        out.text(genai.USER_ID, next((found for name in user if (found := span.text(name))), None))
        derive(span.name.removeprefix(agent.events), span, out)

    return Dialect(name=agent.events.removesuffix("."), fits=fits, derive=derive_record)


def _read_prompt(span: SpanRecord, out: AttributeWriter) -> None:
    """Write a person's prompt to the agent; without its text if the agent must not log it."""
    out.text(genai.ENTRY_KIND, genai.ENTRY_PROMPT)
    _read_text(genai.INPUT_MESSAGES, "user", span.text("prompt"), out)


def _read_text(name: str, role: str, text: str | None, out: AttributeWriter) -> None:
    """Write a message of this text, if the agent logged it."""
    if text and text not in _HIDDEN:
        out.messages(name, [read_message({"role": role, "content": text})])


def _read_request(span: SpanRecord, out: AttributeWriter) -> None:
    """Write the request. This record is not a call: that of the answer, or of the failure, is."""
    out.text(genai.REQUEST_MODEL, span.text("model"))


def _read_call(span: SpanRecord, operation: str, out: AttributeWriter) -> None:
    """Write the fields that an answer and a failure share."""
    out.text(genai.OPERATION_NAME, operation)
    _read_request(span, out)
    out.integer(genai.HTTP_RESPONSE_STATUS_CODE, _count_of(span, "status_code"))


def _read_tool(span: SpanRecord, out: AttributeWriter, *, name: str, call: str = "", arguments: str) -> None:
    """Write a tool call; the parameters name attributes."""
    out.text(genai.OPERATION_NAME, genai.OP_EXECUTE_TOOL)
    out.text(genai.TOOL_NAME, span.text(name))
    out.text(genai.TOOL_CALL_ID, span.text(call))
    out.text(genai.TOOL_CALL_ARGUMENTS, span.text(arguments))


def _count_of(span: SpanRecord, name: str) -> int | None:
    """Return a whole number, which some versions write as text."""
    found = number(span.attributes.get(name))
    return None if found is None else int(found)


# -- Claude Code ---------------------------------------------------------------------------------------------------------
_CLAUDE_INPUT: Final = ("input_tokens", "cache_read_tokens", "cache_creation_tokens")


def _claude_code(event: str, span: SpanRecord, out: AttributeWriter) -> None:
    match event:
        case "user_prompt":
            _read_prompt(span, out)
        case "api_request" | "api_error":
            _read_call(span, genai.OP_CHAT, out)
            out.text(genai.PROVIDER_NAME, "anthropic")
            out.text(genai.RESPONSE_ID, span.text("request_id"))
            out.text(genai.AGENT_NAME, span.text("agent.name"))
            counts = [count for name in _CLAUDE_INPUT if (count := _count_of(span, name)) is not None]
            out.integer(genai.USAGE_INPUT_TOKENS, sum(counts) if counts else None)
            out.integer(genai.USAGE_OUTPUT_TOKENS, _count_of(span, "output_tokens"))
            out.integer(genai.USAGE_CACHE_READ_TOKENS, _count_of(span, "cache_read_tokens"))
            out.integer(genai.USAGE_CACHE_WRITE_TOKENS, _count_of(span, "cache_creation_tokens"))
            out.double(genai.USAGE_COST_USD, number(span.attributes.get("cost_usd")))
        case "assistant_response":
            out.text(genai.RESPONSE_ID, span.text("request_id"))
            _read_text(genai.OUTPUT_MESSAGES, "assistant", span.text("response"), out)
        case "tool_result":
            details = "tool_input" if span.text("tool_input") else "tool_parameters"
            _read_tool(span, out, name="tool_name", call="tool_use_id", arguments=details)
            out.text(genai.ERROR_TYPE, span.text("error_type"))
        case "tool_decision" if span.text("decision") == "reject":
            # The tool did not run, so no result follows.
            _read_tool(span, out, name="tool_name", call="tool_use_id", arguments="tool_parameters")
            out.text(genai.ERROR_TYPE, "rejected")
        case _:
            pass


# -- Codex CLI -----------------------------------------------------------------------------------------------------------
_CODEX_COUNTS: Final = (
    ("input_token_count", genai.USAGE_INPUT_TOKENS),
    ("output_token_count", genai.USAGE_OUTPUT_TOKENS),
    ("cached_token_count", genai.USAGE_CACHE_READ_TOKENS),
    ("cache_write_token_count", genai.USAGE_CACHE_WRITE_TOKENS),
    ("reasoning_token_count", genai.USAGE_REASONING_TOKENS),
)
_OF_A_MODEL: Final = ("responses", "completions", "unknown")
"""Part of a model request's endpoint, to exclude others such as the list of models. Older versions record no endpoint."""


def _codex(event: str, span: SpanRecord, out: AttributeWriter) -> None:
    endpoint = span.text("endpoint")
    match event:
        case "user_prompt":
            _read_prompt(span, out)
        case "api_request" | "websocket_request" if endpoint is None or any(word in endpoint for word in _OF_A_MODEL):
            if span.status_code is StatusCode.ERROR:
                _read_call(span, genai.OP_CHAT, out)
            else:
                _read_request(span, out)
        case "sse_event" if span.text("event.kind") == "response.completed":
            # Also written if the stream broke, then with the error in place of tokens.
            _read_call(span, genai.OP_CHAT, out)
            for name, counted in _CODEX_COUNTS:
                out.integer(counted, _count_of(span, name))
        case "tool_result":
            _read_tool(span, out, name="tool_name", call="call_id", arguments="arguments")
            out.text(genai.TOOL_CALL_RESULT, span.text("output"))
        case _:
            pass


# -- Gemini CLI ----------------------------------------------------------------------------------------------------------
_GEMINI_COUNTS: Final = (
    ("input_token_count", "promptTokenCount"),
    ("output_token_count", "candidatesTokenCount"),
    ("cached_content_token_count", "cachedContentTokenCount"),
    ("thoughts_token_count", "thoughtsTokenCount"),
    ("tool_token_count", "toolUsePromptTokenCount"),
)


def _gemini_cli(event: str, span: SpanRecord, out: AttributeWriter) -> None:
    match event:
        case "user_prompt":
            _read_prompt(span, out)
        case "api_request":
            _read_request(span, out)
            gemini.read_request({"contents": json_of(span, "request_text")}, out)
        case "api_error":
            _read_call(span, genai.OP_GENERATE_CONTENT, out)
        case "api_response":
            _read_call(span, genai.OP_GENERATE_CONTENT, out)
            out.texts(genai.RESPONSE_FINISH_REASONS, plain(span.attributes.get("finish_reasons")))
            out.usage({google: _count_of(span, name) for name, google in _GEMINI_COUNTS}, gemini.COUNTS)
            answer = json_of(span, "response_text")
            chunks = as_objects(answer if isinstance(answer, list) else [answer])
            gemini.read_response(assemble([Frame(value=chunk) for chunk in chunks]), out)
            out.text(genai.RESPONSE_MODEL, span.text("model"))
        case "tool_call":
            _read_tool(span, out, name="function_name", arguments="function_args")
        case _:
            pass


DIALECTS: Final = (
    _session_dialect(CLAUDE_CODE, derive=_claude_code, user=("user.email", "user.account_id", "user.account_uuid")),
    _session_dialect(CODEX, derive=_codex, user=("user.email", "user.account_id")),
    _session_dialect(GEMINI_CLI, derive=_gemini_cli, user=("user.email", "installation.id")),
)
