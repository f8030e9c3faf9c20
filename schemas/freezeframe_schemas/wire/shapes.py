"""The required form of a request body if its path alone does not show a model call: ``/embeddings`` on any host.

Strict, since other services also use these paths: the fields that the provider's API requires, with their types, and no field
that neither the API nor a gateway in front of it knows. A streamed request body has no shape.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from freezeframe_schemas.wire.document import JsonObject, JsonValue

_GATEWAY: Final = frozenset(
    "api_base api_key api_version base_url cache caching custom_llm_provider drop_params extra_body extra_headers fallbacks "
    "guardrails input_cost_per_token litellm_metadata litellm_params metadata mock_response num_retries output_cost_per_token "
    "priority provider providers route session_id tags timeout trace transforms user".split()
)
"""Fields that LiteLLM and OpenRouter accept besides those of the API."""
_SAMPLING: Final = frozenset(
    "best_of echo frequency_penalty guided_choice guided_grammar guided_json guided_regex ignore_eos logit_bias logprobs "
    "max_tokens min_p min_tokens model n presence_penalty repetition_penalty seed stop stop_token_ids stream stream_options "
    "temperature top_k top_p".split()
)
_COMPLETIONS: Final = _GATEWAY | _SAMPLING | {"prompt", "suffix"}
_EMBEDDINGS: Final = _GATEWAY | frozenset(
    "dimensions encoding_format input input_type modality model output_dimension output_dtype task truncate truncation".split()
)
_RESPONSES: Final = (
    _GATEWAY
    | _SAMPLING
    | frozenset(
        "background context_management conversation include input instructions max_output_tokens max_tool_calls "
        "parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_retention reasoning safety_identifier "
        "service_tier store text tool_choice tools top_logprobs truncation verbosity".split()
    )
)
_SPEECH: Final = _GATEWAY | frozenset("input instructions model response_format speed stream_format voice".split())
_IMAGES: Final = _GATEWAY | frozenset(
    "background model moderation n output_compression output_format partial_images prompt quality response_format size stream "
    "style".split()
)
_RERANK: Final = _GATEWAY | frozenset(
    "documents max_chunks_per_doc max_tokens_per_doc model query rank_fields return_documents top_k top_n truncation".split()
)
_ROLES: Final = frozenset({"assistant", "developer", "function", "system", "tool", "user"})


def is_embeddings(body: JsonObject) -> bool:
    """OpenAI ``embeddings``: a model, and a text, texts or tokens."""
    return _is_only(body, _EMBEDDINGS) and _is_text(body.get("model")) and _is_input(body.get("input"))


def is_completion(body: JsonObject) -> bool:
    """OpenAI ``completions``: a model and a prompt."""
    return _is_only(body, _COMPLETIONS) and _is_text(body.get("model")) and _is_input(body.get("prompt"))


def is_response(body: JsonObject) -> bool:
    """OpenAI ``responses``: a model, and a text or items that are messages or have a type."""
    inputs = body.get("input")
    items = (
        isinstance(inputs, list)
        and bool(inputs)
        and all(isinstance(item, dict) and {"role", "type"} & set(item) for item in inputs)
    )
    return _is_only(body, _RESPONSES) and _is_text(body.get("model")) and (_is_text(inputs) or items)


def is_message(body: JsonObject) -> bool:
    """Anthropic ``messages``: a model, a limit (which Anthropic requires), and turns with a role and content."""
    limit, turns = body.get("max_tokens"), body.get("messages")
    return (
        _is_text(body.get("model"))
        and isinstance(limit, int)
        and not isinstance(limit, bool)
        and isinstance(turns, list)
        and bool(turns)
        and all(isinstance(turn, dict) and turn.get("role") in _ROLES and "content" in turn for turn in turns)
    )


def is_speech(body: JsonObject) -> bool:
    """OpenAI ``audio/speech``: a model, a text and a voice."""
    return _is_only(body, _SPEECH) and _is_text(body.get("model")) and _is_text(body.get("input")) and "voice" in body


def is_image(body: JsonObject) -> bool:
    """OpenAI ``images/generations``: a model and a prompt."""
    return _is_only(body, _IMAGES) and _is_text(body.get("model")) and _is_text(body.get("prompt"))


def is_rerank(body: JsonObject) -> bool:
    """``rerank`` of Cohere, Jina and others: a model, a query and documents."""
    documents = body.get("documents")
    return (
        _is_only(body, _RERANK)
        and _is_text(body.get("model"))
        and _is_text(body.get("query"))
        and bool(documents)
        and isinstance(documents, list)
    )


def _is_only(body: JsonObject, known: Iterable[str]) -> bool:
    return body.keys() <= set(known)


def _is_text(value: JsonValue) -> bool:
    return isinstance(value, str) and bool(value)


def _is_input(value: JsonValue) -> bool:
    """Return whether this is text, texts, tokens, or several of tokens; or objects of text and images (Jina, Voyage)."""
    if isinstance(value, str):
        return True
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(item, str | list | dict) for item in value) or all(
        isinstance(item, int) and not isinstance(item, bool) for item in value
    )
