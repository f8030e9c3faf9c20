"""URLs for calls recorded without one, by the form of request and answer."""

from __future__ import annotations

from typing import Final

from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_text
from freezeframe_schemas.wire.registry import find_provider

_OPENAI, _ANTHROPIC, _GEMINI = (find_provider(name).origin for name in ("openai", "anthropic", "gcp.gemini"))
ANTHROPIC_MESSAGES: Final = f"{_ANTHROPIC}/v1/messages"
_BY_ANSWER: Final = {
    "chat.completion": f"{_OPENAI}/v1/chat/completions",
    "text_completion": f"{_OPENAI}/v1/completions",
    "response": f"{_OPENAI}/v1/responses",
    "list": f"{_OPENAI}/v1/embeddings",
    "message": ANTHROPIC_MESSAGES,
}
"""An answer's own type name -> the API's URL."""


def usual_url(request: JsonObject, answer: JsonValue) -> str:
    """Return the usual URL of a request without one; any text is taken for an answer."""
    answered = as_object(answer)
    known = _BY_ANSWER.get(str(answered.get("object") or answered.get("type")))
    if known is not None:
        return known
    if "contents" in request or "candidates" in answered:
        model = as_text(request.get("model")) or as_text(answered.get("modelVersion")) or "unknown"
        return f"{_GEMINI}/v1beta/models/{model.removeprefix('models/')}:generateContent"
    if "input" in request:
        return _BY_ANSWER["response"]
    is_anthropic = "max_tokens" in request and "system" in request
    return ANTHROPIC_MESSAGES if is_anthropic else _BY_ANSWER["chat.completion"]


def openai_url(path: str) -> str:
    """Return the URL of a path that OpenAI's batches and stored answers name."""
    return f"{_OPENAI}{path}"


def bedrock_url(region: str, model: str, *, converse: bool) -> str:
    """Return the URL of an invocation that Bedrock logged."""
    host = f"bedrock-runtime.{region}.amazonaws.com"
    return f"https://{host}/model/{model.rpartition('/')[2]}/{'converse' if converse else 'invoke'}"
