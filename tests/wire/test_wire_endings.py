"""An answer is whole when its protocol says so: over every recorded stream, and over the same stream cut anywhere."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence

import pytest
from effort import examples
from recorded_exchanges import Recorded

from freezeframe_schemas import genai
from freezeframe_schemas.wire import WireDialect, eventstream, find_dialect, sse

pytestmark = pytest.mark.long

NO_LAST_EVENT = {"gcp.gemini", "gcp.vertex_ai", "writer"}
"""Providers that send no event to end a stream: only the end of the HTTP body shows it."""


def streams(exchanges: Sequence[Recorded]) -> list[tuple[Recorded, WireDialect, str]]:
    found = ((row, find_dialect(row.method, row.url)) for row in exchanges if row.stream and row.status < 400)
    return [(row, match.dialect, match.provider) for row, match in found if match is not None]


def events_of(body: bytes) -> list[tuple[int, int]]:
    """Return the byte ranges of a stream's events."""
    messages = eventstream.parse(body)
    found = messages or sse.parse_events(body)
    return [(event.start, event.end) for event in found]


@pytest.mark.proof
def test_every_recorded_stream_came_to_its_end(exchanges: Sequence[Recorded]) -> None:
    told: Counter[tuple[str, bool | None]] = Counter()
    for row, dialect, provider in streams(exchanges):
        told[provider, dialect.is_whole(row.response, content_type=row.content_type, streamed=True)] += 1
    assert sum(told.values()) == 740
    untold = {provider: count for (provider, whole), count in told.items() if whole is None}
    assert {provider for provider, whole in told if whole is False} == set()
    assert set(untold) == NO_LAST_EVENT | {"aws.bedrock"}
    assert untold["aws.bedrock"] == 1, "an answer that a guardrail blocked, without Bedrock's counts"


@pytest.mark.proof
def test_a_stream_that_was_cut_before_its_last_event_is_never_whole(exchanges: Sequence[Recorded]) -> None:
    draw = random.Random(14)
    cuts = 0
    for row, dialect, provider in streams(exchanges):
        if provider == "writer" and dialect.name == "openai.completions":
            continue  # its own frames, which say nothing about an end
        events = events_of(row.response)
        last = _start_of_the_end(row.response, events)
        borders = [start for start, _ in events if start <= last]
        places = {
            0,
            1,
            last,
            *draw.sample(borders, min(3, len(borders))),
            *(draw.randrange(last + 1) for _ in range(examples(5))),
        }
        for place in places:
            for content_type in {row.content_type, ""}:
                whole = dialect.is_whole(row.response[:place], content_type=content_type, streamed=True)
                assert whole is False or (whole is None and has_finished(dialect, row, place)), (row.id, place)
                cuts += 1
    assert cuts > 740


def has_finished(dialect: WireDialect, row: Recorded, size: int) -> bool:
    """Return whether the model had given its reason to finish, so that only the end of the stream is missing."""
    said = dialect.response_attributes(row.response[:size], content_type=row.content_type, status=200)
    return genai.RESPONSE_FINISH_REASONS in said


def _start_of_the_end(body: bytes, events: list[tuple[int, int]]) -> int:
    """Return the start of the first event after which an answer may be whole: ``[DONE]`` follows Cohere's ``message-end``."""
    starts = [start for start, end in events if b'"message-end"' in body[start:end]]
    return (starts or [events[-1][0]])[0]


@pytest.mark.proof
@pytest.mark.parametrize("content_type", ["application/json", ""])
def test_a_document_that_was_cut_is_not_whole_and_a_whole_one_is_as_its_http_body(
    exchanges: Sequence[Recorded], content_type: str
) -> None:
    row = next(row for row in exchanges if not row.stream and row.status == 200 and "/chat/completions" in row.url)
    match = find_dialect(row.method, row.url)
    assert match is not None
    assert match.dialect.is_whole(row.response, content_type=content_type, streamed=False) is None
    assert match.dialect.is_whole(row.response[:-5], content_type=content_type, streamed=False) is False
    assert match.dialect.is_whole(b"<html>down</html>", content_type="text/html", streamed=False) is None


@pytest.mark.proof
@pytest.mark.parametrize(
    ("path", "lines", "end"),
    [
        (
            "http://localhost:11434/api/chat",
            [{"message": {"content": "a"}, "done": False}],
            {"done": True, "done_reason": "stop"},
        ),
        ("http://localhost:11434/api/generate", [{"response": "a", "done": False}], {"response": "", "done": True}),
        (
            "https://api.cohere.com/v1/chat",
            [{"event_type": "stream-start"}, {"event_type": "text-generation", "text": "a", "is_finished": False}],
            {"event_type": "stream-end", "is_finished": True},
        ),
    ],
)
def test_json_lines_end_with_the_line_that_says_so(path: str, lines: list[object], end: object) -> None:
    match = find_dialect("POST", path)
    assert match is not None
    cut = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    assert match.dialect.is_whole(cut, content_type="application/x-ndjson", streamed=True) is False
    assert match.dialect.is_whole(cut + json.dumps(end).encode(), content_type="application/x-ndjson", streamed=True) is True


@pytest.mark.proof
def test_an_error_in_the_midst_of_a_stream_ends_it() -> None:
    match = find_dialect("POST", "https://api.anthropic.com/v1/messages")
    assert match is not None
    body = b'event: message_start\ndata: {"type": "message_start", "message": {}}\n\n'
    error = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n'
    assert match.dialect.is_whole(body, content_type="text/event-stream", streamed=True) is False
    assert match.dialect.is_whole(body + error, content_type="text/event-stream", streamed=True) is True


@pytest.mark.proof
def test_the_text_of_an_answer_does_not_end_it() -> None:
    """A model may write anything, even the words of the protocol."""
    match = find_dialect("POST", "https://api.openai.com/v1/chat/completions")
    assert match is not None
    text = json.dumps("\n\ndata: [DONE]\n\n")
    body = b'data: {"choices": [{"index": 0, "delta": {"content": ' + text.encode() + b"}}]}\n\n"
    for size in range(len(body) + 1):
        assert match.dialect.is_whole(body[:size], content_type="text/event-stream", streamed=True) is False
