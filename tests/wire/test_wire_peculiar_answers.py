"""Answers that few providers send: arguments that stream by path, tools that run at either end, compacted conversations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conventions_messages import from_json

from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue
from freezeframe_schemas.wire import find_dialect, sse
from freezeframe_schemas.wire.document import JsonValue
from freezeframe_schemas.wire.gemini import read_part
from freezeframe_schemas.wire.messages import (
    GenericPart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
)

DATA = Path(__file__).parents[1] / "data" / "response_streams"
GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3.1-pro-preview:streamGenerateContent?alt=sse"
CHAT = "https://api.mistral.ai/v1/chat/completions"
RESPONSES = "https://api.openai.com/v1/responses"
ANTHROPIC = "https://api.anthropic.com/v1/messages"
COHERE = "https://api.cohere.com/v2/chat"


def read(url: str, name: str, *, lines: int | None = None, status: int = 200) -> dict[str, AttributeValue]:
    """Return the attributes of a fixture; of a stream, of its first `lines` events."""
    text = (DATA / name).read_bytes()
    content_type = "application/json"
    if name.endswith(".chunks.txt"):
        text = sse.encode([sse.SseEvent(data=line) for line in text.splitlines()[:lines] if line])
        content_type = "text/event-stream"
    match = find_dialect("POST", url)
    assert match is not None
    return match.dialect.response_attributes(text, content_type=content_type, status=status)


def answer(attributes: dict[str, AttributeValue]) -> Message:
    """Return the one output message."""
    text = attributes[genai.OUTPUT_MESSAGES]
    assert isinstance(text, str)
    (message,) = from_json(text)
    return message


def calls(message: Message) -> list[tuple[str, object]]:
    """Return name and arguments of the tool calls."""
    return [(part.name, part.arguments) for part in message.parts if isinstance(part, ToolCallPart)]


@pytest.mark.parametrize("main", [{"text": "a"}, {"text": "a", "thought": True}, {"functionCall": {"name": "f"}}, {"new": 1}])
def test_a_signature_next_to_any_part_of_gemini_is_kept(main: dict[str, JsonValue]) -> None:
    assert read_part({**main, "thoughtSignature": "s"}).extra["thoughtSignature"] == "s"


def test_gemini_arguments_that_stream_by_path_are_put_together() -> None:
    """Two calls, each announced, filled piece by piece, and closed by an empty call."""
    message = answer(read(GEMINI, "google-stream-tool-call-arguments.chunks.txt"))
    assert calls(message) == [
        ("getWeather", {"location": "Boston"}),
        ("getWeather", {"location": "San Francisco"}),
    ]
    assert message.finish_reason == "tool_call"
    assert len(message.parts) == 2


def test_gemini_arrays_of_objects_stream_by_path_too() -> None:
    """And numbers; the call ends without the empty one."""
    name = "google-stream-tool-call-array-arguments-missing-terminal-function-call.chunks.txt"
    ((tool, arguments),) = calls(answer(read(GEMINI, name)))
    apple = {"action": "add", "description": "Fresh red apple", "itemid": "apple_001", "price": 0.5}
    banana = {"action": "add", "description": "Ripe yellow banana", "itemid": "banana_001", "price": 0.3}
    assert (tool, arguments) == ("writeItems", {"operations": [apple, banana]})


def test_a_gemini_call_that_was_cut_says_that_it_would_have_gone_on() -> None:
    """Half of the arguments must not be taken for all of them."""
    message = answer(read(GEMINI, "google-stream-tool-call-arguments.chunks.txt", lines=2))
    (part,) = message.parts
    assert isinstance(part, ToolCallPart)
    assert part.arguments == {"location": "Boston"}
    assert part.extra["willContinue"] is True
    assert message.finish_reason is None


def test_googles_error_is_named_by_its_status() -> None:
    """And kept whole: it says when to try again."""
    attributes = read(GEMINI, "google-429-retry-info.json", status=429)
    assert attributes[genai.ERROR_TYPE] == "RESOURCE_EXHAUSTED"
    assert json.loads(str(attributes[genai.RESPONSE_ERROR]))["details"][1]["retryDelay"] == "34.4s"


def test_a_tool_name_repeated_empty_does_not_erase_the_first() -> None:
    """Mistral's gateway sends the name once and then an empty one."""
    message = answer(read(CHAT, "mistral-incremental-tool-call.chunks.txt"))
    assert calls(message) == [("webSearchTool", '{"query": "current Berlin weather"}')]


def test_a_built_in_tool_that_waits_for_us_is_a_tool_call() -> None:
    """OpenAI's apply_patch runs at the client; web search would be a server tool."""
    message = answer(read(RESPONSES, "openai-apply-patch-tool.1.json"))
    ((tool, arguments),) = calls(message)
    assert tool == "apply_patch"
    assert isinstance(arguments, dict)
    assert arguments["type"] == "create_file"
    assert message.finish_reason == "tool_call"


def test_a_compacted_conversation_keeps_its_summary_as_a_part_of_its_own() -> None:
    """The conventions call it compaction, as Anthropic does."""
    compaction, text = answer(read(ANTHROPIC, "anthropic-compaction.1.chunks.txt")).parts
    assert isinstance(compaction, GenericPart)
    assert compaction.type == "compaction"
    assert str(compaction.extra["content"]).startswith("## Summary of Conversation")
    assert isinstance(text, TextPart)


def test_coheres_thinking_is_reasoning() -> None:
    """Its blocks stream by index, like its text."""
    thinking, text = answer(read(COHERE, "cohere-reasoning.chunks.txt")).parts
    assert isinstance(thinking, ReasoningPart)
    assert isinstance(text, TextPart)
    assert text.content == "The answer to 2 + 2 is 4."
