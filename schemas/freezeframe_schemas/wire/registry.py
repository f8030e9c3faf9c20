"""Dialect and provider of an HTTP request: the two tables to which a new provider adds a row.

`ROUTES` map a path to its dialect; `PROVIDERS` map a host to its provider. They are independent: a proxy speaks
a known path on an unknown host (the dialect's own provider is then the guess), and a known provider has paths
that we do not read (``generic``). A path that other services also have decides only together with the body
(`shapes`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final
from urllib.parse import unquote, urlsplit

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.exchange import Request
from freezeframe_schemas.wire import (
    anthropic_messages,
    bedrock_converse,
    bedrock_invoke,
    cohere,
    cohere_v1,
    gemini,
    generic,
    ollama,
    openai_chat,
    openai_completions,
    openai_embeddings,
    openai_responses,
    shapes,
)
from freezeframe_schemas.wire.dialect import WireDialect
from freezeframe_schemas.wire.document import JsonObject, as_object, parse
from freezeframe_schemas.wire.encoding import decode_body

Shape = Callable[[JsonObject], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Dialect of an HTTP request, bound to the facts in its URL, and the provider's name."""

    dialect: WireDialect
    provider: str
    """``gen_ai.provider.name``: the conventions' value if they list one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One row: everything known about a provider besides the formats it speaks."""

    name: str
    """``gen_ai.provider.name``."""
    hosts: str
    """A regular expression on the whole ``host:port``. A group ``region`` is the provider's region."""
    aliases: tuple[str, ...] = ()
    """Its names in tracing libraries, in lower case."""
    key: str = ""
    """Environment variable of its API key, unless it is the name in capitals and ``_API_KEY``."""
    credentials: tuple[str, ...] = ()
    """Environment variables that its SDKs require."""
    bases: tuple[tuple[str, str], ...] = ()
    """Environment variables that point its SDKs to another server, each with the path that the URL in it ends with."""
    origin: str = ""
    """Default address of its SDKs: the URL up to the path."""
    packages: tuple[str, ...] = ()
    """Distributions of its Python SDKs."""

    @property
    def key_variable(self) -> str:
        """Return the environment variable of the API key."""
        return self.key or f"{re.sub(r'[^A-Za-z0-9]', '_', self.name).upper()}_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One row: paths (a regular expression found in the path) that speak a dialect. A group ``model`` binds the model."""

    dialect: WireDialect
    path: str
    providers: frozenset[str] = frozenset()
    """Only on hosts of these providers; empty: on all hosts."""
    stream: bool | None = None
    shape: Shape | None = None
    """The required form of the JSON body; None: the path is enough."""
    form: bool = False
    """The body is a multipart form; its parts are not examined."""


