"""What a dialect writes, it reads: recorded answers written again, and invented answers, in every format."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from conventions_messages import from_json
from recorded_exchanges import Recorded, cutter

from freezeframe_schemas import genai
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.exchange import Request
from freezeframe_schemas.wire import WireDialect, find_dialect, find_dialect_of, registry
from freezeframe_schemas.wire.answer import Answer, ToolCall
from freezeframe_schemas.wire.frames import Form, read_body
from freezeframe_schemas.wire.messages import TextPart, ToolCallPart

pytestmark = pytest.mark.long

NAMES = sorted({route.dialect.name for route in registry.ROUTES})


NOT_RECORDED = {"ollama.generate"}


def normal(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes with JSON texts read, so that the order of keys does not count."""
    names = (genai.OUTPUT_MESSAGES, genai.USAGE_DETAILS, genai.RESPONSE_DETAILS, genai.RESPONSE_ERROR)
    return {name: json.loads(value) if name in names else value for name, value in attributes.items()}


def read(dialect: WireDialect, written: Any, headers: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    """Return what the dialect reads of a response."""
    content_type = dict(written.headers)["content-type"]
    found = dialect.response_attributes(written.body, content_type=content_type, status=200, headers=headers)
    return normal(dict(found))


@pytest.mark.proof
@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_answer_that_is_written_again_reads_the_same(exchanges: Sequence[Recorded], name: str) -> None:
    """Whole and streamed, whichever way it was recorded; a stream in random pieces."""
    differing: list[str] = []
    compared = 0
    for row in exchanges:
        match = find_dialect(row.method, row.url, (), row.request)
        if match is None or match.dialect.name != name or row.status >= 400:
            continue
        dialect = match.dialect
        read_first = dialect.response_attributes(
            row.response, content_type=row.content_type, status=row.status, headers=row.headers
        )
        document = dialect.response_document(row.response, content_type=row.content_type)
        for form in (Form.DOCUMENT, dialect.streams.form, *([Form.EVENTS] if dialect.streams.asks_for_events else ())):
            written = dialect.write(document, form=form, split=cutter(random.Random(row.id)))
            if read(dialect, written, row.headers) != normal(dict(read_first)):
                differing.append(f"{row.id} {form.name}")
        compared += 1
    assert not differing
    assert compared or name in NOT_RECORDED


@pytest.mark.proof
@pytest.mark.parametrize("name", NAMES)
def test_an_edited_text_is_read_where_the_recorded_one_was(exchanges: Sequence[Recorded], name: str) -> None:
    """In the form of the recorded answer; the request is the recorded one, so that Bedrock's makers are distinguished."""
    edited = Answer(pieces=("Grüß", " dich"))
    for row in exchanges:
        match = find_dialect(row.method, row.url, (), row.request)
        if match is None or match.dialect.name != name or row.status >= 400:
            continue
        request = Request(method=row.method, url=row.url, body=row.request)
        form = read_body(row.response, row.content_type).form
        if name == "generic" or name.endswith(("embeddings", "embed")):
            with pytest.raises(WireError, match=f"an answer of {name}"):
                match.dialect.write_answer(edited, request, form=form)
            continue
        (message,) = read(match.dialect, match.dialect.write_answer(edited, request, form=form))[genai.OUTPUT_MESSAGES]
        assert [part["content"] for part in message["parts"]] == ["Grüß dich"], row.id


SIGNED: dict[str, dict[str, Any]] = {
    "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent": {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": "I think", "thought": True, "thoughtSignature": "s1"},
                        {"text": "Lyon", "thoughtSignature": "s2"},
                        {"functionCall": {"name": "find", "args": {"n": 1}}, "thoughtSignature": "s3"},
                    ],
                },
                "finishReason": "STOP",
                "safetyRatings": [{"category": "HARM", "probability": "LOW"}],
            }
        ],
        "promptFeedback": {"safetyRatings": []},
    },
    "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse": {
        "output": {
            "message": {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "I think", "signature": "s1"}}},
                    {"reasoningContent": {"redactedContent": "c2VjcmV0"}},
                    {"text": "Lyon"},
                    {"citationsContent": {"content": [{"text": "Lyon"}], "citations": [{"title": "map"}]}},
                    {"toolUse": {"toolUseId": "t1", "name": "find", "input": {"n": 1}}},
                ],
            }
        },
        "stopReason": "tool_use",
        "usage": {"inputTokens": 1, "outputTokens": 2, "cacheReadInputTokens": 3},
        "trace": {"guardrail": {}},
    },
    "https://api.anthropic.com/v1/messages": {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "I think", "signature": "s1"},
            {"type": "redacted_thinking", "data": "secret"},
            {"type": "text", "text": "Lyon", "citations": [{"title": "map"}]},
            {"type": "server_tool_use", "id": "t1", "name": "web_search", "input": {"query": "Lyon"}},
        ],
        "stop_reason": "pause_turn",
        "container": {"id": "c1"},
        "usage": {"input_tokens": 1, "output_tokens": 2},
    },
    "http://localhost:11434/api/generate": {
        "model": "m",
        "response": "Lyon",
        "thinking": "I think",
        "done": True,
        "eval_count": 2,
    },
}


