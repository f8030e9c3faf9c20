"""Recorded requests asked again through the provider's own SDK, for the providers that neither openai's nor anthropic's serves.

Each function takes the provider's address and a recorded row, and gives what the SDK makes of the answer. The SDK is asked
for what the recorded request asked for as far as its signature goes; if today's SDK would not build a recorded request, it asks
a plain question at the same endpoint: only the answer matters.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from clients.client import load

Row = dict[str, Any]
Ask = Callable[[str, Row], Any]


@dataclass(frozen=True, slots=True)
class OwnSdk:
    """A provider's SDK."""

    name: str
    """Distribution, as the page on coverage names it."""
    module: str
    ask: Ask
    environment: str = "sdks"
    """The environment in which it is tried: a single one, so that the core's tests do not take longer."""

    @property
    def installed(self) -> bool:
        """Return whether this environment has it."""
        try:
            return importlib.util.find_spec(self.module) is not None
        except ModuleNotFoundError:
            return False


def host_of(row: Row) -> str:
    """Return the provider's host; a local one gets a name that says whose it is."""
    return "ollama" if row["provider"] == "ollama" else urlsplit(row["request"]["url"]).hostname or ""


def _body(row: Row) -> dict[str, Any]:
    try:
        return json.loads(row["request"].get("text") or "{}")
    except ValueError:  # one of the recorded requests was not JSON
        return {}


def _call(method: Callable[..., Any], given: Mapping[str, Any], fallback: Mapping[str, Any]) -> Any:
    """Call with what the signature knows of `given`; with `fallback` if the SDK refuses it before it sends anything."""
    known = inspect.signature(method).parameters
    try:
        return method(**{name: value for name, value in given.items() if name in known})
    except (TypeError, ValueError):  # the SDK's own validation: nothing was sent
        return method(**fallback)


def _items(stream: Any) -> list[str]:
    return [repr(item) for item in stream]


# -- Bedrock ------------------------------------------------------------------------------------------------------------


def _bedrock(url: str, row: Row) -> Any:
    config = load("botocore.config").Config(retries={"total_max_attempts": 1}, parameter_validation=False)
    client = load("boto3").client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=config,
    )
    _, _, model, operation = urlsplit(row["request"]["url"]).path.split("/")
    model = unquote(unquote(model))
    body = row["request"].get("text") or "{}"
    match operation:
        case "converse":
            return repr(client.converse(modelId=model, **json.loads(body)))
        case "converse-stream":
            return _items(client.converse_stream(modelId=model, **json.loads(body))["stream"])
        case "invoke":
            return repr(client.invoke_model(modelId=model, body=body)["body"].read())
        case _:
            return _items(client.invoke_model_with_response_stream(modelId=model, body=body)["body"])


# -- Gemini, on its own API and on Vertex AI ----------------------------------------------------------------------------

_GEMINI_CONFIG: Final = ("systemInstruction", "tools", "toolConfig", "safetySettings", "cachedContent")


def _gemini(url: str, row: Row) -> Any:
    genai, types = load("google.genai"), load("google.genai.types")
    path = urlsplit(row["request"]["url"]).path
    options = types.HttpOptions(base_url=url, api_version=path.split("/")[1], retry_options=types.HttpRetryOptions(attempts=1))
    if row["provider"] == "vertex":
        project, location = path.split("/")[3], path.split("/")[5]
        credentials = load("google.oauth2.credentials").Credentials(token="none")
        client = genai.Client(vertexai=True, project=project, location=location, credentials=credentials, http_options=options)
    else:
        client = genai.Client(api_key="none", http_options=options)
    model, _, operation = path.rpartition("/")[2].partition(":")
    body = _body(row)
    with client:
        if "mbed" in operation:
            contents = [request["content"] for request in body.get("requests", [])] or ["?"]
            return repr(
                _call(client.models.embed_content, {"model": model, "contents": contents}, {"model": model, "contents": "?"})
            )
        config = {**body.get("generationConfig", {}), **{name: body[name] for name in _GEMINI_CONFIG if name in body}}
        plain = {"model": model, "contents": "?"}
        arguments = {"model": model, "contents": body.get("contents", "?"), "config": config}
        if operation == "streamGenerateContent":
            return _items(_first_try(client.models.generate_content_stream, arguments, plain))
        return repr(_first_try(client.models.generate_content, arguments, plain))


