"""Rows for the evaluations of other tools: question and answer of a run, or of one of its model calls. Pure."""

from __future__ import annotations

import json
import pprint
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from freezeframe_replay.sources.exports.chat import answered, input_messages, tools_offered
from freezeframe_schemas import genai
from freezeframe_schemas.reported_calls import reported_calls
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_objects, dump, parse

_DIGITS: Final = 8
"""Digits of the run's id in the name of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetExample:
    name: str
    messages: Sequence[JsonObject]
    """The question, as OpenAI's chat messages."""
    answer: JsonObject
    """The answer, as such a message."""
    tools: Sequence[JsonValue]
    about: JsonObject
    """Its source."""

    @property
    def expected(self) -> str:
        """Return the answer as text: its tool calls as JSON, if it has no words."""
        content = self.answer.get("content")
        return content if isinstance(content, str) and content else dump(self.answer.get("tool_calls") or content)


def examples_of(run_id: str, spans: Sequence[SpanRecord], *, each_call: bool) -> Iterator[DatasetExample]:
    """Yield a run's rows: one with its first question and its result or last answer, or one for each model call.

    Calls whose spans lack the request or the answer are left out.
    """
    calls: list[DatasetExample] = []
    for reported in reported_calls(spans):
        messages = input_messages(reported.attributes)
        answer = answered(reported.attributes)
        if not messages or answer is None:
            continue
        number = len(calls) + 1
        model = reported.attributes.get(genai.REQUEST_MODEL)
        about: JsonObject = {"run": run_id, "model": model if isinstance(model, str) else None}
        if each_call:
            about["call"] = number
        calls.append(
            DatasetExample(
                name=f"{run_id[:_DIGITS]}-{number}" if each_call else run_id,
                messages=messages,
                answer=answer,
                tools=tools_offered(reported.attributes),
                about=about,
            )
        )
    if each_call:
        yield from calls
    elif calls:
        first, output = calls[0], _output(spans)
        reply: JsonObject = calls[-1].answer if output is None else {"role": "assistant", "content": output}
        yield DatasetExample(name=run_id, messages=first.messages, answer=reply, tools=first.tools, about=first.about)


def _output(spans: Sequence[SpanRecord]) -> str | None:
    """Return the run's result, if it is a text: a model may get another question after the answer."""
    output = next((text for span in spans if (text := span.text(genai.ENTRY_OUTPUT)) is not None), "")
    found = parse(output)
    return found if isinstance(found, str) else None


# -- one function a tool --------------------------------------------------------------------------------------------------


def openai_evals(example: DatasetExample) -> JsonObject:
    """Return a sample of openai/evals. Source: its ``docs/build-eval.md``."""
    return {"input": [*example.messages], "ideal": example.expected}


def inspect(example: DatasetExample) -> JsonObject:
    """Return a sample of Inspect. Source: https://inspect.aisi.org.uk/datasets.html, ``json_dataset``."""
    metadata: JsonObject = {**example.about, "tools": [*example.tools]}
    return {
        "id": example.name,
        "input": [*map(_for_inspect, example.messages)],
        "target": example.expected,
        "metadata": metadata,
    }


def _for_inspect(message: JsonObject) -> JsonObject:
    """Return a message whose calls are flat and parsed; Inspect requires a text, although a model may send none."""
    kept: JsonObject = {**message, "content": message.get("content") or ""}
    calls = as_objects(message.get("tool_calls"))
    if calls:
        flat: list[JsonValue] = [_flat(call) for call in calls]
        kept["tool_calls"] = flat
    return kept


def _flat(call: JsonObject) -> JsonObject:
    function: Any = call.get("function")
    try:
        arguments: Any = json.loads(function["arguments"])
    except ValueError:
        arguments = {"arguments": function["arguments"]}
    held = arguments if isinstance(arguments, dict) else {"arguments": arguments}
    return {"id": call.get("id") or "", "type": "function", "function": function["name"], "arguments": held}


def write_lines(examples: Iterable[DatasetExample], row: Callable[[DatasetExample], JsonObject]) -> Iterator[str]:
    """Yield a line of JSON for each example."""
    for example in examples:
        yield f"{dump(row(example))}\n"


def write_pytest(examples: Iterable[DatasetExample]) -> Iterator[str]:
    """Yield a module with the examples as parameters of a test: literals only, so importing it runs no code of a recording."""
    yield '"""Recorded runs as parameters of a test: `@pytest.mark.parametrize(("messages", "expected"), CASES)`."""\n\n'
    yield "import pytest\n\nCASES = [\n"
    for example in examples:
        values: list[JsonValue] = [[*example.messages], example.expected]
        shown = [pprint.pformat(json.loads(dump(value)), width=110) for value in values]
        lines = "".join(f"        {line}\n" for value in shown for line in f"{value},".split("\n"))
        yield f"    pytest.param(\n{lines}        id={example.name!r},\n    ),\n"
    yield "]\n"
