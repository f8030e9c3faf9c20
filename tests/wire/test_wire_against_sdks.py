"""Recorded streams, put together by freezeframe and by the providers' own SDKs, which get the same bytes from a transport."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from conventions_messages import from_json
from recorded_exchanges import Recorded

from freezeframe_schemas import genai
from freezeframe_schemas.wire import Match, find_dialect
from freezeframe_schemas.wire.messages import Message, TextPart, ToolCallPart

pytestmark = pytest.mark.long

REPEATS_ITS_TOOL_CALL = {"6fe9ad2e9e402af1", "93146eadbd224beb"}
"""Id and name are repeated in a later chunk; the SDK joins them (``llm_versionllm_version``), freezeframe does not."""


def streams(exchanges: Sequence[Recorded], dialect: str) -> Iterator[tuple[Recorded, Match]]:
    """Yield the recorded good streams of a dialect."""
    for row in exchanges:
        match = find_dialect(row.method, row.url)
        if match and match.dialect.name == dialect and row.stream and row.status < 400:
            yield row, match


def transport(row: Recorded) -> httpx2.MockTransport:
    """Return a transport that answers every request with the recorded bytes."""
    headers = {"content-type": "text/event-stream"}
    return httpx2.MockTransport(lambda request: httpx2.Response(200, headers=headers, content=row.response))


def outline(message: Message) -> tuple[str, list[tuple[str | None, str, object]]]:
    """Return text and tool calls of a message that freezeframe read."""
    text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
    return text, [(part.id, part.name, part.arguments) for part in message.parts if isinstance(part, ToolCallPart)]


@pytest.mark.proof
def test_anthropic_streams_give_the_sdks_own_message(exchanges: Sequence[Recorded]) -> None:
    """The SDK's final message, read as a synchronous answer, has the attributes that the stream has."""
    compared = 0
    for row, match in streams(exchanges, "anthropic.messages"):
        with anthropic.DefaultHttpxClient(transport=transport(row)) as http:
            client = anthropic.Anthropic(api_key="none", http_client=http, max_retries=0)
            asked: list[Any] = [{"role": "user", "content": "?"}]
            with client.messages.stream(model="m", max_tokens=1, messages=asked) as stream:
                theirs = stream.get_final_message()
        dialect = match.dialect
        ours = dialect.response_attributes(row.response, content_type=row.content_type, status=200)
        expected = dialect.response_attributes(theirs.to_json().encode(), content_type="application/json", status=200)
        for attributes in (ours, expected):
            # Verbatim objects: the SDK writes their fields in another order, and leaves out what it does not know.
            del attributes[genai.USAGE_DETAILS]
            attributes.pop(genai.RESPONSE_DETAILS, None)
        assert from_json(str(ours.pop(genai.OUTPUT_MESSAGES))) == from_json(str(expected.pop(genai.OUTPUT_MESSAGES))), row.id
        assert ours == expected, row.id
        compared += 1
    assert compared == 146


@pytest.mark.proof
def test_chat_streams_give_the_sdks_own_completion(exchanges: Sequence[Recorded]) -> None:
    """Text and tool calls of every choice; streams that the SDK itself cannot put together are left out."""
    compared = 0
    for row, match in streams(exchanges, "openai.chat"):
        if row.id in REPEATS_ITS_TOOL_CALL:
            continue
        with openai.DefaultHttpxClient(transport=transport(row)) as http:
            client = openai.OpenAI(api_key="none", http_client=http, max_retries=0)
            try:
                with client.chat.completions.stream(model="m", messages=[]) as stream:
                    theirs = stream.get_final_completion()
            except (openai.OpenAIError, AssertionError, AttributeError, RuntimeError, TypeError):
                continue  # additions of other providers that the SDK's accumulator stumbles over
        attributes = match.dialect.response_attributes(row.response, content_type=row.content_type, status=200)
        ours = [outline(message) for message in from_json(str(attributes[genai.OUTPUT_MESSAGES]))]
        expected = [
            (
                choice.message.content or "",
                [(c.id, c.function.name, c.function.arguments) for c in choice.message.tool_calls or []],
            )
            for choice in theirs.choices
        ]
        assert ours == expected, row.id
        compared += 1
    assert compared > 300
