"""The transcript of a run: each message once, a call with its result, what changed, and what was cut or failed as it came."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from handmade_runs import conversation, make_run, model_call, told, tool_call

from freezeframe_replay.report.messages import MessagePart
from freezeframe_replay.report.outline import outline_run
from freezeframe_replay.report.render import outline_text
from freezeframe_replay.report.transcript import Transcript, TranscriptCall, Turn, make_transcript
from freezeframe_replay.report.transcript_text import passages
from freezeframe_replay.web.run_pages import run_page
from freezeframe_replay.web.step_pages import find_step, step_page
from freezeframe_schemas import genai, values
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Kind, Lane, Request, Response
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import SpanRecord

Message = dict[str, Any]
SYSTEM: Message = {"role": "system", "content": "Be brief."}
USER: Message = {"role": "user", "content": "Where is AC-1?"}


def asks(name: str, identity: str, **arguments: str) -> Message:
    """Return the message of a model that wants a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": identity, "type": "function", "function": function}]}


def received(identity: str, content: str) -> Message:
    """Return the message that gives the model a tool's result."""
    return {"role": "tool", "tool_call_id": identity, "content": content}


def chat(messages: Sequence[Message], answer: Message, **parameters: Any) -> Exchange:
    """Return a chat completion with these messages."""
    call = model_call("", "")
    choice = {"index": 0, "message": answer, "finish_reason": "tool_calls" if "tool_calls" in answer else "stop"}
    body = json.dumps({"id": "x", "model": "gpt-x", "choices": [choice]}).encode()
    asked = json.dumps({"model": "gpt-x", "messages": list(messages), **parameters}).encode()
    return replace(
        call,
        request=replace(call.request, body=asked),
        response=replace(call.response, chunks=(Chunk(data=body, offset_ns=5),)),
    )


def transcript(*exchanges: Exchange, inside: dict[int, int] | None = None) -> Transcript:
    return make_transcript(build_run(make_run(*exchanges, inside=inside)))


def turns(found: Transcript) -> list[Turn]:
    return [item for item in found.items if isinstance(item, Turn)]


def texts(parts: Sequence[MessagePart | TranscriptCall]) -> list[str]:
    return [part.text if isinstance(part, MessagePart) else part.name for part in parts]


CALLS = asks("track", "c1", order="AC-1")
ANSWER: Message = {"role": "assistant", "content": "It is in Lyon."}
FOUND = tool_call("track", {"place": "Lyon"}, order="AC-1")
FIRST = chat([SYSTEM, USER], CALLS)
SECOND = chat([SYSTEM, USER, CALLS, received("c1", '{"place": "Lyon"}')], ANSWER)


def test_the_texts_that_a_tool_yields_are_one_text() -> None:
    """As the caller sees it who puts them together; other items stay a list."""
    made = make_run(
        tool_call("read", {"yields": ["Your ", "order"], "return": None}), tool_call("read", {"yields": [1, 2], "return": None})
    )
    text, items = make_transcript(build_run(made)).items
    assert isinstance(text, TranscriptCall)
    assert isinstance(items, TranscriptCall)
    assert (text.result, items.result) == ("Your order", '{"yields": [1, 2], "return": null}')


def test_each_message_stands_once_and_a_call_with_its_result() -> None:
    """The second request holds all that was said before; none of it is shown again."""
    found = transcript(FIRST, FOUND, SECOND)
    one, two = found.items
    assert isinstance(one, Turn)
    assert isinstance(two, Turn)
    assert (one.instructions, texts(one.new), found.conversations) == ("Be brief.", ["Where is AC-1?"], 1)
    (call,) = one.answer
    assert isinstance(call, TranscriptCall)
    assert call.node is not None
    assert (call.name, call.arguments, call.result, call.received, call.node.step) == (
        "track",
        '{"order": "AC-1"}',
        '{"place": "Lyon"}',
        "",
        2,
    )
    assert (two.instructions, two.new, two.changes, texts(two.answer)) == ("", (), (), ["It is in Lyon."])