PROVIDERS: Final = (
    Provider(
        name="openai",
        hosts=r"(?:[a-z-]+\.)?api\.openai\.com",
        credentials=("OPENAI_API_KEY",),
        bases=(("OPENAI_BASE_URL", "/v1"), ("OPENAI_API_BASE", "/v1")),
        origin="https://api.openai.com",
        packages=("openai",),
    ),
    Provider(
        name="azure.ai.openai",
        hosts=r".+\.openai\.azure\.(?:com|us|cn)|.+\.cognitiveservices\.azure\.com",
        aliases=("az.ai.openai", "azure"),
        key="AZURE_OPENAI_API_KEY",
    ),
    # Before Azure: its second host is in Azure's domain.
    Provider(name="github_models", hosts=r"models\.github\.ai|models\.inference\.ai\.azure\.com"),
    Provider(
        name="azure.ai.inference",
        hosts=r".+\.(?:inference|services)\.ai\.azure\.com",
        aliases=("az.ai.inference",),
    ),
    Provider(
        name="anthropic",
        hosts=r"api\.anthropic\.com",
        credentials=("ANTHROPIC_API_KEY",),
        bases=(("ANTHROPIC_BASE_URL", ""),),
        origin="https://api.anthropic.com",
        packages=("anthropic",),
    ),
    Provider(
        name="gcp.gemini",
        hosts=r"generativelanguage\.googleapis\.com",
        aliases=("gemini", "google"),
        key="GEMINI_API_KEY",
        credentials=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        bases=(("GOOGLE_GEMINI_BASE_URL", ""),),
        origin="https://generativelanguage.googleapis.com",
        packages=("google-genai",),
    ),
    Provider(
        name="gcp.vertex_ai",
        hosts=r"(?:(?P<region>.+)-)?aiplatform\.googleapis\.com|aiplatform\..+\.rep\.googleapis\.com",
        aliases=("vertex_ai",),
    ),
    Provider(
        name="aws.bedrock",
        hosts=r"bedrock-(?:agent-)?runtime(?:-fips)?\.(?P<region>[a-z0-9-]+)(?:\..+)?\.amazonaws\.com(?:\.cn)?",
        aliases=("bedrock",),
        key="AWS_BEARER_TOKEN_BEDROCK",
        credentials=("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        bases=(("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", ""),),
        packages=("boto3", "botocore"),
    ),
    Provider(
        name="cohere",
        hosts=r"api\.cohere\.(?:ai|com)",
        key="CO_API_KEY",
        credentials=("CO_API_KEY",),
        bases=(("CO_API_URL", ""),),
        origin="https://api.cohere.com",
        packages=("cohere",),
    ),
    Provider(
        name="mistral_ai",
        hosts=r"(?:api|codestral)\.mistral\.ai",
        aliases=("mistralai",),
        key="MISTRAL_API_KEY",
        credentials=("MISTRAL_API_KEY",),
        packages=("mistralai",),
    ),
    Provider(
        name="groq",
        hosts=r"api\.groq\.com",
        credentials=("GROQ_API_KEY",),
        bases=(("GROQ_BASE_URL", ""),),
        origin="https://api.groq.com",
        packages=("groq",),
    ),
    Provider(
        name="x_ai",
        hosts=r"(?:[a-z0-9-]+\.)?api\.x\.ai",
        aliases=("xai",),
        key="XAI_API_KEY",
    ),
    Provider(name="deepseek", hosts=r"api\.deepseek\.com"),
    Provider(name="perplexity", hosts=r"api\.perplexity\.ai"),
    Provider(name="ibm.watsonx.ai", hosts=r".+\.ml\.cloud\.ibm\.com"),
    # The conventions list none of these; the names are the providers' own words for themselves.
    Provider(name="openrouter", hosts=r"openrouter\.ai"),
    Provider(name="together_ai", hosts=r"api\.together\.(?:ai|xyz)"),
    Provider(name="fireworks_ai", hosts=r"api\.fireworks\.ai"),
    Provider(name="cerebras", hosts=r"api\.cerebras\.ai"),
    Provider(name="hugging_face", hosts=r"router\.huggingface\.co|api-inference\.huggingface\.co"),
    Provider(name="vercel_ai_gateway", hosts=r"ai-gateway\.vercel\.sh"),
    Provider(name="writer", hosts=r"api\.writer\.com"),
    Provider(name="z_ai", hosts=r"api\.z\.ai|open\.bigmodel\.cn"),
    Provider(name="moonshot_ai", hosts=r"api\.moonshot\.(?:ai|cn)"),
    Provider(name="ai21", hosts=r"api\.ai21\.com"),
    Provider(name="voyage_ai", hosts=r"api\.voyageai\.com"),
    Provider(name="sambanova", hosts=r"api\.sambanova\.ai"),
    Provider(name="deepinfra", hosts=r"api\.deepinfra\.com"),
    Provider(name="cloudflare_ai_gateway", hosts=r"gateway\.ai\.cloudflare\.com"),
    Provider(name="alibaba_cloud", hosts=r"dashscope(?:-.+)?\.aliyuncs\.com"),
    Provider(name="nvidia", hosts=r"integrate\.api\.nvidia\.com"),
    Provider(
        name="ollama",
        hosts=r".*:11434|ollama(?:\.com)?(?::\d+)?",
        bases=(("OLLAMA_HOST", ""),),
        origin="http://127.0.0.1:11434",
        packages=("ollama",),
    ),
)

_OPENAI_GENERIC: Final = replace(generic.DIALECT, provider="openai")

ROUTES: Final = (
    Route(dialect=openai_chat.DIALECT, path=r"/deployments/(?P<model>[^/]+)/chat/completions$"),
    Route(dialect=openai_completions.DIALECT, path=r"/deployments/(?P<model>[^/]+)/completions$"),
    Route(dialect=openai_embeddings.DIALECT, path=r"/deployments/(?P<model>[^/]+)/embeddings$"),
    Route(dialect=openai_chat.DIALECT, path=r"/chat/completions$"),
    Route(dialect=openai_chat.DIALECT, path=r"/v1/chat$", providers=frozenset({"writer"})),
    Route(dialect=cohere.DIALECT, path=r"/v2/chat$", providers=frozenset({"cohere"})),
    Route(dialect=cohere_v1.DIALECT, path=r"/v1/chat$", providers=frozenset({"cohere"})),
    Route(dialect=cohere.EMBED, path=r"/v[12]/embed$", providers=frozenset({"cohere"})),
    Route(dialect=openai_responses.DIALECT, path=r"/v1/responses$|/openai/responses$|/codex/responses$"),
    Route(dialect=openai_completions.DIALECT, path=r"/v1/completions$"),
    Route(dialect=openai_embeddings.DIALECT, path=r"/v1/embeddings$"),
    Route(dialect=anthropic_messages.DIALECT, path=r"/v1/messages$"),
    # Vertex carries other makers' models in their own formats.
    Route(dialect=anthropic_messages.DIALECT, path=r"/publishers/anthropic/models/(?P<model>[^/:]+):(?:stream)?[rR]awPredict$"),
    Route(dialect=openai_chat.DIALECT, path=r"/publishers/mistralai/models/(?P<model>[^/:]+):(?:stream)?[rR]awPredict$"),
    Route(dialect=gemini.DIALECT, path=r"/models/(?P<model>[^/:]+):generateContent$", stream=False),
    Route(dialect=gemini.DIALECT, path=r"/models/(?P<model>[^/:]+):streamGenerateContent$", stream=True),
    Route(dialect=gemini.DIALECT, path=r"/(?P<model>endpoints/[^/:]+):generateContent$", stream=False),
    Route(dialect=gemini.DIALECT, path=r"/(?P<model>endpoints/[^/:]+):streamGenerateContent$", stream=True),
    Route(dialect=gemini.EMBEDDINGS, path=r"/models/(?P<model>[^/:]+):(?:batchEmbedContents|embedContent)$"),
    Route(dialect=gemini.EMBEDDINGS, path=r"/publishers/google/models/(?P<model>[^/:]*embedding[^/:]*):predict$"),
    Route(dialect=bedrock_converse.DIALECT, path=r"/model/(?P<model>[^/]+)/converse$", stream=False),
    Route(dialect=bedrock_converse.DIALECT, path=r"/model/(?P<model>[^/]+)/converse-stream$", stream=True),
    Route(dialect=generic.DIALECT, path=r"/model/(?P<model>[^/]*rerank[^/]*)/invoke$"),
    Route(dialect=bedrock_invoke.EMBEDDINGS, path=r"/model/(?P<model>[^/]*embed[^/]*)/invoke$"),
    Route(dialect=bedrock_invoke.DIALECT, path=r"/model/(?P<model>[^/]+)/invoke$", stream=False),
    Route(dialect=bedrock_invoke.DIALECT, path=r"/model/(?P<model>[^/]+)/invoke-with-response-stream$", stream=True),
    Route(dialect=ollama.CHAT, path=r"/api/chat$", providers=frozenset({"ollama"})),
    Route(dialect=ollama.GENERATE, path=r"/api/generate$", providers=frozenset({"ollama"})),
    Route(dialect=ollama.EMBED, path=r"/api/embed(?:dings)?$", providers=frozenset({"ollama"})),
    # Gateways often leave the version out of the path, and then any service may have the same path.
    Route(dialect=openai_responses.DIALECT, path=r"/responses$", shape=shapes.is_response),
    Route(dialect=openai_completions.DIALECT, path=r"/completions$", shape=shapes.is_completion),
    Route(dialect=openai_embeddings.DIALECT, path=r"/embeddings$", shape=shapes.is_embeddings),
    Route(dialect=anthropic_messages.DIALECT, path=r"/messages$", shape=shapes.is_message),
    Route(dialect=_OPENAI_GENERIC, path=r"/audio/speech$", shape=shapes.is_speech),
    Route(dialect=_OPENAI_GENERIC, path=r"/images/generations$", shape=shapes.is_image),
    Route(dialect=generic.DIALECT, path=r"/rerank$", shape=shapes.is_rerank),
    Route(dialect=_OPENAI_GENERIC, path=r"/audio/(?:transcriptions|translations)$", form=True),
)

MODEL_LISTS: Final = ("/models", "/api/tags")
"""Ends of the paths at which providers list their models."""
REGION_HEADER: Final = "x-ms-region"
"""Header of an answer that names the region."""
NEEDS_ITS_HOST: Final = frozenset(name for row in ROUTES for name in row.providers)
"""Providers with paths that mean nothing on another host."""

_ROWS: Final = {row.name: row for row in PROVIDERS}
_DIALECTS: Final = {row.dialect.name: row.dialect for row in reversed(ROUTES)}


@cache
def _routes() -> tuple[tuple[re.Pattern[str], Route], ...]:
    """Return the patterns, compiled at the first request: most commands examine none."""
    return tuple((re.compile(row.path), row) for row in ROUTES)


@cache
def _providers() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(row.hosts, re.IGNORECASE), row.name) for row in PROVIDERS)


