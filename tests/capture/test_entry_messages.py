"""A run's own span has its input and outcome as messages, if they are a text or messages; the user's exporters see them."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import freezeframe
from freezeframe import _instrument
from freezeframe._config import load_settings
from freezeframe.testing import MemoryExporter, capture
from freezeframe_schemas import genai

SCHEMAS = Path(__file__).parents[1] / "data" / "semconv_genai"
TURNS = [{"role": "user", "content": "Where is AC-1?"}, {"role": "assistant", "content": "Sent."}]


def said(text: str, role: str = "user", **more: str) -> dict[str, Any]:
    """Return a message of the conventions."""
    return {"role": role, "parts": [{"type": "text", "content": text}], **more}


def answered(text: str) -> list[Any]:
    """Return the messages of an outcome."""
    return [said(text, "assistant", finish_reason="stop")]


def asks(question: str) -> str:
    return f"About {question}"


def asks_for_someone(user: str, question: str) -> str:
    return f"{user}: {question}"


def goes_on(messages: list[Any]) -> list[Any]:
    return [*messages, {"role": "assistant", "content": "Gone."}]


def updates(state: dict[str, Any]) -> dict[str, Any]:
    return {"messages": goes_on(state["messages"])}


def counts(number: int) -> int:
    return number


def fails(question: str) -> str:
    raise ValueError(question)


def streams(question: str) -> Generator[str]:
    yield "About "
    yield question


def call(function: Callable[..., Any], *args: Any) -> None:
    """Call it as a run; an iterator is read."""
    try:
        result = freezeframe.run(function)(*args)
        if isinstance(result, Generator):
            list(result)
    except ValueError:
        pass


@pytest.mark.parametrize(
    ("function", "args", "asked", "answer"),
    [
        (asks, ("tea",), [said("tea")], answered("About tea")),
        (asks_for_someone, ("Ada", "tea"), [said("tea")], answered("Ada: tea")),
        (goes_on, (TURNS,), [said("Where is AC-1?"), said("Sent.", "assistant")], answered("Gone.")),
        (updates, ({"messages": TURNS},), [said("Where is AC-1?"), said("Sent.", "assistant")], answered("Gone.")),
        (streams, ("tea",), [said("tea")], answered("About tea")),
        (counts, (7,), None, None),
        (fails, ("tea",), [said("tea")], None),
        (asks, ("x" * 70_000,), None, None),
    ],
)
def test_the_runs_span_has_what_was_asked_and_answered(function: Any, args: Any, asked: Any, answer: Any) -> None:
    with capture() as captured:
        call(function, *args)
        [entry] = [span for span in captured.spans if genai.ENTRY_INPUT in span.attributes]
    for name, schema, expected in (
        (genai.INPUT_MESSAGES, "input", asked),
        (genai.OUTPUT_MESSAGES, "output", answer),
    ):
        found = json.loads(entry.text(name) or "null")
        assert found == expected
        if found is not None:
            rules = json.loads((SCHEMAS / f"gen-ai-{schema}-messages.json").read_text())
            Draft202012Validator(rules).validate(found)


def test_a_block_has_them_too_and_the_users_exporter_sees_them() -> None:
    theirs = InMemorySpanExporter()
    users = TracerProvider()
    users.add_span_processor(SimpleSpanProcessor(theirs))
    settings = load_settings({"root": "never"}, environ={})
    handle = _instrument.start_recording(settings, MemoryExporter(), provider=users, environment=dict)
    with freezeframe.run("support", input="tea", agent=True) as run:
        run.output = "About tea"
    handle.flush(5)
    handle.uninstrument()
    [seen] = theirs.get_finished_spans()  # and no mark that it began
    assert json.loads(str((seen.attributes or {})[genai.INPUT_MESSAGES])) == [said("tea")]
    assert json.loads(str((seen.attributes or {})[genai.OUTPUT_MESSAGES])) == answered("About tea")