def test_what_the_model_was_told_is_shown_if_it_is_not_what_the_tool_answered() -> None:
    second = chat([SYSTEM, USER, CALLS, received("c1", "no such order")], ANSWER)
    (call,) = turns(transcript(FIRST, FOUND, second))[0].answer
    assert isinstance(call, TranscriptCall)
    assert (call.result, call.received) == ('{"place": "Lyon"}', "no such order")


def test_a_call_that_was_never_made_shows_what_the_model_was_told() -> None:
    """A tool outside every seam leaves only the message."""
    (call,) = turns(transcript(FIRST, SECOND))[0].answer
    assert isinstance(call, TranscriptCall)
    assert (call.node, call.result) == (None, '{"place": "Lyon"}')


def test_equal_calls_get_their_results_in_order() -> None:
    """Two calls with the same arguments in one answer, told apart by the model's ids."""
    both: Message = {
        "role": "assistant",
        "tool_calls": [*CALLS["tool_calls"], *asks("track", "c2", order="AC-1")["tool_calls"]],
    }
    later = chat([USER, both, received("c1", '"a"'), received("c2", '"b"')], ANSWER)
    steps = (tool_call("track", "a", order="AC-1"), tool_call("track", "b", order="AC-1"))
    first, second = turns(transcript(chat([USER], both), *steps, later))[0].answer
    assert isinstance(first, TranscriptCall)
    assert isinstance(second, TranscriptCall)
    assert [(first.result, first.received), (second.result, second.received)] == [("a", ""), ("b", "")]


LANES: dict[str, Callable[[int, int], Lane]] = {
    "tasks of gather": lambda number, _: (number,),
    "a task for each node of a graph": lambda number, call: (number, call),
    "agents inside an agent": lambda number, call: (4, 1, number, 0, call),
    "tools in threads": lambda number, call: (number, 7) if call == 1 else (number,),
    "the entry point and its tasks": lambda number, _: (number,) if number else (),
    "a task and the task that it starts": lambda number, _: (0,) * (number + 1),
}
"""Lane of a conversation's first model call (0), its tool call (1), and its second model call (2)."""


@pytest.mark.parametrize("are_ids_recorded", [True, False], ids=["ids on tools", "no ids on tools"])
@pytest.mark.parametrize("is_alike", [True, False], ids=["equal questions", "own questions"])
@pytest.mark.parametrize("lanes", LANES)
def test_conversations_side_by_side_keep_their_calls_if_these_are_numbered_alike(
    lanes: str, is_alike: bool, are_ids_recorded: bool
) -> None:
    """Three at a time; each call of a tool is `call_0`, and the results come in another order than the questions."""
    lane, (first, tool, second), count = LANES[lanes], ([], [], []), 3
    place = "here" if is_alike else "city {}"
    for number in range(count):
        user: Message = {"role": "user", "content": f"Weather in {place.format(number)}?"}
        call, result = asks("weather", "call_0", place=place.format(number)), f"sun {number}"
        told = received("call_0", json.dumps(result))
        first.append(replace(chat([user], call), lane=lane(number, 0)))
        tool.append(replace(tool_call("weather", result, place=place.format(number)), lane=lane(number, 1)))
        second.append(replace(chat([user, call, told], {"role": "assistant", "content": result}), lane=lane(number, 2)))
    entry, *spans = make_run(*first, *reversed(tool), *second[1:], second[0])
    at_once = [replace(span, end_time_unix_nano=spans[count].start_time_unix_nano) for span in spans[:count]]
    called = [
        replace(span, attributes={**span.attributes, **({genai.TOOL_CALL_ID: "call_0"} if are_ids_recorded else {})})
        for span in spans[count : 2 * count]
    ]
    found = make_transcript(build_run([entry, *at_once, *called, *spans[2 * count :]]))
    assert (found.conversations, len(found.items)) == (count, 2 * count)
    for number in range(count):
        asked, told_of = [turn for turn in turns(found) if turn.conversation == number + 1]
        (card,) = asked.answer
        assert isinstance(card, TranscriptCall)
        assert (card.result, card.received, texts(told_of.new), texts(told_of.answer)) == (
            f"sun {number}",
            "",
            [],
            [f"sun {number}"],
        )


