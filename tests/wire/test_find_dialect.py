"""Which dialect and provider a request is taken for, by method and URL."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_schemas import genai
from freezeframe_schemas.wire import find_dialect

AZURE = "https://acme.openai.azure.com/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21"
VERTEX = "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers"
BEDROCK = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/us.anthropic.claude-haiku-4-5-20251001-v1%3A0"

KNOWN = [
    ("https://api.openai.com/v1/chat/completions", "openai.chat", "openai"),
    ("https://eu.api.openai.com/v1/responses", "openai.responses", "openai"),
    (AZURE, "openai.chat", "azure.ai.openai"),
    ("https://acme.openai.azure.com/openai/v1/responses", "openai.responses", "azure.ai.openai"),
    ("https://acme.openai.azure.com/openai/responses?api-version=x", "openai.responses", "azure.ai.openai"),
    ("https://acme.services.ai.azure.com/models/chat/completions", "openai.chat", "azure.ai.inference"),
    ("https://api.anthropic.com/v1/messages?beta=true", "anthropic.messages", "anthropic"),
    ("https://api.groq.com/openai/v1/chat/completions", "openai.chat", "groq"),
    ("https://api.mistral.ai/v1/chat/completions", "openai.chat", "mistral_ai"),
    ("https://api.x.ai/v1/chat/completions", "openai.chat", "x_ai"),
    ("https://api.deepseek.com/chat/completions", "openai.chat", "deepseek"),
    ("https://openrouter.ai/api/v1/chat/completions", "openai.chat", "openrouter"),
    ("https://api.perplexity.ai/chat/completions", "openai.chat", "perplexity"),
    ("https://api.cohere.com/v2/chat", "cohere.chat", "cohere"),
    ("https://api.cohere.ai/v1/chat", "cohere.chat_v1", "cohere"),
    ("http://localhost:11434/api/chat", "ollama.chat", "ollama"),
    ("http://localhost:11434/v1/chat/completions", "openai.chat", "ollama"),
    (f"{VERTEX}/google/models/gemini-2.5-pro:streamGenerateContent", "gemini.generate_content", "gcp.vertex_ai"),
    (f"{VERTEX}/anthropic/models/claude-x:streamRawPredict", "anthropic.messages", "gcp.vertex_ai"),
    (f"{VERTEX}/google/models/text-embedding-005:predict", "gemini.embeddings", "gcp.vertex_ai"),
    (f"{BEDROCK}/converse", "bedrock.converse", "aws.bedrock"),
    (f"{BEDROCK}/invoke-with-response-stream", "bedrock.invoke", "aws.bedrock"),
    ("https://chatgpt.com/backend-api/codex/responses", "openai.responses", "openai"),
    ("https://gateway.ai.cloudflare.com/v1/a/g/anthropic/v1/messages", "anthropic.messages", "cloudflare_ai_gateway"),
    # A proxy or a local server is known by its path; the provider is then a guess from the dialect.
    ("http://127.0.0.1:8080/v1/chat/completions", "openai.chat", "openai"),
    ("http://litellm.internal:4000/v1/messages", "anthropic.messages", "anthropic"),
    ("http://[::1]:9000/v1/embeddings/", "openai.embeddings", "openai"),
    # A known provider with a path that no dialect reads.
    ("https://api.openai.com/v1/threads/t/messages", "generic", "openai"),
    ("https://api.anthropic.com/v1/messages/count_tokens", "generic", "anthropic"),
]


@pytest.mark.parametrize(("url", "dialect", "provider"), KNOWN, ids=[row[0] for row in KNOWN])
def test_a_request_is_known_by_its_url(url: str, dialect: str, provider: str) -> None:
    """POST to `url` speaks `dialect` and belongs to `provider`."""
    match = find_dialect("post", url)
    assert match is not None
    assert (match.dialect.name, match.provider) == (dialect, provider)


@pytest.mark.parametrize(
    "url",
    [
        "https://pricing.example.com/v1/prices",
        "https://example.com/api/chat",  # an application's own; Ollama's is known by host or port
        "https://example.com/v1/chat",
        "https://notapi.openai.com.evil.example/v1/files",
        "not a url",
        "http://[broken/v1/chat/completions",
        "",
    ],
)
def test_other_requests_are_no_model_calls(url: str) -> None:
    """Nothing is recorded as a model call by accident."""
    assert find_dialect("POST", url) is None


def test_reading_from_a_proxy_is_no_model_call_and_from_a_provider_is_generic() -> None:
    """A GET of the path says nothing on an unknown host; on a provider's it is still an exchange with it."""
    assert find_dialect("GET", "http://127.0.0.1:8080/v1/chat/completions") is None
    match = find_dialect("GET", "https://api.openai.com/v1/chat/completions")
    assert match is not None
    assert match.dialect.name == "generic"


def test_what_the_url_says_is_part_of_the_request_attributes() -> None:
    """Model and streaming are in the URL of Azure, Gemini and Bedrock."""
    azure, gemini, bedrock = (
        find_dialect("POST", url)
        for url in (AZURE, f"{VERTEX}/google/models/gemini-2.5-pro:streamGenerateContent", f"{BEDROCK}/converse")
    )
    assert azure is not None
    assert gemini is not None
    assert bedrock is not None
    assert azure.dialect.request_attributes(b"{}")[genai.REQUEST_MODEL] == "my gpt"
    attributes = gemini.dialect.request_attributes(b"{}")
    assert (attributes[genai.REQUEST_MODEL], attributes[genai.REQUEST_STREAM]) == ("gemini-2.5-pro", True)
    model = bedrock.dialect.request_attributes(b"{}")[genai.REQUEST_MODEL]
    assert model == "us.anthropic.claude-haiku-4-5-20251001-v1:0"


