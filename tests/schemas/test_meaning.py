"""What makes two model calls say the same, and what does not."""

from __future__ import annotations

import json
from typing import Any

import effort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freezeframe_schemas import genai
from freezeframe_schemas.meaning import answer_parts, contents_of, request_meaning

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "parts", "type", "content", "id", "name", "arguments", "response", "text", "functionCall"]
            ),
            inner | st.sampled_from(["text", "tool_call", "tool_call_response", "reasoning", "tool_use"]),
            max_size=5,
        )
    ),
    max_leaves=12,
)


def meaning(*messages: dict[str, Any], **attributes: Any) -> dict[str, Any]:
    found = request_meaning({genai.INPUT_MESSAGES: json.dumps(messages), **attributes})
    return {name: found[name] for name in ("system", "messages")}


def text(role: str, *texts: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": one} for one in texts]}


def call(call_id: str | None, arguments: Any) -> dict[str, Any]:
    part = {"type": "tool_call", "id": call_id, "name": "add", "arguments": arguments}
    return {"role": "assistant", "parts": [part]}


def result(call_id: str | None, response: Any) -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": response}]}


SAME = {
    "words of frameworks": (text("human", "hi"), text("user", "hi")),
    "texts in parts": (text("user", "a", "b"), text("user", "a\nb")),
    "a developer is the system": (text("developer", "be brief"), text("system", "be brief")),
    "ids": (call("call_1", {"a": 2}), call("fc_9", {"a": 2})),
    "arguments as text": (call("1", '{"a": 2.0, "b": "x"}'), call("1", {"b": "x", "a": 2})),
    "a result in its wrapper": (result("1", [{"type": "text", "text": "5"}]), result("1", {"type": "text", "value": "5"})),
    "a result as JSON text": (result("1", '{"n": 5}'), result("1", {"n": 5})),
    "a number as text": (result("1", 5), result("1", "5")),
}
DIFFERENT = {
    "a word": (text("user", "hi"), text("user", "hey")),
    "who said it": (text("user", "hi"), text("assistant", "hi")),
    "the system text": (text("system", "be brief"), text("system", "be long")),
    "an argument": (call("1", {"a": 2}), call("1", {"a": 3})),
    "a text in place of a number": (call("1", {"a": 2}), call("1", {"a": "2"})),
    "a result": (result("1", "5"), result("1", "6")),
    "a number in an object": (result("1", {"n": 5}), result("1", {"n": "5"})),
}


@pytest.mark.parametrize("name", SAME)
def test_calls_that_say_the_same(name: str) -> None:
    one, other = SAME[name]
    assert meaning(one) == meaning(other)


@pytest.mark.parametrize("name", DIFFERENT)
def test_calls_that_say_something_else(name: str) -> None:
    one, other = DIFFERENT[name]
    assert meaning(one) != meaning(other)


def test_results_stand_in_the_order_of_their_calls() -> None:
    asked = [call("1", {"a": 1}), call("2", {"a": 2})]
    assert meaning(*asked, result("1", "x"), result("2", "y")) == meaning(*asked, result("2", "y"), result("1", "x"))
    assert meaning(*asked, result("1", "x"), result("2", "y")) != meaning(*asked, result("1", "y"), result("2", "x"))


def test_the_system_text_is_the_same_wherever_it_stands() -> None:
    instructions = json.dumps([{"type": "text", "content": "be brief"}])
    beside = meaning(text("user", "hi"), **{genai.SYSTEM_INSTRUCTIONS: instructions})
    assert beside == meaning(text("system", "be brief"), text("user", "hi"))


@settings(max_examples=effort.examples(300))
@given(messages=JSON, system=JSON, tools=JSON)
def test_nothing_that_a_span_holds_raises(messages: Any, system: Any, tools: Any) -> None:
    attributes = {
        genai.INPUT_MESSAGES: json.dumps(messages),
        genai.OUTPUT_MESSAGES: json.dumps(messages),
        genai.SYSTEM_INSTRUCTIONS: json.dumps(system),
        genai.TOOL_DEFINITIONS: json.dumps(tools),
    }
    json.dumps(request_meaning(attributes))
    contents_of(answer_parts(attributes))


def test_calls_and_results_that_litellm_writes_around_the_parts_are_read() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"of": "Rome"}'}}
    asked: list[dict[str, Any]] = [
        {"role": "user", "parts": [{"type": "text", "content": "Hot?"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": ""}], "tool_calls": [call]},
        {"role": "tool", "parts": [{"type": "text", "content": "40 C"}], "tool_call_id": "c1"},
    ]
    assert request_meaning({genai.INPUT_MESSAGES: json.dumps(asked)})["messages"] == [
        {"role": "user", "text": "Hot?"},
        {"call": "weather", "arguments": {"of": "Rome"}},
        {"result": "40 C"},
    ]
    answered = {
        genai.OUTPUT_MESSAGES: '[{"role": "assistant", "parts": [], "finish_reason": "tool_calls"}]',
        f"{genai.PAST_COMPLETION}.0.function_call.name": "weather",
        f"{genai.PAST_COMPLETION}.0.function_call.arguments": '{"of": "Rome"}',
        f"{genai.PAST_COMPLETION}.1.function_call.name": "now",
    }
    assert [(part["name"], part["arguments"]) for part in answer_parts(answered)] == [
        ("weather", '{"of": "Rome"}'),
        ("now", None),
    ]