def test_a_result_in_the_examples_of_another_prompt_is_not_what_the_model_was_told() -> None:
    """Its request names a call of the same id with other arguments."""
    example: list[Message] = [
        {"role": "user", "content": "Where is AC-9?"},
        asks("track", "c1", order="AC-9"),
        received("c1", '{"place": "Oslo"}'),
    ]
    found = turns(transcript(FIRST, FOUND, chat([*example, {"role": "user", "content": "And AC-2?"}], ANSWER), SECOND))
    (card,) = found[0].answer
    assert isinstance(card, TranscriptCall)
    assert (card.result, card.received) == ('{"place": "Lyon"}', "")


def test_what_changed_between_two_calls_is_said() -> None:
    """The system prompt, a parameter, the tools, and messages that were left out."""
    tools = [{"type": "function", "function": {"name": "track", "parameters": {}}}]
    first = chat([SYSTEM, USER], ANSWER, temperature=0, tools=tools)
    thanks: Message = {"role": "user", "content": "Thanks!"}
    second = chat([{**SYSTEM, "content": "Be long."}, USER, ANSWER, thanks], ANSWER, temperature=1, tools=[*tools, *tools])
    third = chat([SYSTEM, thanks], ANSWER, temperature=1)
    _, two, three = turns(transcript(first, second, third))
    assert two.instructions == "Be long."
    assert texts(two.new) == ["Thanks!"]
    assert two.changes == (
        "the system prompt changed since step 1",
        "the offered tools changed since step 1",
        "temperature: 0.0 → 1.0",
    )
    assert "3 earlier messages left out" in three.changes


def test_other_prompts_are_other_conversations() -> None:
    """A second agent of the run, and the first one afterwards."""
    other = chat([{"role": "user", "content": "Summarise."}], {"role": "assistant", "content": "Done."})
    found = transcript(FIRST, other, FOUND, SECOND)
    assert [turn.conversation for turn in turns(found)] == [1, 2, 1]
    assert turns(found)[2].new == ()


def test_the_same_request_again_is_named() -> None:
    _, again = turns(transcript(FIRST, FIRST))
    assert (again.changes, again.new) == (("the same messages as step 1",), ())


def test_attempts_of_a_call_are_counted_and_not_called_changes() -> None:
    """A client that says nothing of it sends the same request again after a status that allows that."""
    limited = replace(FIRST, response=Response(status=429))
    run = build_run(make_run(limited, limited, FIRST, FIRST))
    found = turns(make_transcript(run))
    assert [str(turn.node.attempt or "") for turn in found] == [*(f"attempt {number} of 3" for number in (1, 2, 3)), ""]
    assert [turn.changes for turn in found] == [(), (), (), ("the same messages as step 3",)]
    assert '<span class="warn">attempt 2 of 3</span>' in run_page(run, outline_run(run))
    assert "! 429, attempt 1 of 3" in outline_text(outline_run(run))
    assert "attempt 2 of 3  FAILED 429" in "".join(passage.text for passage in passages(make_transcript(run)))


def test_a_call_shows_how_many_messages_of_it_are_above() -> None:
    """With its history they are a link to its request; a new conversation has none."""
    run = build_run(make_run(FIRST, FOUND, SECOND))
    first, second = turns(make_transcript(run))
    assert (first.earlier, second.earlier) == (0, len(json.loads(run.exchanges[2].request.body)["messages"]))
    assert f'/steps/3#request">{second.earlier} earlier messages</a>' in run_page(run, outline_run(run))


