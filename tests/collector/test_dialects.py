"""Vendors' spans read as the GenAI conventions: golden results of real instrumentations, and the laws of the stage.

Write the golden files again with ``UPDATE_GOLDEN=1``, then read the diff as code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bare_spans import bare_span
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_schemas import genai
from freezeframe_schemas.coding_agents import coding_agent
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Kind, Request, Response, exchange_attributes
from freezeframe_schemas.otlp.decode import Limits, decode_traces
from freezeframe_schemas.otlp.logs import decode_json_logs, decode_logs
from freezeframe_schemas.otlp.sessions import in_session
from freezeframe_schemas.span import AttributeValue, Event, Scope, SpanRecord, StatusCode
from freezeframe_schemas.vendors import haystack
from freezeframe_schemas.vendors.normalise import normalise

TESTS = Path(__file__).parents[1]
RECORDED = TESTS / "data" / "otlp"
GOLDEN = TESTS / "golden" / "otlp"
SCENARIOS = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())


def spans_of(scenario: str) -> list[SpanRecord]:
    """Return the scenario's spans as they came, log events included."""
    spans: list[SpanRecord] = []
    for path in sorted((RECORDED / scenario).glob("*.traces.pb")):
        decoded = decode_traces(path.read_bytes())
        assert decoded.faults == []
        spans.extend(decoded.spans)
    for path in sorted((RECORDED / scenario).glob("*.logs.*")):
        decode = decode_logs if path.suffix == ".pb" else decode_json_logs
        spans.extend(decode(path.read_bytes(), Limits()).events.spans)
    return spans


def _readable(value: AttributeValue) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return list(value) if isinstance(value, tuple) else value


def _added(span: SpanRecord) -> dict[str, Any]:
    found = normalise(span).attributes
    return {name: _readable(found[name]) for name in sorted(found) if found[name] != span.attributes.get(name)}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_recorded_instrumentation_gives_its_golden_attributes(scenario: str) -> None:
    """What each span gains is written down, span by span."""
    found = [{"scope": span.scope.name, "span": span.name, "gains": _added(span)} for span in spans_of(scenario)]
    file = GOLDEN / f"{scenario}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert found == json.loads(file.read_text())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_normalising_changes_nothing_twice_and_removes_nothing(scenario: str) -> None:
    """The stage is idempotent, and every attribute that the sender wrote is still there."""
    for span in spans_of(scenario):
        once = normalise(span)
        assert normalise(once) == once
        assert span.attributes.keys() <= once.attributes.keys()
        changed = {name for name, value in span.attributes.items() if once.attributes[name] != value}
        if once.text(genai.OPERATION_NAME) == genai.OP_REQUEST_STREAM:
            changed.discard(genai.OPERATION_NAME)
        assert changed <= {genai.RESPONSE_FINISH_REASONS, genai.REQUEST_STOP_SEQUENCES}


def _said(messages: Sequence[Any]) -> list[tuple[str, str, str]]:
    """Return (role, kind, text) of each part, without the differences in how instrumentations write them."""
    parts: list[tuple[str, str, str]] = []
    for message in messages:
        for part in message["parts"]:
            value = part.get("content", part.get("arguments", part.get("response")))
            if isinstance(value, list):  # a text in a list of one content block
                value = value[0].get("text", value)
            if isinstance(value, str) and value.startswith("{"):
                value = json.loads(value)
            text = f"{part['name']} {json.dumps(value)}" if part["type"] == "tool_call" else str(value)
            parts.append((message["role"], part["type"], text))
    return parts


WEATHER = "Today, the weather in Seattle is 50 degrees and raining, while in San Francisco, it's 70 degrees and sunny."
CALLS = [name for name in SCENARIOS if name.startswith("openai-chat-") and name != "openai-chat-v2old"]


