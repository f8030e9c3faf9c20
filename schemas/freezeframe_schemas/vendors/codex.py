"""Codex CLI: its log events. A request and its answer are two records without a common id, which `store.calls` joins.

Source: https://github.com/openai/codex, codex-rs/otel/src/events, and what version 0.169.0 sent
"""

from __future__ import annotations

from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.coding_agents import CODEX
from freezeframe_schemas.span import SpanRecord, StatusCode
from freezeframe_schemas.vendors.session_records import (
    count_of,
    read_call,
    read_prompt,
    read_request,
    read_tool,
    session_dialect,
)
from freezeframe_schemas.wire.attributes import AttributeWriter

_COUNTS: Final = (
    ("input_token_count", genai.USAGE_INPUT_TOKENS),
    ("output_token_count", genai.USAGE_OUTPUT_TOKENS),
    ("cached_token_count", genai.USAGE_CACHE_READ_TOKENS),
    ("cache_write_token_count", genai.USAGE_CACHE_WRITE_TOKENS),
    ("reasoning_token_count", genai.USAGE_REASONING_TOKENS),
)
_OF_A_MODEL: Final = ("responses", "completions", "unknown")
"""In the endpoint of a request to a model; there are others, as for the list of models. Older versions do not name it."""


def _derive(event: str, span: SpanRecord, out: AttributeWriter) -> None:
    endpoint = span.text("endpoint")
    match event:
        case "user_prompt":
            read_prompt(span, out)
        case "api_request" | "websocket_request" if endpoint is None or any(word in endpoint for word in _OF_A_MODEL):
            if span.status_code is StatusCode.ERROR:
                read_call(span, genai.OP_CHAT, out)
            else:
                read_request(span, out)
        case "sse_event" if span.text("event.kind") == "response.completed":
            # Also written if the stream broke, then with the error in place of tokens.
            read_call(span, genai.OP_CHAT, out)
            for name, counted in _COUNTS:
                out.integer(counted, count_of(span, name))
        case "tool_result":
            read_tool(span, out, name="tool_name", call="call_id", arguments="arguments")
            out.text(genai.TOOL_CALL_RESULT, span.text("output"))
        case _:
            pass


DIALECT: Final = session_dialect(CODEX, derive=_derive, user=("user.email", "user.account_id"))
