"""Model calls of real SDKs: what crosses the wire is recorded byte for byte, and served back with the provider gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import openai
import pytest
from capture_provider import Provider
from capture_replay import replaying

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Completion, Exchange, Kind

pytestmark = pytest.mark.long  # every fault with every client

MESSAGES: Any = [{"role": "user", "content": "Where is AC-1? ünï"}]


def openai_plain(url: str) -> Any:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="sk-secret", max_retries=0)
    return client.chat.completions.create(model="gpt-4o", messages=MESSAGES, temperature=0.3, seed=7).model_dump()


def openai_stream(url: str) -> Any:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="sk-secret", max_retries=0)
    stream = client.chat.completions.create(model="gpt-4o", messages=MESSAGES, stream=True)
    return [chunk.model_dump() for chunk in stream]


async def openai_async(url: str) -> Any:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-secret", max_retries=0) as client:
        return (await client.chat.completions.create(model="gpt-4o", messages=MESSAGES)).model_dump()


async def openai_async_stream(url: str) -> Any:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-secret", max_retries=0) as client:
        stream = await client.chat.completions.create(model="gpt-4o", messages=MESSAGES, stream=True)
        return [chunk.model_dump() async for chunk in stream]


def openai_embeddings(url: str) -> Any:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="sk-secret", max_retries=0)
    return client.embeddings.create(model="text-embedding-3-small", input="x", encoding_format="float").model_dump()


def anthropic_plain(url: str) -> Any:
    client = anthropic.Anthropic(base_url=url, api_key="sk-ant-secret", max_retries=0)
    return client.messages.create(model="claude-test", max_tokens=50, messages=MESSAGES).model_dump()


def anthropic_stream(url: str) -> Any:
    client = anthropic.Anthropic(base_url=url, api_key="sk-ant-secret", max_retries=0)
    with client.messages.stream(model="claude-test", max_tokens=50, messages=MESSAGES) as stream:
        return [*stream.text_stream, stream.get_final_message().model_dump()]


async def anthropic_async(url: str) -> Any:
    async with anthropic.AsyncAnthropic(base_url=url, api_key="sk-ant-secret", max_retries=0) as client:
        return (await client.messages.create(model="claude-test", max_tokens=50, messages=MESSAGES)).model_dump()


async def anthropic_async_stream(url: str) -> Any:
    async with anthropic.AsyncAnthropic(base_url=url, api_key="sk-ant-secret", max_retries=0) as client:
        stream = await client.messages.create(model="claude-test", max_tokens=50, messages=MESSAGES, stream=True)
        return [event.model_dump() async for event in stream]


def openai_error(url: str) -> Any:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="sk-secret", max_retries=0)
    try:
        return repr(client.chat.completions.create(model="gpt-4o", messages=MESSAGES))
    except Exception as error:
        return [type(error).__name__, str(error), getattr(error, "body", None)]


def openai_stream_error(url: str) -> Any:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="sk-secret", max_retries=0)
    seen: list[Any] = []
    try:
        for chunk in client.chat.completions.create(model="gpt-4o", messages=MESSAGES, stream=True):
            seen.append(chunk.model_dump())
    except Exception as error:
        seen.append([type(error).__name__, str(error)])
    return seen


def openai_retry(url: str) -> Any:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="sk-secret", max_retries=2)
    return client.chat.completions.create(model="gpt-4o", messages=MESSAGES).model_dump()


def openai_abandoned(url: str) -> Any:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="sk-secret", max_retries=0)
    stream = client.chat.completions.create(model="gpt-4o", messages=MESSAGES, stream=True)
    first = next(iter(stream)).model_dump()
    stream.close()
    return first


CLIENTS: list[Callable[[str], Any]] = [
    openai_plain,
    openai_stream,
    openai_async,
    openai_async_stream,
    openai_embeddings,
    anthropic_plain,
    anthropic_stream,
    anthropic_async,
    anthropic_async_stream,
]

FAULTS: list[tuple[str, Callable[[str], Any], int]] = [
    ("500", openai_error, 1),
    ("500", openai_retry, 2),
    ("429-cut", openai_error, 1),
    ("stream-cut", openai_stream_error, 1),
    ("hang-up", openai_error, 1),
    ("", openai_abandoned, 1),
    ("binary", openai_error, 1),
    ("big:20000000", openai_plain, 1),
    ("surrogate", openai_plain, 1),
    ("odd-numbers", openai_error, 1),
]


async def outcome(client: Callable[[str], Any], url: str) -> Any:
    """Run a client inside a run, whether it is a coroutine function or not."""
    with freezeframe.run("test"):
        result = client(url)
        return await result if isinstance(result, Awaitable) else result


async def recorded_and_served(client: Callable[[str], Any], provider: Provider) -> list[Exchange]:
    """Return what is recorded of a client; it gets the same from the recording, with the provider gone."""
    with capture() as captured:
        first = await outcome(client, provider.url)
        exchanges = captured.exchanges
    provider.stop()
    with replaying(exchanges) as recorded:
        assert await outcome(client, provider.url) == first
    assert recorded.left == []
    return exchanges


@pytest.mark.proof("seam http.httpx")
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
async def test_a_call_is_recorded_and_served_again_with_the_provider_gone(
    client: Callable[[str], Any], provider: Provider
) -> None:
    assert [exchange.kind for exchange in await recorded_and_served(client, provider)] == [Kind.MODEL]


@pytest.mark.proof
@pytest.mark.parametrize(("fault", "client", "attempts"), FAULTS, ids=lambda value: getattr(value, "__name__", str(value)))
async def test_a_fault_is_recorded_and_served_again_as_the_same_fault(
    fault: str, client: Callable[[str], Any], attempts: int, provider: Provider
) -> None:
    provider.faults = [fault]
    assert len(await recorded_and_served(client, provider)) == attempts


@pytest.mark.proof
@pytest.mark.parametrize(("fault", "client", "attempts"), FAULTS, ids=lambda value: getattr(value, "__name__", str(value)))
async def test_a_fault_looks_the_same_to_the_application_with_and_without_capture(
    fault: str, client: Callable[[str], Any], attempts: int
) -> None:
    results: list[Any] = []
    for captured in (False, True):
        with Provider() as provider:
            provider.faults = [fault]
            if captured:
                with capture():
                    results.append(await outcome(client, provider.url))
            else:
                results.append(await outcome(client, provider.url))
    assert results[0] == results[1]


@pytest.mark.proof
async def test_chunk_borders_and_completion_are_kept(provider: Provider) -> None:
    with capture() as captured:
        await outcome(openai_stream, provider.url)
        exchange = captured.exchanges[0]
    assert len(exchange.response.chunks) >= 5
    assert exchange.response.body.startswith(b'data: {"id": "chatcmpl-1"')
    assert [chunk.offset_ns for chunk in exchange.response.chunks] == sorted(
        chunk.offset_ns for chunk in exchange.response.chunks
    )


@pytest.mark.proof
async def test_an_abandoned_stream_is_kept_as_far_as_it_was_read(provider: Provider) -> None:
    with capture() as captured:
        await outcome(openai_abandoned, provider.url)
        exchange = captured.exchanges[0]
    assert exchange.response.completion is Completion.CLOSED_EARLY
    assert b"[DONE]" not in exchange.response.body


@pytest.mark.proof
async def test_secrets_never_reach_a_span(provider: Provider) -> None:
    with capture() as captured:
        await outcome(openai_plain, provider.url)
        await outcome(anthropic_plain, provider.url)
        text = repr(captured.spans)
    assert "sk-secret" not in text
    assert "sk-ant-secret" not in text
    assert "sid=secret" not in text
    assert "freezeframe-removed" in text


async def test_the_genai_attributes_are_read_from_the_bytes(provider: Provider) -> None:
    with capture() as captured:
        await outcome(openai_plain, provider.url)
        span = next(span for span in captured.spans if genai.EXCHANGE_KIND in span.attributes)
    expected = {
        genai.OPERATION_NAME: "chat",
        genai.PROVIDER_NAME: "openai",
        genai.REQUEST_MODEL: "gpt-4o",
        genai.REQUEST_TEMPERATURE: 0.3,
        genai.REQUEST_SEED: 7,
        genai.RESPONSE_ID: "chatcmpl-1",
        genai.RESPONSE_MODEL: "gpt-4o-2024-08-06",
        genai.USAGE_INPUT_TOKENS: 9,
        genai.SERVER_ADDRESS: "127.0.0.1",
    }
    assert {name: span.attributes.get(name) for name in expected} == expected
    assert span.name == "chat gpt-4o"


@pytest.mark.proof
async def test_a_body_over_the_limit_is_kept_as_size_and_hash(provider: Provider) -> None:
    provider.faults = ["big:5000"]
    with capture(max_body_bytes=1000) as captured:
        await outcome(openai_plain, provider.url)
        exchange = captured.exchanges[0]
    assert exchange.response.body == b""
    assert exchange.response.omitted is not None
    assert exchange.response.omitted.startswith("over limit: 5")
