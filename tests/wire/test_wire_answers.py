"""The law of written answers: what a recorded answer means is written in its own format, read again, and means the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from recorded_exchanges import Recorded

from freezeframe_replay.engine.speak import answer_of
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Request
from freezeframe_schemas.meaning import answer_parts
from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.wire import find_dialect
from freezeframe_schemas.wire.answer import Answer
from freezeframe_schemas.wire.document import as_object, parse
from freezeframe_schemas.wire.frames import Form

pytestmark = pytest.mark.long

MIN_ANSWERS = {
    "anthropic.messages": 291,
    "bedrock.converse": 45,
    "cohere.chat": 18,
    "cohere.chat_v1": 17,
    "gemini.generate_content": 218,
    "ollama.chat": 15,
    "openai.chat": 975,
    "openai.completions": 80,
    "openai.responses": 269,
}
"""Dialect -> recorded answers that hold nothing but text, thinking and calls, and came to their end."""
SAID = {"text", "tool_call", "reasoning"}


def told(attributes: Mapping[str, AttributeValue]) -> Answer:
    """Return what the attributes of an answer say, as a reconstructed step holds it."""
    reasons: Any = attributes.get(genai.RESPONSE_FINISH_REASONS) or [None]
    fields: dict[str, Any] = {
        "parts": answer_parts(attributes),
        "finish_reason": reasons[0],
        "id": attributes.get(genai.RESPONSE_ID),
        "model": attributes.get(genai.RESPONSE_MODEL),
        "input_tokens": attributes.get(genai.USAGE_INPUT_TOKENS),
        "output_tokens": attributes.get(genai.USAGE_OUTPUT_TOKENS),
    }
    return answer_of(fields)


def comparable(answer: Answer) -> Any:
    """Return what an answer says, without what a provider adds to a call or a thought and never asks back."""
    return {
        "text": answer.text,
        "calls": [(call.id, call.name, dict(call.arguments), wanted_back(call.extra)) for call in answer.tool_calls],
        "thoughts": [(thought.text, wanted_back(thought.extra)) for thought in answer.thoughts],
        "finish": answer.finish_reason,
        "tokens": (answer.input_tokens, answer.output_tokens),
        "of": (answer.id, answer.model),
    }


def wanted_back(extra: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: extra[name] for name in ("signature", "thoughtSignature", "id", "encrypted_content", "summary") if name in extra
    }


@pytest.mark.proof
def test_what_a_recorded_answer_means_survives_being_written_whole_and_streamed(exchanges: Sequence[Recorded]) -> None:
    """Text, calls with their ids and signatures, thinking with its signature, the reason to finish, tokens, id, model."""
    compared: Counter[str] = Counter()
    differing: list[str] = []
    for row in exchanges:
        match = find_dialect(row.method, row.url, (), row.request)
        if match is None or row.status >= 400 or match.dialect.name not in MIN_ANSWERS:
            continue
        dialect = match.dialect
        first = dialect.response_attributes(row.response, content_type=row.content_type, status=row.status, headers=row.headers)
        parts = answer_parts(first)
        messages = json.loads(str(first.get(genai.OUTPUT_MESSAGES, "[]")))
        has_ended = genai.RESPONSE_FINISH_REASONS in first or dialect.name.startswith("cohere")
        if len(messages) != 1 or not parts or not has_ended or any(part["type"] not in SAID for part in parts):
            continue
        asked = {**as_object(parse(row.request)), "stream_options": {"include_usage": True}}
        request = Request(method=row.method, url=row.url, body=json.dumps(asked).encode())
        for form in (Form.DOCUMENT, dialect.streams.form):
            written = dialect.write_answer(told(first), request, form=form)
            content_type = dict(written.headers)["content-type"]
            again = dialect.response_attributes(written.body, content_type=content_type, status=200)
            was, now = comparable(told(first)), comparable(told(again))
            if was != now:
                differing.append(f"{dialect.name} {row.id} {form.name}: {[name for name in was if was[name] != now[name]]}")
        compared[dialect.name] += 1
    assert differing == []
    assert {name: compared[name] for name in MIN_ANSWERS if compared[name] < MIN_ANSWERS[name]} == {}