@given(method=st.text(max_size=8), url=st.text(max_size=60))
def test_no_url_raises(method: str, url: str) -> None:
    """Whatever an application asks for."""
    find_dialect(method, url)
    find_dialect("POST", "http://" + url)


# -- paths that any service may have ------------------------------------------------------------------------------------

JSON = (("content-type", "application/json"),)
GATEWAY = "http://litellm.internal:4000"

BY_BODY: list[tuple[str, object, str, str]] = [
    ("/embeddings", {"model": "m", "input": "a"}, "openai.embeddings", "openai"),
    (
        "/embeddings",
        {"model": "m", "input": ["a", "b"], "encoding_format": "base64", "user": "u"},
        "openai.embeddings",
        "openai",
    ),
    ("/embeddings", {"model": "m", "input": [[1, 2], [3]], "litellm_metadata": {}}, "openai.embeddings", "openai"),
    ("/embeddings", {"model": "m", "input": [1, 2]}, "openai.embeddings", "openai"),
    ("/responses", {"model": "m", "input": "a", "stream": True}, "openai.responses", "openai"),
    ("/gw/responses", {"model": "m", "input": [{"role": "user", "content": "a"}], "tools": []}, "openai.responses", "openai"),
    ("/responses", {"model": "m", "input": [{"type": "function_call_output", "output": "1"}]}, "openai.responses", "openai"),
    ("/completions", {"model": "m", "prompt": "a", "max_tokens": 5}, "openai.completions", "openai"),
    ("/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "a"}]}, "openai.chat", "openai"),
    (
        "/messages",
        {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "a"}], "thinking": {}},
        "anthropic.messages",
        "anthropic",
    ),
    ("/audio/speech", {"model": "m", "input": "a", "voice": "alloy"}, "generic", "openai"),
    ("/v1/images/generations", {"model": "m", "prompt": "a"}, "generic", "openai"),
    ("/v2/rerank", {"model": "m", "query": "a", "documents": ["b"], "top_n": 1}, "generic", "unknown"),
]


@pytest.mark.parametrize(("path", "body", "dialect", "provider"), BY_BODY)
def test_a_model_call_at_a_gateway_without_a_version_is_known_by_its_body(
    path: str, body: object, dialect: str, provider: str
) -> None:
    match = find_dialect("POST", GATEWAY + path, JSON, json.dumps(body).encode())
    assert match is not None
    assert (match.dialect.name, match.provider) == (dialect, provider)
    packed = find_dialect(
        "POST", GATEWAY + path, (*JSON, ("content-encoding", "gzip")), gzip.compress(json.dumps(body).encode())
    )
    assert packed == match


LOOKALIKES: list[tuple[str, object]] = [
    ("/embeddings", {"input": "a"}),  # whose model?
    ("/embeddings", {"id": "doc-1", "model": "m", "input": "a", "embedding": [0.1, 0.2]}),  # a vector that is stored
    ("/embeddings", {"model": "m", "input": "a", "collection": "orders"}),
    ("/embeddings", {"model": {"name": "m"}, "input": "a"}),
    ("/embeddings", {"model": "m", "input": [True, False]}),
    ("/responses", {"survey": 7, "responses": [{"question": 1, "answer": "yes"}]}),
    ("/responses", {"model": "Tesla 3", "input": "keyboard", "device_id": "d-1"}),
    ("/responses", {"model": "m", "input": [{"question": 1}]}),
    ("/responses", {"model": "m"}),
    ("/completions", {"course": "c-1", "user": "u-1", "completed": True}),
    ("/completions", {"model": "m", "prompt": "a", "completion": "b", "latency_ms": 3}),  # a log of one
    ("/messages", {"to": "+15550100", "body": "hello"}),
    ("/messages", {"channel": "general", "messages": [{"role": "user", "content": "hello"}]}),
    ("/messages", {"model": "m", "messages": [{"role": "user", "content": "a"}]}),  # without Anthropic's limit
    ("/messages", {"model": "m", "max_tokens": True, "messages": [{"role": "user", "content": "a"}]}),
    ("/messages", {"model": "m", "max_tokens": 5, "messages": []}),
    ("/audio/speech", {"model": "m", "input": "a"}),
    ("/images/generations", {"model": "m", "prompt": "a", "gallery": "g-1"}),
    ("/rerank", {"query": "a", "documents": ["b"]}),
    ("/audio/transcriptions", {"model": "m", "text": "what was said"}),  # not a form
    ("/conversations", {"model": "m", "messages": [{"role": "user", "content": "a"}]}),  # a path of no provider
]


@pytest.mark.parametrize(("path", "body"), LOOKALIKES)
def test_a_request_of_another_service_is_no_model_call(path: str, body: object) -> None:
    for text in (json.dumps(body), json.dumps([body]), "model=m&input=a", '{"model": "m", "input"', ""):
        assert find_dialect("POST", f"https://api.example.com{path}", JSON, text.encode()) is None


def test_a_transcription_is_known_by_its_form() -> None:
    form = (("content-type", "multipart/form-data; boundary=x"),)
    match = find_dialect("POST", f"{GATEWAY}/audio/transcriptions", form)
    assert match is not None
    assert (match.dialect.name, match.provider) == ("generic", "openai")
    assert find_dialect("GET", f"{GATEWAY}/audio/transcriptions", form) is None


@given(
    body=st.binary(max_size=80)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_no_body_raises(body: bytes) -> None:
    for path in ("/embeddings", "/responses", "/completions", "/messages", "/rerank"):
        find_dialect("POST", GATEWAY + path, JSON, body)