@pytest.mark.parametrize("scenario", CALLS)
def test_one_conversation_reads_the_same_through_each_instrumentation(scenario: str) -> None:
    """The same two calls, recorded by each instrumentation: the same messages, tokens and model after normalising."""
    found = [normalise(span) for span in spans_of(scenario)]
    calls = [span for span in found if span.text(genai.OPERATION_NAME) == "chat" and genai.EVENT_NAME not in span.attributes]
    answers = sorted(
        (span.integer(genai.USAGE_INPUT_TOKENS) or 0, _said(json.loads(span.text(genai.OUTPUT_MESSAGES) or "[]")))
        for span in calls
    )
    assert answers == [
        (
            75,
            [
                ("assistant", "tool_call", 'get_current_weather {"location": "Seattle, WA"}'),
                ("assistant", "tool_call", 'get_current_weather {"location": "San Francisco, CA"}'),
            ],
        ),
        (
            99,
            [("assistant", "text", WEATHER)],
        ),
    ]
    for span in calls:
        roles = [role for role, _, _ in _said(json.loads(span.text(genai.INPUT_MESSAGES) or "[]"))]
        assert roles in (["system", "user"], ["system", "user", "assistant", "assistant", "tool", "tool"])
        assert span.text(genai.PROVIDER_NAME) == "openai"
        assert span.text(genai.REQUEST_MODEL) == "gpt-4o-mini"


FRAMEWORKS = ("adk-gemini-latest", "adk-gemini-v1", "mlflow-chat-autolog", "strands-chat-latest", "strands-chat-native")


@pytest.mark.parametrize("scenario", FRAMEWORKS)
def test_one_agent_reads_the_same_through_each_framework(scenario: str) -> None:
    """The same agent in each framework: its two calls and its tool call say the same after normalising."""
    found = [normalise(span) for span in spans_of(scenario)]
    calls = [span for span in found if span.text(genai.OPERATION_NAME) in ("chat", "generate_content")]
    answers = [_said(json.loads(span.text(genai.OUTPUT_MESSAGES) or "[]")) for span in calls]
    assert answers == [
        [("assistant", "tool_call", 'get_weather {"city": "Paris"}')],
        [("assistant", "text", "It is sunny in Paris, 21 degrees.")],
    ]
    for span in calls:
        asked = _said(json.loads(span.text(genai.INPUT_MESSAGES) or "[]"))
        assert ("user", "text", "What is the weather in Paris?") in asked
        system = json.loads(span.text(genai.SYSTEM_INSTRUCTIONS) or "[]") or json.loads(str(span.text(genai.INPUT_MESSAGES)))
        assert "You are a helpful assistant." in json.dumps(system)
        assert span.integer(genai.USAGE_INPUT_TOKENS) == 40
    [tool] = [span for span in found if span.text(genai.OPERATION_NAME) == "execute_tool"]
    assert span_json(tool, genai.TOOL_CALL_ARGUMENTS) == {"city": "Paris"}
    assert "sunny in Paris, 21 degrees" in (tool.text(genai.TOOL_CALL_RESULT) or "")


def span_json(span: SpanRecord, name: str) -> Any:
    """Return the JSON of a text attribute."""
    return json.loads(span.text(name) or "null")


def test_message_events_of_old_log_records_are_read() -> None:
    """Each log record is a span below its call, with the message in the conventions' form."""
    events = [span for span in spans_of("openai-chat-v2old") if genai.EVENT_NAME in span.attributes]
    assert len(events) == 9
    said: list[tuple[str, str, str]] = []
    for event in events:
        attributes = normalise(event).attributes
        for name in (genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES):
            said.extend(_said(json.loads(str(attributes.get(name, "[]")))))
    assert said[:4] == [
        ("system", "text", "You're a helpful assistant."),
        ("user", "text", "What's the weather in Seattle and San Francisco today?"),
        ("assistant", "tool_call", 'get_current_weather {"location": "Seattle, WA"}'),
        ("assistant", "tool_call", 'get_current_weather {"location": "San Francisco, CA"}'),
    ]
    calls = {span.span_id for span in spans_of("openai-chat-v2old") if genai.EVENT_NAME not in span.attributes}
    assert {event.parent_span_id for event in events} == calls