@pytest.mark.proof
@pytest.mark.parametrize("url", SIGNED)
def test_signatures_citations_and_what_else_the_recordings_lack_survive_too(url: str) -> None:
    match = find_dialect("POST", url)
    assert match is not None
    first = read(match.dialect, match.dialect.write(SIGNED[url]))
    for form in (match.dialect.streams.form, Form.DOCUMENT):
        written = match.dialect.write(SIGNED[url], form=form, split=cutter(random.Random(url)))
        assert read(match.dialect, written) == first
    assert "Lyon" in str(first)


OPENAI, ANTHROPIC, COHERE, OLLAMA = (
    "https://api.openai.com/v1",
    "https://api.anthropic.com/v1",
    "https://api.cohere.com",
    "http://localhost:11434/api",
)
GEMINI = "https://generativelanguage.googleapis.com/v1beta/models"
BEDROCK = "https://bedrock-runtime.eu-west-1.amazonaws.com/model"
HI = [{"role": "user", "content": "hi"}]
CHATS: dict[str, dict[str, Any]] = {
    f"{OPENAI}/chat/completions": {"messages": HI},
    f"{OPENAI}/responses": {"input": "hi"},
    f"{ANTHROPIC}/messages": {"messages": HI},
    f"{COHERE}/v2/chat": {"messages": HI},
    f"{COHERE}/v1/chat": {"message": "hi"},
    f"{OLLAMA}/chat": {"messages": HI, "stream": False},
    f"{GEMINI}/m:generateContent": {},
    f"{BEDROCK}/m/converse": {},
    f"{BEDROCK}/m/invoke": {"anthropic_version": "bedrock-2023-05-31", "messages": HI},
    f"{BEDROCK}/nova/invoke": {"inferenceConfig": {}, "messages": HI},
    f"{BEDROCK}/openai/invoke": {"messages": HI},
    f"{BEDROCK}/command-r/invoke": {"message": "hi"},
}
TEXTS: dict[str, dict[str, Any]] = {
    f"{OPENAI}/completions": {"prompt": "hi"},
    f"{OLLAMA}/generate": {"prompt": "hi", "stream": False},
    f"{BEDROCK}/amazon.titan-text/invoke": {"inputText": "hi"},
    f"{BEDROCK}/meta.llama3/invoke": {"prompt": "hi"},
    f"{BEDROCK}/anthropic.claude-v2/invoke": {"prompt": "hi", "max_tokens_to_sample": 9},
    f"{BEDROCK}/mistral.mistral-7b/invoke": {"prompt": "hi"},
    f"{BEDROCK}/cohere.command/invoke": {"prompt": "hi"},
    f"{BEDROCK}/ai21.j2/invoke": {"prompt": "hi"},
}
STREAMS = {
    ":generateContent": ":streamGenerateContent",
    "/converse": "/converse-stream",
    "/invoke": "/invoke-with-response-stream",
}
EMBEDDINGS: dict[str, dict[str, Any]] = {
    f"{OPENAI}/embeddings": {"input": "hi"},
    f"{OPENAI}/embeddings?base64": {"input": "hi", "encoding_format": "base64"},
    f"{COHERE}/v1/embed": {"texts": ["hi"]},
    f"{COHERE}/v2/embed": {"texts": ["hi"], "embedding_types": ["float"]},
    f"{OLLAMA}/embed": {"input": "hi"},
    f"{OLLAMA}/embeddings": {"prompt": "hi"},
    f"{GEMINI}/m:embedContent": {"content": {}},
    f"{GEMINI}/m:batchEmbedContents": {"requests": [{}]},
    "https://x-aiplatform.googleapis.com/v1/publishers/google/models/text-embedding-5:predict": {"instances": [{}]},
    f"{BEDROCK}/amazon.titan-embed-text/invoke": {"inputText": "hi"},
    f"{BEDROCK}/cohere.embed-v3/invoke": {"texts": ["hi"]},
}


