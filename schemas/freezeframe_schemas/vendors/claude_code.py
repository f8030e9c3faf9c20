"""Claude Code: its log events. It writes input tokens as Anthropic counts them, without what came from the cache.

Written from its documentation (as it names version 2.1.199), not from recorded traffic.

Source: https://code.claude.com/docs/en/monitoring-usage
"""

from __future__ import annotations

from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.coding_agents import CLAUDE_CODE
from freezeframe_schemas.otlp.sessions import number
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.vendors.session_records import (
    count_of,
    read_call,
    read_prompt,
    read_text,
    read_tool,
    session_dialect,
)
from freezeframe_schemas.wire.attributes import AttributeWriter

_INPUT: Final = ("input_tokens", "cache_read_tokens", "cache_creation_tokens")


def _derive(event: str, span: SpanRecord, out: AttributeWriter) -> None:
    match event:
        case "user_prompt":
            read_prompt(span, out)
        case "api_request" | "api_error":
            read_call(span, genai.OP_CHAT, out)
            out.text(genai.PROVIDER_NAME, "anthropic")
            out.text(genai.RESPONSE_ID, span.text("request_id"))
            out.text(genai.AGENT_NAME, span.text("agent.name"))
            counts = [count for name in _INPUT if (count := count_of(span, name)) is not None]
            out.integer(genai.USAGE_INPUT_TOKENS, sum(counts) if counts else None)
            out.integer(genai.USAGE_OUTPUT_TOKENS, count_of(span, "output_tokens"))
            out.integer(genai.USAGE_CACHE_READ_TOKENS, count_of(span, "cache_read_tokens"))
            out.integer(genai.USAGE_CACHE_WRITE_TOKENS, count_of(span, "cache_creation_tokens"))
            out.double(genai.USAGE_COST_USD, number(span.attributes.get("cost_usd")))
        case "assistant_response":
            out.text(genai.RESPONSE_ID, span.text("request_id"))
            read_text(genai.OUTPUT_MESSAGES, "assistant", span.text("response"), out)
        case "tool_result":
            details = "tool_input" if span.text("tool_input") else "tool_parameters"
            read_tool(span, out, name="tool_name", call="tool_use_id", arguments=details)
            out.text(genai.ERROR_TYPE, span.text("error_type"))
        case "tool_decision" if span.text("decision") == "reject":
            # The tool did not run, so no result follows.
            read_tool(span, out, name="tool_name", call="tool_use_id", arguments="tool_parameters")
            out.text(genai.ERROR_TYPE, "rejected")
        case _:
            pass


DIALECT: Final = session_dialect(CLAUDE_CODE, derive=_derive, user=("user.email", "user.account_id", "user.account_uuid"))
