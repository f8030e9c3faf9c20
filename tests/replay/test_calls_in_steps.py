"""Model calls whose messages are on other spans: on the step around each, as Mastra sends them, or on a call before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bare_spans import bare_span

from freezeframe_replay.sources.foreign import in_conventions, joined
from freezeframe_schemas import genai
from freezeframe_schemas.meaning import has_result, messages_of, request_meaning
from freezeframe_schemas.otlp.decode import decode_traces
from freezeframe_schemas.reported_calls import ReportedCall, reported_calls
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.wire.document import JsonObject, as_objects

RECORDED = Path(__file__).parents[1] / "data" / "otlp" / "mastra-chat-native" / "001.traces.pb"
TOOL = "execute_tool get_weather"


def recorded() -> list[SpanRecord]:
    return in_conventions(decode_traces(RECORDED.read_bytes()).spans)


def asked(call: ReportedCall) -> list[object]:
    return list(as_objects(request_meaning(call.attributes)["messages"]))


def test_a_request_has_the_calls_and_results_that_its_step_only_names() -> None:
    first, second = reported_calls(recorded())
    question = {"role": "user", "text": "What is the weather in Paris?"}
    assert asked(first) == [question]
    assert asked(second) == [
        question,
        {"call": "get_weather", "arguments": {"city": "Paris"}},
        {"result": "sunny in Paris, 21 degrees"},
    ]
    assert first.attributes[genai.RESPONSE_ID] == "chatcmpl-1"
    (answer,) = messages_of(first.attributes, genai.OUTPUT_MESSAGES)
    assert [part["type"] for part in as_objects(answer["parts"])] == ["tool_call"]


def test_a_result_that_no_span_of_a_tool_holds_is_lost_and_not_empty() -> None:
    _, second = reported_calls([span for span in recorded() if span.name != TOOL])
    (part,) = [
        part
        for message in messages_of(second.attributes, genai.INPUT_MESSAGES)
        for part in as_objects(message["parts"])
        if part["type"] == "tool_call_response"
    ]
    assert not has_result(part)


def test_an_answer_that_a_sender_left_out_of_the_next_request_is_put_before_the_results_that_it_asked_for() -> None:
    """Once, whether it kept the text that came with two calls or not. A result whose call no answer has stays alone."""
    calls: list[JsonObject] = [{"type": "tool_call", "id": name, "name": "get", "arguments": {"at": name}} for name in "ab"]
    results = [{"role": "tool", "parts": [{"type": "tool_call_response", "id": name, "response": name}]} for name in "abz"]
    text = {"type": "text", "content": "I look."}
    question = {"role": "user", "parts": [{"type": "text", "content": "Where?"}]}
    answer = json.dumps([{"role": "assistant", "parts": [text, *calls]}])
    first = {genai.OPERATION_NAME: "chat", genai.INPUT_MESSAGES: json.dumps([question]), genai.OUTPUT_MESSAGES: answer}
    for kept in ([], [{"role": "assistant", "parts": [text]}]):
        later = {genai.OPERATION_NAME: "chat", genai.INPUT_MESSAGES: json.dumps([question, *kept, *results])}
        _, second = reported_calls([bare_span(first), bare_span(later, span_id="3" * 16)])
        assert asked(second) == [
            {"role": "user", "text": "Where?"},
            {"role": "assistant", "text": "I look."},
            *({"call": "get", "arguments": {"at": name}} for name in "ab"),
            *({"result": name} for name in "abz"),
        ]
        assert ("calls of tools in the request", "the answers before") in second.sources


def test_a_request_that_names_the_answer_before_it_is_of_that_run_and_keeps_its_own_messages() -> None:
    """With OpenAI's `previous_response_id`, a request holds only what is new."""
    question = [{"role": "user", "parts": [{"type": "text", "content": "Where?"}]}]
    call: JsonObject = {"type": "tool_call", "id": "c", "name": "get", "arguments": {}}
    result = [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "Lyon"}]}]
    first = {
        genai.OPERATION_NAME: "chat",
        genai.INPUT_MESSAGES: json.dumps(question),
        genai.OUTPUT_MESSAGES: json.dumps([{"role": "assistant", "parts": [call]}]),
        genai.RESPONSE_ID: "resp_1",
    }
    later = {
        "openinference.span.kind": "LLM",
        "llm.invocation_parameters": '{"previous_response_id": "resp_1"}',
        genai.INPUT_MESSAGES: json.dumps(result),
    }
    other = {**later, "llm.invocation_parameters": '{"previous_response_id": "resp_9"}'}
    traces = [bare_span(first), *(bare_span(made, trace_id=n * 32, span_id=n * 16) for n, made in (("5", later), ("6", other)))]
    run, stranger = joined([span] for span in traces)
    assert [len(run), len(stranger)] == [2, 1]
    assert asked(reported_calls(run)[1]) == [{"result": "Lyon"}]


@pytest.mark.parametrize(
    ("answers", "runs"),
    [(["in Lyon", "in Lyon"], 1), (["in Lyon", ""], 1), (["in Lyon", "in Bonn"], 2), (["in Lyon", "", "in Bonn"], 2)],
)
def test_a_call_that_is_reported_once_more_is_of_the_same_run_unless_its_answer_is_another(
    answers: list[str], runs: int
) -> None:
    """Some ids of answers repeat."""

    def call(number: int, said: str) -> list[SpanRecord]:
        told = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": said}]}])
        about = {genai.OPERATION_NAME: "chat", genai.RESPONSE_ID: "chatcmpl-1"}
        own = about | ({genai.OUTPUT_MESSAGES: told} if said else {})
        return [bare_span(own, trace_id=f"{number:032x}", span_id=f"{number:016x}")]

    assert len(joined(call(number, said) for number, said in enumerate(answers, 1))) == runs