def test_a_long_run_is_folded_except_at_its_ends_and_around_what_failed() -> None:
    """Each range is one line there and in the list of steps next to it; a short run is not folded."""
    calls = conversation(100)
    run = build_run(make_run(*calls[:60], replace(calls[60], response=Response(status=500)), *calls[61:]))
    page = run_page(run, outline_run(run))
    ranges = ["4–28", "29–53", "54–58", "64–88", "89–97"]
    folds = re.findall(r'<details class="folded" id="f-(s\d+)"><summary><b>Steps ([^<]*)</b>', page)
    assert [name for _, name in folds] == ranges
    assert re.findall(r'<a href="#f-(s\d+)"><span class="n">([^<]*)</span></a>', page) == folds
    assert page.count('<article class="turn"') == 100
    short = build_run(make_run(*conversation(40)))
    assert '<details class="folded"' not in run_page(short, outline_run(short))


def test_a_long_run_without_numbers_is_folded_by_the_number_of_its_calls() -> None:
    """As another instrumentation reports it."""
    run = build_run(told(make_run(*(tool_call("search", at, query=str(at)) for at in range(50)))))
    page = run_page(run, outline_run(run))
    assert re.findall(r'<details class="folded" id="f-x\w+"><summary><b>([^<]*)</b>', page) == ["25 calls", "19 calls"]


def test_an_answer_that_was_cut_is_shown_as_far_as_it_came() -> None:
    """With how it ended, and what was raised."""
    events = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"It is in "}}]}\n\ndata: {"choi'
    response = Response(
        status=200,
        headers=(("content-type", "text/event-stream"),),
        chunks=(Chunk(data=events[:60], offset_ns=2_000_000), Chunk(data=events[60:], offset_ns=3_000_000)),
        completion=Completion.BROKEN,
    )
    cut = replace(FIRST, response=response, error=values.encode_exception(ConnectionError("peer closed")))
    (turn,) = turns(transcript(cut))
    assert (texts(turn.answer), turn.cut, turn.error) == (["It is in "], "broken off", "ConnectionError: peer closed")
    assert turn.first_chunk_ms == 2


def test_an_error_of_the_provider_is_shown_in_its_own_words() -> None:
    body = b'{"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}'
    refused = replace(FIRST, response=replace(FIRST.response, status=429, chunks=(Chunk(data=body),)))
    (turn,) = turns(transcript(refused))
    assert "Rate limit reached" in turn.error
    assert turn.answer == ()


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("data:image/png;base64,iVBORw0KGgo=", True),
        ("data:image/svg+xml;base64,PHN2Zz4=", False),
        ("data:text/html;base64,PHN2Zz4=", False),
        ("https://example.org/a.png", False),
        ("data:image/png;base64,&quot; onerror=&quot;x", False),
    ],
)
def test_an_image_is_shown_if_it_can_hold_no_script(address: str, shown: bool) -> None:
    part = {"type": "image_url", "image_url": {"url": address}}
    run = build_run(make_run(chat([SYSTEM, {"role": "user", "content": [part]}], ANSWER)))
    page = run_page(run, outline_run(run))
    assert (f'<img src="{address}"' in page, "<img" in page) == (shown, shown)


@pytest.mark.parametrize(
    "chunk",
    [
        {"id": "d1", "score": 0.5, "content": "Unused goods"},
        {"page_content": "Unused goods", "metadata": {"source": "d1"}, "score": 0.5},
        [{"page_content": "Unused goods", "metadata": {"id": "d1"}}, 0.5],
        {"node": {"text": "Unused goods", "id": "d1"}, "score": 0.5},
    ],
)
def test_retrieved_chunks_are_shown_with_id_and_score(chunk: Any) -> None:
    """As plain dictionaries, and in the forms of LangChain and LlamaIndex."""
    retrieval = replace(tool_call("policy", [chunk], query="returns"), kind=Kind.RETRIEVAL)
    (call,) = transcript(retrieval).items
    assert isinstance(call, TranscriptCall)
    assert [(item.id, item.score, item.text) for item in call.documents] == [("d1", 0.5, "Unused goods")]


