"""Which dialect and provider a request is taken for, by method and URL."""

from __future__ import annotations

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
    # A known provider with a path that nobody reads here.
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
    """Model and streaming stand in the URL of Azure, Gemini and Bedrock."""
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