def find_dialect(method: str, url: str, headers: Sequence[tuple[str, str]] = (), body: bytes = b"") -> Match | None:
    """Return the dialect of a request, or None if it is not a known model call.

    `body` is the request's as sent; without it, an ambiguous path does not count as a model call.
    """
    # Without the query: it may hold an API key, and would make every URL of some APIs a separate one to remember.
    known, possible = _find(method.upper(), url.partition("?")[0])
    if not possible:
        return known
    named = {name.lower(): value for name, value in headers}
    if any(route.form for route in possible) and named.get("content-type", "").lower().startswith("multipart/form-data"):
        return _bound(next(route for route in possible if route.form), known)
    shaped = [route for route in possible if route.shape is not None]
    if not shaped or not body:
        return known
    document = _document(body, headers)
    found = next((route for route in shaped if route.shape is not None and route.shape(document)), None)
    return known if found is None else _bound(found, known)


def find_dialect_of(request: Request) -> Match | None:
    """Return the dialect of a recorded request."""
    return find_dialect(request.method, request.url, request.headers, request.body)


def dialect_of(request: Request, name: str | None) -> WireDialect | None:
    """Return the dialect of a recorded request, or else the one of that `name`."""
    match = find_dialect_of(request)
    return dialect_named(name) if match is None else match.dialect