def test_message_events_on_a_span_are_read() -> None:
    """Conventions 1.28 put the messages on the span as events."""
    span = _span(
        {genai.PAST_SYSTEM: "openai"},
        events=(
            Event(time_unix_nano=1, name=genai.PAST_MESSAGE_EVENTS[1], attributes={"content": "hello"}),
            Event(
                time_unix_nano=2,
                name=genai.PAST_CHOICE_EVENT,
                attributes={"index": 0, "finish_reason": "stop", "message": '{"role": "assistant", "content": "hi"}'},
            ),
        ),
    )
    attributes = normalise(span).attributes
    assert json.loads(str(attributes[genai.INPUT_MESSAGES])) == [
        {"role": "user", "parts": [{"type": "text", "content": "hello"}]}
    ]
    assert json.loads(str(attributes[genai.OUTPUT_MESSAGES])) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "hi"}], "finish_reason": "stop"}
    ]


def _span(attributes: dict[str, AttributeValue], scope: str = "", events: tuple[Event, ...] = ()) -> SpanRecord:
    return bare_span(attributes, events=events, scope=Scope(name=scope))


def test_an_exchange_span_without_attributes_is_filled_in() -> None:
    """The recorded bytes of an OpenAI call give the attributes that its sender left out."""
    request = b'{"model":"gpt-4o","messages":[{"role":"user","content":"hello"}]}'
    answer = (
        b'{"id":"c1","model":"gpt-4o-x","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}]}'
    )
    exchange = Exchange(
        kind=Kind.MODEL,
        name="POST /v1/chat/completions",
        seam="httpx",
        request=Request(method="POST", url="https://api.openai.com/v1/chat/completions", body=request),
        response=Response(
            status=200,
            headers=(("content-type", "application/json"),),
            chunks=(Chunk(data=answer),),
            completion=Completion.COMPLETE,
        ),
    )
    attributes = normalise(_span(exchange_attributes(exchange), genai.SCOPE)).attributes
    assert attributes[genai.PROVIDER_NAME] == "openai"
    assert attributes[genai.RESPONSE_MODEL] == "gpt-4o-x"
    assert "hi" in str(attributes[genai.OUTPUT_MESSAGES])
    assert attributes[genai.NORMALISED_FROM] == "exchange"


def test_a_failed_call_is_of_the_class_that_its_event_names() -> None:
    """Only if the sender says no class itself; our own spans say it in their own way."""
    raised = Event(time_unix_nano=1, name="exception", attributes={genai.EXCEPTION_TYPE: "openai.RateLimitError"})
    called: dict[str, AttributeValue] = {genai.OPERATION_NAME: genai.OP_CHAT}
    plain: dict[str, AttributeValue] = {"http.request.method": "GET"}
    for attributes, scope, kind in (
        (called, "logfire", "openai.RateLimitError"),
        ({**called, genai.ERROR_TYPE: "429"}, "logfire", "429"),
        (called, genai.SCOPE, None),
        (plain, "requests", None),
    ):
        span = replace(_span(attributes, scope, (raised,)), status_code=StatusCode.ERROR)
        assert normalise(span).attributes.get(genai.ERROR_TYPE) == kind


def test_costs_are_read_as_their_senders_name_them() -> None:
    """LiteLLM's and Logfire's."""
    for name in (genai.LITELLM_COST, "operation.cost"):
        assert normalise(_span({name: 0.25})).attributes[genai.USAGE_COST_USD] == 0.25


def test_a_span_that_no_dialect_knows_is_the_same_object() -> None:
    """Not a copy, not a mark: unchanged."""
    span = _span({"http.request.method": "GET"}, "requests")
    assert normalise(span) is span


