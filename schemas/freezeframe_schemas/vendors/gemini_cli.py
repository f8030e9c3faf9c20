"""Gemini CLI: its log events. Requests and answers are Gemini's own JSON, if it is to log prompts, which is its default.

Source: https://github.com/google-gemini/gemini-cli, packages/core/src/telemetry/types.ts, and what version 0.61.0 sent
"""

from __future__ import annotations

from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.coding_agents import GEMINI_CLI
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.vendors.dialect import json_of, plain
from freezeframe_schemas.vendors.session_records import (
    count_of,
    read_call,
    read_prompt,
    read_request,
    read_tool,
    session_dialect,
)
from freezeframe_schemas.wire import gemini
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import as_objects
from freezeframe_schemas.wire.frames import Frame
from freezeframe_schemas.wire.gemini_stream import assemble

_COUNTS: Final = (
    ("input_token_count", "promptTokenCount"),
    ("output_token_count", "candidatesTokenCount"),
    ("cached_content_token_count", "cachedContentTokenCount"),
    ("thoughts_token_count", "thoughtsTokenCount"),
    ("tool_token_count", "toolUsePromptTokenCount"),
)


def _derive(event: str, span: SpanRecord, out: AttributeWriter) -> None:
    match event:
        case "user_prompt":
            read_prompt(span, out)
        case "api_request":
            read_request(span, out)
            gemini.read_request({"contents": json_of(span, "request_text")}, out)
        case "api_error":
            read_call(span, genai.OP_GENERATE_CONTENT, out)
        case "api_response":
            read_call(span, genai.OP_GENERATE_CONTENT, out)
            out.texts(genai.RESPONSE_FINISH_REASONS, plain(span.attributes.get("finish_reasons")))
            out.usage({google: count_of(span, name) for name, google in _COUNTS}, gemini.COUNTS)
            answer = json_of(span, "response_text")
            chunks = as_objects(answer if isinstance(answer, list) else [answer])
            gemini.read_response(assemble([Frame(value=chunk) for chunk in chunks]), out)
            out.text(genai.RESPONSE_MODEL, span.text("model"))
        case "tool_call":
            read_tool(span, out, name="function_name", arguments="function_args")
        case _:
            pass


DIALECT: Final = session_dialect(GEMINI_CLI, derive=_derive, user=("user.email", "installation.id"))
