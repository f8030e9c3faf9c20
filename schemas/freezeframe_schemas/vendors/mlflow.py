"""MLflow Tracing: every attribute a JSON text; the request and the answer of a call whole, in the provider's own form.

Source: https://github.com/mlflow/mlflow, mlflow/tracing/constant.py (``SpanAttributeKey``) and the autologging of each provider
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.vendors.dialect import Dialect, json_of, operation_of
from freezeframe_schemas.vendors.genai_history import provider_of
from freezeframe_schemas.wire import anthropic_messages, bedrock_converse, gemini, openai_chat, openai_responses
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_text, dump
from freezeframe_schemas.wire.messages import Message, TextPart

_TYPE: Final = "mlflow.spanType"
_INPUTS: Final = "mlflow.spanInputs"
_OUTPUTS: Final = "mlflow.spanOutputs"
_Reader = Callable[[JsonObject, AttributeWriter], None]
_READERS: Final[dict[str, tuple[_Reader, _Reader]]] = {
    "anthropic": (anthropic_messages.read_request, anthropic_messages.read_response),
    "bedrock": (bedrock_converse.read_request, bedrock_converse.read_response),
    "gemini": (gemini.read_request, gemini.read_response),
}
_CHAT: Final = (openai_chat.read_request, openai_chat.read_response)
_RESPONSES: Final = (openai_responses.read_request, openai_responses.read_response)


def _fits(span: SpanRecord) -> bool:
    return _TYPE in span.attributes or _INPUTS in span.attributes


def _derive(span: SpanRecord, out: AttributeWriter) -> None:
    kind = as_text(json_of(span, _TYPE)) or ""
    operation = operation_of(kind)
    out.text(genai.OPERATION_NAME, operation)
    inputs, outputs = json_of(span, _INPUTS), json_of(span, _OUTPUTS)
    match operation:
        case genai.OP_CHAT:
            _call(span, as_object(inputs), outputs, out)
        case genai.OP_EXECUTE_TOOL:
            out.text(genai.TOOL_NAME, as_text(json_of(span, "mlflow.spanFunctionName")) or span.name)
            out.text(genai.TOOL_CALL_ARGUMENTS, span.text(_INPUTS))
            out.text(genai.TOOL_CALL_RESULT, outputs if isinstance(outputs, str) else span.text(_OUTPUTS))
        case genai.OP_INVOKE_AGENT:
            out.text(genai.AGENT_NAME, span.name)
            out.messages(genai.INPUT_MESSAGES, _messages_of("user", inputs))
            out.messages(genai.OUTPUT_MESSAGES, _messages_of("assistant", outputs))
        case _:
            pass
    usage = as_object(json_of(span, "mlflow.chat.tokenUsage"))
    for name, attribute in _USAGE:
        if attribute not in out.attributes:
            out.integer(attribute, usage.get(name))


_USAGE: Final = (
    ("input_tokens", genai.USAGE_INPUT_TOKENS),
    ("output_tokens", genai.USAGE_OUTPUT_TOKENS),
    ("cache_read_input_tokens", genai.USAGE_CACHE_READ_TOKENS),
    ("cache_creation_input_tokens", genai.USAGE_CACHE_WRITE_TOKENS),
)


def _call(span: SpanRecord, request: JsonObject, answer: JsonValue, out: AttributeWriter) -> None:
    form = as_text(json_of(span, "mlflow.message.format")) or ""
    read_request, read_response = _READERS.get(form) or (_RESPONSES if "input" in request else _CHAT)
    out.text(genai.PROVIDER_NAME, provider_of(as_text(json_of(span, "mlflow.llm.provider")) or _provider_named_by(form)))
    out.text(genai.REQUEST_MODEL, as_text(request.get("model")) or as_text(json_of(span, "model")))
    read_request(request, out)
    response = as_object(answer)
    out.text(genai.RESPONSE_MODEL, response.get("model") or json_of(span, "mlflow.llm.model"))
    out.text(genai.RESPONSE_ID, response.get("id"))
    read_response(response, out)


def _provider_named_by(form: str) -> str | None:
    return form if form in _READERS or form == "openai" else None


def _messages_of(role: str, value: JsonValue) -> list[Message]:
    if value is None:
        return []
    text = value if isinstance(value, str) else dump(value)
    return [Message(role=role, parts=(TextPart(content=text),))]


DIALECT: Final = Dialect(name="mlflow", fits=_fits, derive=_derive)