_NAMES = st.sampled_from(
    [
        "openinference.span.kind",
        "llm.input_messages.0.message.role",
        "llm.input_messages.0.message",
        "llm.input_messages.x.message.tool_calls.0.tool_call.function",
        "llm.tools.0.tool.json_schema",
        "llm.invocation_parameters",
        "output.value",
        "ai.operationId",
        "ai.prompt.messages",
        "ai.prompt",
        "ai.prompt.tools",
        "ai.response.toolCalls",
        "langfuse.observation.type",
        "langfuse.observation.input",
        "langfuse.observation.output",
        "langsmith.span.kind",
        "langsmith.metadata.usage_metadata",
        "traceloop.span.kind",
        "llm.request.functions.0.parameters",
        "request_data",
        "response_data",
        "events",
        "pydantic_ai.all_messages",
        "model_request_parameters",
        genai.PAST_PROMPT,
        genai.PAST_COMPLETION,
        f"{genai.PAST_PROMPT}.0.content",
        f"{genai.PAST_PROMPT}.0.tool_calls.0.name",
        f"{genai.PAST_COMPLETION}.99999999999.role",
        genai.EVENT_NAME,
        genai.EVENT_BODY,
        genai.EXCHANGE_KIND,
        genai.RESPONSE_BODY,
        genai.RESPONSE_CHUNK_SIZES,
        genai.REQUEST_HEADERS,
        genai.HTTP_RESPONSE_STATUS_CODE,
    ]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["user", "tool", "text"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["messages", "role", "content", "type", "lc", "id", "kwargs", "choices", "message", "input"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_VALUES = st.one_of(
    _JSON.map(json.dumps),
    st.sampled_from(
        ["LLM", "TOOL", "llm", "tool", "ai.toolCall", "ai.x.doGenerate", "ai.generateText", "agent", "model", "generation"]
    ),
    st.sampled_from([*genai.PAST_MESSAGE_EVENTS, genai.PAST_CHOICE_EVENT]),
    st.text(max_size=8),
    st.integers(-5, 700),
    st.binary(max_size=4),
    st.lists(st.text(max_size=3), max_size=3).map(tuple),
    st.none(),
)


@given(
    attributes=st.dictionaries(_NAMES, _VALUES, max_size=10),
    scope=st.sampled_from(["", "logfire.openai", "pydantic-ai", "ai"]),
)
def test_no_attributes_break_the_stage(attributes: dict[str, AttributeValue], scope: str) -> None:
    """Whatever a sender writes under a vendor's names, the stage gives a span, and the same one again."""
    event = Event(time_unix_nano=1, name=genai.PAST_CHOICE_EVENT, attributes=attributes)
    once = normalise(_span(attributes, scope, (event,)))
    assert normalise(once) == once
    assert attributes.keys() <= once.attributes.keys()


_SESSIONS = ("claudecode-msg-written", "claudecode-session-native", "codexcli-resp-native", "geminicli-gemini-native")
_RECORDS = [span for scenario in _SESSIONS for span in spans_of(scenario)]


@given(span=st.sampled_from(_RECORDS), draw=st.data())
def test_no_value_breaks_the_reading_of_a_coding_agents_record(span: SpanRecord, draw: st.DataObject) -> None:
    """Whatever is written under the names that it uses: one span, which has all of it and does not end before it starts."""
    names = st.sampled_from(sorted({*span.attributes, "duration_ms", "error", "success", "status_code", "cost_usd"}))
    attributes = {**span.attributes, **draw.draw(st.dictionaries(names, _VALUES, max_size=4))}
    agent = coding_agent(span.scope.name, span.name)
    assert agent is not None
    placed = in_session(replace(span, attributes=attributes), agent)
    assert 0 <= placed.start_time_unix_nano <= placed.end_time_unix_nano == span.end_time_unix_nano
    once = normalise(placed)
    assert normalise(once) == once
    assert placed.attributes.items() <= once.attributes.items()
    assert sorted(map(repr, placed.attributes.values())) == sorted(map(repr, attributes.values()))


def test_two_spellings_of_one_index_are_read() -> None:
    """An index is a number, however it is written; having two of it is not a reason to lose the span."""
    attributes = {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "a", "gen_ai.prompt.00.content": "b"}
    span = _span({**attributes, genai.OPERATION_NAME: "chat"}, "opentelemetry.instrumentation.openai")
    assert "a" in str(normalise(span).attributes[genai.INPUT_MESSAGES])


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        ("oaiagents-weather-logfire", ["chat", "chat", "execute_tool get_weather", "invoke_agent Weatherman"]),
        ("llamaindex-weather-oi", ["chat", "chat", "execute_tool get_weather"]),
        ("llamaindex-weather-tl", ["execute_tool get_weather"]),
        ("crewai-twice-oi", ["chat", "chat", "execute_tool get_weather", "invoke_agent Weatherman"]),
    ],
)
def test_an_agents_calls_tools_and_name_are_read_once_each(scenario: str, expected: list[str]) -> None:
    """Helper spans that look like a call or a tool are neither; each call has its prompt and its answer."""
    spans = [normalise(span) for span in spans_of(f"../otlp_agents/{scenario}")]
    told = [span for span in spans if span.text(genai.OPERATION_NAME) not in (None, genai.OP_INVOKE_WORKFLOW)]
    names = [span.text(genai.TOOL_NAME) or span.text(genai.AGENT_NAME) or "" for span in told]
    assert (
        sorted(f"{span.text(genai.OPERATION_NAME)} {name}".strip() for span, name in zip(told, names, strict=True)) == expected
    )
    calls = [span for span in told if span.text(genai.OPERATION_NAME) == genai.OP_CHAT]
    assert all(
        {genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES, genai.RESPONSE_FINISH_REASONS} <= span.attributes.keys() for span in calls
    )


LANGFUSE_ANSWERS = [
    ('[{"role": "user", "content": "hi"}]', "hello"),
    ("hi", "hello"),
    ('{"messages": [{"role": "user", "content": "hi"}]}', '{"role": "assistant", "content": "hello"}'),
    ('{"messages": [{"role": "user", "content": "hi"}]}', '{"choices": [{"message": {"content": "hello"}}]}'),
    ('{"input": "hi"}', '{"type": "message", "content": [{"type": "output_text", "text": "hello"}]}'),
    (
        "hi",
        '[{"type": "reasoning", "summary": []}, {"type": "message", "content": [{"type": "output_text", "text": "hello"}]}]',
    ),
    ('[{"role": "user", "content": [{"type": "text", "text": "hi"}]}]', '[{"role": "assistant", "content": "hello"}]'),
    ('{"messages": [{"role": "user", "content": "hi"}], "tools": []}', '{"content": "hello", "additional_kwargs": {}}'),
    (
        '[{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]',
        '[{"role": "assistant", "parts": [{"type": "text", "content": "hello"}]}]',
    ),
]


@pytest.mark.parametrize(("given", "answer"), LANGFUSE_ANSWERS)
def test_langfuse_says_what_was_asked_and_answered_in_each_form_that_its_integrations_send(given: str, answer: str) -> None:
    about = {"type": "generation", "input": given, "output": answer, "model.name": "m"}
    counts = {"usage_details": '{"input": 3, "output": 2, "input_cached_tokens": 1}', "cost_details": '{"total": 0.5}'}
    found = normalise(_span({f"langfuse.observation.{name}": value for name, value in {**about, **counts}.items()})).attributes
    said = [
        (part["type"], part["content"])
        for name in (genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES)
        for message in json.loads(str(found[name]))
        for part in message["parts"]
        if part["type"] == "text"
    ]
    assert said == [("text", "hi"), ("text", "hello")]
    assert (found[genai.REQUEST_MODEL], found[genai.USAGE_INPUT_TOKENS], found[genai.USAGE_OUTPUT_TOKENS]) == ("m", 3, 2)
    assert (found[genai.USAGE_CACHE_READ_TOKENS], found[genai.USAGE_COST_USD]) == (1, 0.5)


def test_media_of_openinference_are_read_in_the_span_or_where_it_put_them() -> None:
    """An uploader puts large images and documents elsewhere, and their address in the place of the data URL."""
    content = "llm.input_messages.0.message.contents.{}.message_content.{}"
    addresses = {
        "image": "s3://media/a.png",
        "document": "s3://media/b.pdf",
        "audio": "data:audio/wav;base64,UklGRg==",
        "video": "",
    }
    attributes = {"openinference.span.kind": "LLM", "llm.input_messages.0.message.role": "user"}
    for place, (kind, url) in enumerate(addresses.items()):
        attributes |= {content.format(place, "type"): kind}
        attributes |= {content.format(place, f"{kind}.{kind}.url"): url} if url else {}
    [message] = json.loads(normalise(bare_span(attributes)).text(genai.INPUT_MESSAGES) or "")
    assert message["parts"] == [
        {"type": "uri", "modality": "image", "uri": "s3://media/a.png"},
        {"type": "uri", "modality": "document", "uri": "s3://media/b.pdf"},
        {"type": "blob", "modality": "audio", "mime_type": "audio/wav", "content": "UklGRg=="},
        {"type": "video"},
    ]


@pytest.mark.parametrize("name", ["LM.__call__", "Agent._run", "OpenAI.chat", "x._y.__call__"])
def test_a_model_call_of_openinference_counts_whatever_its_method_is_called(name: str) -> None:
    """Only LlamaIndex marks methods of its own around a call as calls."""
    call = replace(_span({"openinference.span.kind": "LLM", "llm.model_name": "m"}), name=name)
    inner = replace(call, scope=Scope(name="openinference.instrumentation.llama_index", version="4"))
    assert normalise(call).text(genai.OPERATION_NAME) == "chat"
    assert normalise(inner).text(genai.OPERATION_NAME) == (None if "._" in name else "chat")


def test_the_anthropic_sdk_says_why_its_answer_ended() -> None:
    found = normalise(_span({"anthropic.message.stop_reason": "tool_use", genai.OPERATION_NAME: "chat"}))
    assert found.attributes[genai.RESPONSE_FINISH_REASONS] == ("tool_use",)


HAYSTACK = "ChatMessage(_role=<ChatRole.{}: '{}'>, _content=[{}], _name=None, _meta={{'finish_reason': {!r}}})"


@pytest.mark.parametrize(
    "text",
    ["plain", 'it\'s "quoted"', "<ChatRole.USER: 'user'>", "ChatMessage(_role=", "a\nb\\c", "ünï 😀", "TextContent(text='x')"],
)
def test_haystacks_texts_of_messages_are_read_whatever_they_quote(text: str) -> None:
    call = "ToolCall(tool_name='look_up', arguments={'of': " + repr(text) + "}, id='c1', extra=None)"
    asked = [
        HAYSTACK.format("USER", "user", f"TextContent(text={text!r})", None),
        HAYSTACK.format("ASSISTANT", "assistant", call, "tool_calls"),
        HAYSTACK.format("TOOL", "tool", f"ToolCallResult(result={text!r}, origin={call}, error=False)", None),
    ]
    assert [(message["content"], message.get("tool_call_id"), reason) for message, reason in haystack.read_texts([*asked])] == [
        (text, None, None),
        (None, None, "tool_calls"),
        (text, "c1", None),
    ]


@pytest.mark.parametrize(
    "text",
    [
        HAYSTACK.format("USER", "user", "ImageContent(image=<object at 0x7f>)", None),
        HAYSTACK.format("USER", "user", "TextContent(text=open('x'))", None).replace("open('x')", "1 + [2]"),
        HAYSTACK.format("USER", "user", "TextContent(text='" + "x" * 1_000_000 + "')", None),
        HAYSTACK.format("USER", "user", "[" * 5_000 + "]" * 5_000, None),
        "ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='cut",
        "a text of another sender",
    ],
)
def test_haystacks_text_that_cannot_be_read_leaves_the_messages_to_the_attributes(text: str) -> None:
    assert haystack.read_texts([HAYSTACK.format("USER", "user", "TextContent(text='hi')", None), text]) == []