def test_a_call_that_two_instrumentations_report_stands_once() -> None:
    """In a run without exchanges; the ids that they give it may differ."""

    def reported(span: SpanRecord, identity: str) -> SpanRecord:
        asked = [{"role": "user", "parts": [{"type": "text", "content": "Where?"}]}]
        answered = [{"role": "assistant", "parts": [{"type": "tool_call", "id": identity, "name": "track", "arguments": {}}]}]
        said = {genai.INPUT_MESSAGES: json.dumps(asked), genai.OUTPUT_MESSAGES: json.dumps(answered)}
        return replace(span, attributes={genai.OPERATION_NAME: genai.OP_CHAT, **said})

    entry, one, other = make_run(FIRST, FIRST)
    run = build_run([replace(entry, attributes={}), reported(one, "a"), reported(other, "b")])
    assert len(make_transcript(run).items) == 1
    page = run_page(run, outline_run(run), tab="kit")
    assert "Name the command that starts it" in page
    assert "Reconstructed from the spans of another instrumentation" in page


def test_nested_steps_name_the_step_around_them() -> None:
    found = transcript(FOUND, FIRST, inside={1: 0})
    assert isinstance(found.items[1], Turn)
    assert found.items[1].node.inside == 1


@pytest.mark.parametrize(
    "text", ["[" * 5000, "[" * 700 + "]" * 700, '{"a":' * 3000 + "1" + "}" * 3000, "\ud800", "null", "[1, [null], {}]", '"']
)
def test_no_value_of_a_recording_keeps_the_page_from_being_shown(text: str) -> None:
    """Nested without end, half a character, values where messages belong."""
    spans = make_run(FIRST, replace(FOUND, request=Request(body=text.encode(errors="surrogatepass"))))
    spans[1] = spans[1].with_attributes({genai.INPUT_MESSAGES: text, genai.OUTPUT_MESSAGES: text, genai.TOOL_DEFINITIONS: text})
    run = build_run(spans)
    outline = outline_run(run)
    step = find_step(outline, "2")
    assert step is not None
    assert "step 2" in step_page(run, outline, step, {})
    assert "<main" in run_page(run, outline)


@pytest.mark.long
def test_a_thousand_steps_and_five_megabytes_stay_small() -> None:
    """Each part of the transcript below 100 kB compressed, and each page of a body below 64 kB; all steps are there."""
    messages: list[Message] = []
    exchanges: list[Exchange] = []
    for number in range(500):
        if number % 50 == 0:
            messages = [SYSTEM, {**USER, "content": f"Where is lot {number}?"}]
        call, order = asks("track", f"c{number}", order=f"AC-{number}"), f"{number * 7919 % 1000003:x} in place {number}"
        exchanges += [chat(messages, call), replace(tool_call("track", order, order=f"AC-{number}"), call_id=f"c{number}")]
        messages += [call, received(f"c{number}", order)]
    long = " ".join(f"{number * 48271 % 2147483647:x}" for number in range(600_000))
    run = build_run(make_run(*exchanges, chat([USER], {"role": "assistant", "content": long})))
    outline = outline_run(run)
    found: set[str] = set()
    part = 1
    while True:
        page = run_page(run, outline, part=part)
        assert len(gzip.compress(page.encode())) < 100_000
        found |= {str(node.step) for node in outline.nodes if f'id="s{node.step}"' in page}
        if f'href="?from={part + 1}"' not in page:
            break
        part += 1
    assert found == {str(number) for number in range(1, 1002)}
    step = find_step(outline, "1001")
    assert step is not None
    page = step_page(run, outline, step, {"response": "40"})
    assert len(gzip.compress(page.encode())) < 64_000
    assert "page 40 of" in page
