"""What varies by itself is told apart from what changed, by what runs that asked the same show, and only by that."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from handmade_runs import make_run, model_call, tool_call

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.operations.diff import varying_fields
from freezeframe_replay.report.align import StepPair, compare_runs
from freezeframe_schemas.exchange import Exchange
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import build_run


def recorded(*steps: Exchange, question: str = "where?") -> Fixture:
    return freeze(build_run(make_run(*steps, question=question)))


def tracked(ticket: str, place: str = "Lyon") -> Fixture:
    return recorded(model_call("a", "1"), tool_call("track", {"ticket": ticket, "place": place}, order="AC-1"))


def paths(pair: StepPair) -> tuple[list[str], list[str]]:
    """Return what changed in an answer, and what varies by itself."""
    return [item.path for item in pair.response], [item.path for item in pair.varying]


def compared(one: Fixture, other: Fixture, *others: Fixture) -> list[StepPair]:
    varying = varying_fields((side, run) for run in others for side in (one, other))
    return list(compare_runs(one, other, varying).pairs)


def test_what_differed_each_time_that_the_same_was_asked_is_told_apart_from_what_changed() -> None:
    pair = compared(tracked("t-1"), tracked("t-2", "Bonn"), tracked("t-3"), tracked("t-4"))[1]
    assert paths(pair) == (["$.result.place"], ["$.result.ticket"])
    assert pair.says_otherwise


@pytest.mark.parametrize("others", [(), (tracked("t-1"),)], ids=["no other run", "one in which it stayed"])
def test_without_evidence_or_against_it_a_difference_is_a_change(others: tuple[Fixture, ...]) -> None:
    """One that stayed in a run that asked the same does not vary by itself; nor does what nobody else asked."""
    pair = compared(tracked("t-1"), tracked("t-2"), *others)[1]
    assert paths(pair) == (["$.result.ticket"], [])


def test_what_a_model_says_and_a_program_asks_is_never_taken_for_noise() -> None:
    """However often it varies: leaving it out would make every run the same."""
    runs = [recorded(model_call("a", f"said {number}"), tool_call("look", 1, f"asked {number}")) for number in range(4)]
    first, second = compared(*runs)
    assert paths(first) == (["$.messages[0].parts[0].content"], [])
    assert [item.path for item in second.request] == ["$.args[0]"]
    assert not second.varying


def test_a_call_is_made_anew_in_each_answer_and_known_again_where_it_is_repeated() -> None:
    """Without another run: the name that a model gives a call of a tool, in its answer and in the next request."""

    def run(name: str) -> Fixture:
        asked, answered = model_call("a", "b"), model_call("a", "b")
        call = {"id": name, "type": "function", "function": {"name": "track", "arguments": "{}"}}
        said = {"choices": [{"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}
        history = {"model": "m", "messages": [{"role": "tool", "tool_call_id": name, "content": "Lyon"}]}
        first = replace(
            asked, response=replace(asked.response, chunks=(replace(asked.response.chunks[0], data=json.dumps(said).encode()),))
        )
        return recorded(first, replace(answered, request=replace(answered.request, body=json.dumps(history).encode())))

    pairs = compared(run("call_aaaaaaaaaa"), run("call_bbbbbbbbbb"))
    assert [pair.says_otherwise for pair in pairs] == [False, False]
    assert [item.path for item in pairs[0].varying] == ["$.messages[0].parts[0].id"]
    assert [item.path for item in pairs[1].varying] == ["$.body.messages[0].tool_call_id"]


def test_a_request_says_what_varies_only_while_nothing_before_it_differs() -> None:
    """Else what followed from another input would be taken for noise."""

    def run(number: int, question: str) -> Fixture:
        call = model_call("a", "1")
        body = {**json.loads(call.request.body), "reference": f"u-{number}"}
        return recorded(replace(call, request=replace(call.request, body=json.dumps(body).encode())), question=question)

    same = [run(number, "where?") for number in range(4)]
    other = [run(number, f"where is {number}?") for number in range(4)]
    assert [item.path for item in compared(*same)[0].varying] == ["$.body.reference"]
    assert [item.path for item in compared(*other)[0].request] == ["$.body.reference"]