def asked(url: str, body: dict[str, Any], *, streamed: bool = False) -> tuple[Request, WireDialect]:
    """Return a request and its dialect."""
    if streamed:
        ending = next((end for end in STREAMS if url.endswith(end)), None)
        url, body = (url.replace(ending, STREAMS[ending]), body) if ending else (url, {**body, "stream": True})
    request = Request(method="POST", url=url, body=json.dumps({"model": "m", **body}).encode())
    match = find_dialect_of(request)
    assert match is not None
    return request, match.dialect


@pytest.mark.proof
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("url", [*CHATS, *TEXTS])
def test_a_text_that_is_written_is_read_in_the_form_that_the_request_asks_for(url: str, *, streamed: bool) -> None:
    """Text, id, model and a reason to stop; the calls, if the format can ask for tools."""
    request, dialect = asked(url, (CHATS | TEXTS)[url], streamed=streamed)
    calls = [ToolCall(id="c1", name="find", arguments={"city": "Köln", "n": [1]}), ToolCall(id="c2", name="end")]
    for answer in (Answer(pieces=("Grü", "ß\n", "dich"), id="a1", model="m1"), Answer(pieces=("So:",), tool_calls=calls)):
        if url in TEXTS and answer.tool_calls:
            with pytest.raises(WireError, match="cannot ask for a tool"):
                dialect.write_answer(answer, request)
            continue
        written = dialect.write_answer(answer, request)
        content_type = dict(written.headers)["content-type"]
        found = dialect.response_attributes(written.body, content_type=content_type, status=200)
        (message,) = from_json(str(found[genai.OUTPUT_MESSAGES]))
        texts = [part.content for part in message.parts if isinstance(part, TextPart)]
        assert "".join(texts) == answer.text
        read_calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        assert [part.name for part in read_calls] == [call.name for call in answer.tool_calls]
        assert [_arguments(part) for part in read_calls] == [dict(call.arguments) for call in answer.tool_calls]
        says_why = not url.endswith(("/v1/chat", "/command-r/invoke"))  # the first version of Cohere's only says COMPLETE
        assert message.finish_reason == ("tool_call" if answer.tool_calls and says_why else "stop")
        assert found.get(genai.RESPONSE_ID, answer.id) == answer.id
        assert found.get(genai.RESPONSE_MODEL, answer.model) == answer.model
        assert dialect.is_whole(written.body, content_type=content_type, streamed=streamed) is not False
        assert len(written.chunks) == 1 if not streamed else len(written.chunks) >= len(answer.pieces)


def _arguments(part: ToolCallPart) -> Any:
    return json.loads(part.arguments) if isinstance(part.arguments, str) else part.arguments


@pytest.mark.proof
@pytest.mark.parametrize("url", EMBEDDINGS)
def test_vectors_that_are_written_are_read(url: str) -> None:
    request, dialect = asked(url, EMBEDDINGS[url])
    written = dialect.write_answer(Answer(vectors=((0.5, -1.0, 0.25),)), request)
    found = dialect.response_attributes(written.body, content_type="application/json", status=200)
    assert found[genai.EMBEDDINGS_DIMENSION_COUNT] == 3
    with pytest.raises(WireError, match="gives vectors"):
        dialect.write_answer(Answer(pieces=("text",)), request)


@pytest.mark.proof
def test_every_dialect_is_tried() -> None:
    tried = {asked(url, body)[1].name for url, body in (CHATS | TEXTS | EMBEDDINGS).items()}
    assert tried == {*NAMES} - {"generic"}


@pytest.mark.proof
@pytest.mark.parametrize("url", [*CHATS, *EMBEDDINGS])
def test_a_refusal_names_its_kind_and_says_why(url: str) -> None:
    _, dialect = asked(url, (CHATS | EMBEDDINGS)[url])
    written = dialect.write_error(429, "slow down")
    found = dialect.response_attributes(written.body, content_type="application/json", status=429)
    assert "slow down" in str(found[genai.RESPONSE_ERROR])
    assert found[genai.ERROR_TYPE] in {"rate_limit_error", "RESOURCE_EXHAUSTED", "ThrottlingException", "429"}


@pytest.mark.proof
def test_an_answer_without_a_known_format_is_refused_with_what_to_do() -> None:
    request, dialect = asked(f"{BEDROCK}/cohere.rerank-v3/invoke", {"query": "hi"})
    with pytest.raises(WireError, match="an answer of generic has no known place for a text"):
        dialect.write_answer(Answer(pieces=("text",)), request)
