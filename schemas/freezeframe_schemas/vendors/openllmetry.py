"""OpenLLMetry (Traceloop), now and 0.40: ``traceloop.*`` on workflows, tasks and tools, ``llm.*`` leftovers on calls.

Its calls' messages are the conventions' own today and ``gen_ai.prompt.N`` before; both are `genai_history`'s to read.

Source: https://github.com/traceloop/openllmetry, opentelemetry-semantic-conventions-ai
"""

from __future__ import annotations

from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.vendors.dialect import Dialect, indexed, json_of, operation_of, text_or_json
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_text

_KIND: Final = "traceloop.span.kind"
_REQUEST_TYPE: Final = "llm.request.type"
_ENTITY: Final = "traceloop.entity.name"
_REQUESTS: Final = {
    "chat": genai.OP_CHAT,
    "completion": genai.OP_TEXT_COMPLETION,
    "embedding": genai.OP_EMBEDDINGS,
    "rerank": genai.OP_RETRIEVAL,
    # LiteLLM's functions, which its proxy calls
    "acompletion": genai.OP_CHAT,
    "aresponses": genai.OP_CHAT,
    "anthropic_messages": genai.OP_CHAT,
    "aembedding": genai.OP_EMBEDDINGS,
}
_EVIDENCE: Final = frozenset({_KIND, _REQUEST_TYPE, "traceloop.workflow.name", "llm.usage.total_tokens"})


def _fits(span: SpanRecord) -> bool:
    return not _EVIDENCE.isdisjoint(span.attributes)


def _derive(span: SpanRecord, out: AttributeWriter) -> None:
    kind = span.text(_KIND)
    out.text(genai.OPERATION_NAME, operation_of(kind) or _REQUESTS.get(span.text(_REQUEST_TYPE) or ""))
    streaming = span.attributes.get("llm.is_streaming")
    out.flag(genai.REQUEST_STREAM, streaming if isinstance(streaming, bool) else None)
    out.text(genai.WORKFLOW_NAME, span.text("traceloop.workflow.name"))
    match kind:
        case "task" if "raw_output" in (result := as_object(json_of(span, "traceloop.entity.output"))):
            # LlamaIndex's tools are tasks here; what a tool returns names it.
            out.text(genai.OPERATION_NAME, genai.OP_EXECUTE_TOOL)
            out.text(genai.TOOL_NAME, as_text(result.get("tool_name")))
            out.text(genai.TOOL_CALL_ARGUMENTS, span.text("traceloop.entity.input"))
            out.text(genai.TOOL_CALL_RESULT, span.text("traceloop.entity.output"))
        case "tool":
            out.text(genai.TOOL_NAME, span.text(_ENTITY))
            out.text(genai.TOOL_CALL_ARGUMENTS, span.text("traceloop.entity.input"))
            out.text(genai.TOOL_CALL_RESULT, span.text("traceloop.entity.output"))
        case "agent":
            out.text(genai.AGENT_NAME, span.text(_ENTITY))
        case _:
            definitions = [_definition(item) for item in indexed(span.attributes, "llm.request.functions")]
            out.tools(definitions, definitions)


def _definition(item: JsonObject) -> JsonValue:
    return {"type": "function", **item, "parameters": text_or_json(item.get("parameters"))}


DIALECT: Final = Dialect(name="openllmetry", fits=_fits, derive=_derive)
