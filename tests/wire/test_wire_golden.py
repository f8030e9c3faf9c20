"""What every recorded exchange gives, kept in a golden file; and what must hold whatever the provider."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from conventions_messages import from_json
from recorded_exchanges import Recorded

from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.wire import find_dialect
from freezeframe_schemas.wire.messages import GenericPart, Message, ToolCallPart

pytestmark = pytest.mark.long

GOLDEN = Path(__file__).parents[1] / "golden" / "wire" / "exchanges.jsonl"
UPDATE = "FREEZEFRAME_UPDATE_GOLDEN"
"""Set to 1 to write the golden file anew; then read its diff."""

MAX_TEXT_LENGTH = 24
MESSAGE_NAMES = (genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES)

# Rows whose answer has nothing that a dialect could read: the recording lost the body (or its content-encoding), or the API is
# one that is only named.
WITHOUT_ANSWER = {"ba81ed327600ef07", "30c9663eff7aca40", "c7a98d5b201b7570", "88024b179785685a"}
BROKEN_REQUEST = "d78085707ce35826"  # a comma too many; the provider took it


@functools.cache
def read(row: Recorded) -> Mapping[str, Any]:
    """Return the row's dialect, provider and attributes."""
    match = find_dialect(row.method, row.url)
    if match is None:
        return {"id": row.id, "dialect": None}
    return {
        "id": row.id,
        "dialect": match.dialect.name,
        "provider": match.provider,
        "request": match.dialect.request_attributes(row.request),
        "response": match.dialect.response_attributes(
            row.response, content_type=row.content_type, status=row.status, headers=row.headers
        ),
    }


def short(name: str, value: AttributeValue) -> object:
    """Return the value as it is in the golden file: long texts by their start and hash, messages by their outline."""
    if isinstance(value, tuple):
        return [short("", item) for item in value]
    if not isinstance(value, str) or len(value) <= MAX_TEXT_LENGTH:
        return value
    digest = hashlib.sha256(value.encode()).hexdigest()[:8]
    if name in MESSAGE_NAMES:
        return f"{outline(from_json(value))} #{digest}"
    return f"{value[:MAX_TEXT_LENGTH]}... #{digest}"


def outline(messages: Iterable[Message]) -> str:
    """Return ``user[text] assistant[tool_call:add]=tool_call``; of long conversations the last eight."""
    outlines: list[str] = []
    for message in messages:
        parts = [f"{p.type}:{p.name}" if isinstance(p, ToolCallPart) else p.type for p in message.parts]
        end = f"={message.finish_reason}" if message.finish_reason else ""
        outlines.append(f"{message.role}[{','.join(parts)}]{end}")
    head = f"({len(outlines) - 8} before) " if len(outlines) > 8 else ""
    return head + " ".join(outlines[-8:])


def golden_line(row: Recorded) -> str:
    """Return the golden file's line for a row."""
    seen = {**read(row)}
    for side in ("request", "response"):
        attributes: Mapping[str, AttributeValue] = seen.get(side, {})
        seen[side] = {name: short(name, value) for name, value in sorted(attributes.items())}
    return json.dumps(seen, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.proof("dialect each")
def test_every_exchange_gives_the_golden_attributes(exchanges: Sequence[Recorded]) -> None:
    """One line per row; FREEZEFRAME_UPDATE_GOLDEN=1 writes the file anew."""
    lines = [golden_line(row) for row in exchanges]
    if os.environ.get(UPDATE):
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_text("".join(line + "\n" for line in lines))
    golden = GOLDEN.read_text().splitlines()
    differing = [(seen, held) for seen, held in zip(lines, golden, strict=True) if seen != held]
    assert not differing, f"{len(differing)} rows differ, the first:\n  seen {differing[0][0]}\n  held {differing[0][1]}"


@pytest.mark.proof
def test_dialects_are_counted_by_name(exchanges: Sequence[Recorded]) -> None:
    """Every row has a dialect; the 28 that are only named are OpenAI's threads and a rerank."""
    matches = [find_dialect(row.method, row.url) for row in exchanges]
    names = Counter(match.dialect.name if match else "unknown" for match in matches)
    assert names == {
        "openai.chat": 1022,
        "anthropic.messages": 306,
        "openai.responses": 280,
        "gemini.generate_content": 225,
        "bedrock.invoke": 114,
        "openai.completions": 91,
        "openai.embeddings": 57,
        "bedrock.converse": 48,
        "generic": 28,
        "cohere.chat_v1": 19,
        "cohere.chat": 18,
        "ollama.chat": 16,
        "gemini.embeddings": 7,
        "bedrock.embeddings": 2,
        "cohere.embed": 2,
        "ollama.embed": 1,
    }


@pytest.mark.proof
def test_every_request_names_its_model_and_operation(exchanges: Sequence[Recorded]) -> None:
    """Exceptions are the recordings' own: Cohere's v1 has a default model, OpenAI's prompt templates hold one."""
    for row in exchanges:
        seen = read(row)
        assert seen["request"][genai.OPERATION_NAME], row.id
        if seen["dialect"] in ("generic", "cohere.chat_v1") or not row.request or row.id == BROKEN_REQUEST:
            continue
        parameters = seen["request"].get(genai.REQUEST_PARAMETERS, "{}")
        assert seen["request"].get(genai.REQUEST_MODEL) or "prompt" in json.loads(parameters), row.id


@pytest.mark.proof
def test_every_answer_of_a_model_has_messages_or_an_error(exchanges: Sequence[Recorded]) -> None:
    """Chat answers give output messages with a finish reason, failures an error type, embeddings their dimensions."""
    for row in exchanges:
        seen = read(row)
        attributes = seen["response"]
        if row.id in WITHOUT_ANSWER or seen["dialect"] == "generic":
            continue
        if row.status >= 400:
            assert attributes[genai.ERROR_TYPE], row.id
        elif seen["request"][genai.OPERATION_NAME] == genai.OP_EMBEDDINGS:
            assert attributes[genai.EMBEDDINGS_DIMENSION_COUNT] > 0, row.id
        else:
            assert genai.OUTPUT_MESSAGES in attributes or genai.RESPONSE_FINISH_REASONS in attributes, row.id


@pytest.mark.proof
def test_no_recorded_content_is_left_generic_without_being_named(exchanges: Sequence[Recorded]) -> None:
    """Parts that have no place in the conventions, by type: a new one here is a reader to write."""
    kinds: Counter[str] = Counter()
    for row in exchanges:
        seen = read(row)
        for side, name in (("request", genai.INPUT_MESSAGES), ("response", genai.OUTPUT_MESSAGES)):
            text = seen[side].get(name)
            if text:
                parts = [part for message in from_json(text) for part in message.parts]
                kinds.update(part.type for part in parts if isinstance(part, GenericPart))
    assert set(kinds) <= {"refusal", "tokens", "cachePoint", "guardContent"}, kinds


@pytest.mark.proof
@pytest.mark.parametrize("side", ["request", "response"])
def test_attributes_are_values_that_otlp_carries(exchanges: Sequence[Recorded], side: str) -> None:
    """Text that is UTF-8, int64, doubles, flags, and arrays of text."""
    for row in exchanges:
        for name, value in read(row)[side].items():
            items: Sequence[AttributeValue] = value if isinstance(value, tuple) else (value,)
            for item in items:
                assert isinstance(item, str | bool | int | float), (row.id, name)
                if isinstance(item, str):
                    item.encode()
                elif isinstance(item, int):
                    assert -(2**63) <= item < 2**63, (row.id, name)