def find_provider(name: str) -> Provider:
    """Return the row of a provider; one without a row has only its name."""
    return _ROWS.get(name) or Provider(name=name, hosts="")


def dialect_named(name: str | None) -> WireDialect | None:
    return _DIALECTS.get(name or "")


def region_of(host: str, headers: Mapping[str, str]) -> str | None:
    """Return the provider's region if its host name or its answer's headers (names in lower case) show it."""
    return _region_in(host) or headers.get(REGION_HEADER)


@lru_cache(maxsize=512)
def _region_in(host: str) -> str | None:
    found = next((match for pattern, _ in _providers() if (match := pattern.fullmatch(host))), None)
    return None if found is None else found.groupdict().get("region")


def _document(body: bytes, headers: Sequence[tuple[str, str]]) -> JsonObject:
    try:
        return as_object(parse(decode_body(body, headers)))
    except WireError:
        return {}


def _bound(route: Route, known: Match | None) -> Match:
    return Match(
        dialect=replace(route.dialect, stream=route.stream),
        provider=route.dialect.provider if known is None else known.provider,
    )


@lru_cache(maxsize=512)
def _find(method: str, url: str) -> tuple[Match | None, tuple[Route, ...]]:
    """Return the match decided by method and URL alone, else the routes among which the body may decide."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return None, ()
    provider = _provider_of(f"{host}:{port}" if port else host)
    known = Match(dialect=generic.DIALECT, provider=provider) if provider else None
    if method != "POST":
        return known, ()
    possible: list[Route] = []
    path = parts.path.rstrip("/")
    for pattern, route in _routes():
        if route.providers and provider not in route.providers:
            continue
        found = pattern.search(path)
        if found is None:
            continue
        if route.shape is not None or route.form:
            possible.append(route)
            continue
        model = found.groupdict().get("model")
        bound = replace(route.dialect, model=unquote(model) if model else None, stream=route.stream)
        return Match(dialect=bound, provider=provider or bound.provider), ()
    return known, tuple(possible)


@lru_cache(maxsize=512)
def _provider_of(address: str) -> str | None:
    host = address.partition(":")[0]
    for pattern, name in _providers():
        if pattern.fullmatch(host) or (host != address and pattern.fullmatch(address)):
            return name
    return None