def _first_try(method: Callable[..., Any], asked: Mapping[str, Any], plain: Mapping[str, Any]) -> Any:
    """Ask as recorded if the SDK's types accept the recorded fields, which they check before anything is sent."""
    types = load("google.genai.types")
    if _NUMBERED_TYPE.search(json.dumps(asked["config"])):
        return method(**plain)
    try:
        config = types.GenerateContentConfig.model_validate(asked["config"])
        contents = [types.Content.model_validate(content) for content in asked["contents"]]
    except ValueError:
        return method(**plain)
    return method(model=asked["model"], contents=contents, config=config)


_NUMBERED_TYPE: Final = re.compile(r'"type_?": \d')
"""A schema's type by number, as gRPC's JSON has it: the SDK cannot write it."""


# -- the others ---------------------------------------------------------------------------------------------------------


def _cohere(url: str, row: Row) -> Any:
    cohere = load("cohere")
    path, body = urlsplit(row["request"]["url"]).path, _body(row)
    once = {"request_options": {"max_retries": 0}}
    client = (cohere.Client if path.startswith("/v1") else cohere.ClientV2)(base_url=url, api_key="none")
    if path.endswith("/embed"):
        return repr(_call(client.embed, {**body, **once}, {"model": "m", "input_type": "search_query", "texts": ["?"], **once}))
    question: dict[str, Any] = {"message": "?"} if path.startswith("/v1") else {"messages": [{"role": "user", "content": "?"}]}
    fallback = {"model": "m", **question, **once}
    if body.get("stream"):
        return _items(_call(client.chat_stream, {**body, **once}, fallback))
    return repr(_call(client.chat, {**body, **once}, fallback))


def _mistral(url: str, row: Row) -> Any:
    client = load("mistralai.client").Mistral(server_url=url, api_key="none")
    path, body = urlsplit(row["request"]["url"]).path, _body(row)
    if path.endswith("/embeddings"):
        arguments = {**body, "inputs": body.get("inputs", body.get("input"))}
        return repr(_call(client.embeddings.create, arguments, {"model": "m", "inputs": ["?"]}))
    plain = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
    if not row["stream"]:
        return repr(_call(client.chat.complete, body, plain))
    with _call(client.chat.stream, body, plain) as events:
        return _items(events)


def _groq(url: str, row: Row) -> Any:
    client = load("groq").Groq(base_url=url, api_key="none", max_retries=0)
    answer = _call(client.chat.completions.create, _body(row), {"model": "m", "messages": []})
    return _items(answer) if row["stream"] else repr(answer)


def _ollama(url: str, row: Row) -> Any:
    client = load("ollama").Client(host=url)
    body = _body(row)
    method = client.embeddings if urlsplit(row["request"]["url"]).path.endswith("/embeddings") else client.chat
    answer = _call(method, body, {"model": "m"})
    return _items(answer) if body.get("stream") else repr(answer)


def _writer(url: str, row: Row) -> Any:
    client = load("writerai").Writer(base_url=url, api_key="none", max_retries=0)
    method = client.completions.create if urlsplit(row["request"]["url"]).path.endswith("/completions") else client.chat.chat
    answer = _call(method, _body(row), {"model": "m", "messages": []})
    return _items(answer) if row["stream"] else repr(answer)


SDKS: Final[Mapping[str, OwnSdk]] = {
    "bedrock": OwnSdk("boto3", "boto3", _bedrock),
    "gemini": OwnSdk("google-genai", "google.genai", _gemini),
    "vertex": OwnSdk("google-genai", "google.genai", _gemini),
    "cohere": OwnSdk("cohere", "cohere", _cohere),
    "mistral": OwnSdk("mistralai", "mistralai.client", _mistral),
    "groq": OwnSdk("groq", "groq", _groq),
    "ollama": OwnSdk("ollama", "ollama", _ollama),
    "writer": OwnSdk("writer-sdk", "writerai", _writer),
}
"""By provider, as the recorded exchanges name it."""
