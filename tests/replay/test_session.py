"""The session answers exactly what was recorded, tells equal requests apart, and names the first difference."""

from __future__ import annotations

import threading
from asyncio import CancelledError
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from handmade_runs import make_run, model_call, tool_call

from freezeframe.seams import Call
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_replay.report.report_text import report_text
from freezeframe_schemas import genai, values
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Exchange, Lane
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import Verdict, verdict


def call_of(exchange: Exchange, *, lane: Lane | None = None) -> Call:
    """Return the call that a program makes when it repeats `exchange`."""
    return Call(
        kind=exchange.kind,
        name=exchange.name,
        seam=exchange.seam,
        request=exchange.request,
        lane=exchange.lane if lane is None else lane,
    )


def session_of(spans: list[Any], **options: Any) -> ReplaySession:
    return ReplaySession(freeze(build_run(spans)), **options)


def answer_to(session: ReplaySession, call: Call) -> Exchange:
    """Return the session's answer; nothing goes live without a policy that says so."""
    answer = session.respond(call)
    assert answer is not None
    return answer


def finish(session: ReplaySession, answer: Any = "here") -> None:
    session.leave(values.encode(answer), None)


def start(session: ReplaySession, question: str = "where is it?") -> None:
    session.enter("agent:answer", values.encode({"args": [question], "kwargs": {}}))


def test_an_equal_program_gets_the_recorded_answers_and_no_divergence() -> None:
    steps = [model_call("a", "use the tool"), tool_call("look", {"n": 1}, "x"), model_call("b", "done")]
    session = session_of(make_run(*steps))
    start(session)
    for step in steps:
        assert answer_to(session, call_of(step)).response == step.response
    finish(session)
    report = session.report()
    assert verdict(report) is Verdict.IDENTICAL
    assert [(item.step, item.how) for item in report.served] == [(1, "exact"), (2, "exact"), (3, "exact")]


def test_a_changed_message_is_named_by_step_and_path_with_what_it_would_have_returned() -> None:
    session = session_of(make_run(model_call("a", "first"), model_call("b", "second")))
    start(session)
    answer_to(session, call_of(model_call("a", "")))
    with pytest.raises(ReplayMiss):
        answer_to(session, call_of(model_call("changed", "")))
    first = session.report().first
    assert first is not None
    assert first.kind is DivergenceKind.REQUEST_CHANGED
    assert (first.step, first.path) == (2, "$.body.messages[0].content")
    assert (first.recorded, first.live) == ('"b"', '"changed"')
    assert "second" in (first.would_have_returned or "")
    assert first.differed == ("body.messages",)


def test_a_difference_far_into_a_long_text_is_shown_in_a_line_and_kept_whole() -> None:
    """Also what comes long after it, and an additional call whose request is long."""
    long, other = (f"{'before ' * 60}{word}{' after' * 60}, the end" for word in ("Lyon", "Bonn"))
    session = session_of(make_run(model_call(long, "first")))
    start(session)
    with pytest.raises(ReplayMiss):
        answer_to(session, call_of(model_call(other, "")))
    first = session.report().first
    assert first is not None and first.live is not None and first.recorded is not None
    assert len(first.live) < 200 and "Bonn" in first.live and "the end" not in first.live
    assert (first.whole_recorded, first.whole_live) == (f'"{long}"', f'"{other}"')
    text = report_text(session.report(), whole=True)
    assert f"\n  - {long}\n  + {other}\n" in text
    assert f"\n  - {long}" not in report_text(session.report(), width=10_000)


def test_a_miss_is_not_caught_by_except_exception() -> None:
    session = session_of(make_run(model_call("a", "first")))
    with pytest.raises(ReplayMiss):
        try:
            answer_to(session, call_of(model_call("other", "")))
        except Exception:
            pytest.fail("an agent's `except Exception` swallowed the miss")


def test_identical_requests_in_different_lanes_get_their_own_answers_whatever_the_scheduler_does() -> None:
    steps = [model_call("same", f"answer {n}", lane=(n,)) for n in range(8)]
    session = session_of(make_run(*steps))
    barrier = threading.Barrier(8)

    def ask(n: int) -> bytes:
        barrier.wait()
        return answer_to(session, call_of(steps[n])).response.body

    with ThreadPoolExecutor(8) as pool:
        bodies = list(pool.map(ask, range(8)))
    assert bodies == [step.response.body for step in steps]
    assert {item.how for item in session.report().served} == {"exact"}


def test_identical_requests_in_one_lane_are_answered_in_the_recorded_order() -> None:
    steps = [model_call("same", "one"), model_call("same", "two")]
    session = session_of(make_run(*steps))
    assert [answer_to(session, call_of(step)).response.body for step in steps] == [step.response.body for step in steps]


def test_one_more_equal_request_than_recorded_is_an_extra_call() -> None:
    step = model_call("same", "one")
    session = session_of(make_run(step))
    answer_to(session, call_of(step))
    with pytest.raises(ReplayMiss, match="already used"):
        answer_to(session, call_of(step))
    assert session.report().divergences[0].kind is DivergenceKind.EXTRA_CALL
    assert [made.how for made in session.report().made] == ["exact", "missed"]


def test_a_recorded_step_never_asked_for_is_a_missing_call() -> None:
    session = session_of(make_run(model_call("a", "1"), tool_call("look", 2)))
    start(session)
    answer_to(session, call_of(model_call("a", "")))
    finish(session)
    assert [(item.kind, item.step) for item in session.report().divergences] == [(DivergenceKind.MISSING_CALL, 2)]


@pytest.mark.proof("code REPLAY-107")
def test_steps_asked_for_in_another_order_are_served_and_reported() -> None:
    steps = [tool_call("first", 1), tool_call("second", 2)]
    session = session_of(make_run(*steps))
    start(session)
    for step in reversed(steps):
        answer_to(session, call_of(step))
    finish(session)
    assert [item.kind for item in session.report().divergences] == [DivergenceKind.ORDER_CHANGED]


def test_another_answer_from_the_entry_point_is_a_changed_outcome() -> None:
    session = session_of(make_run(model_call("a", "1"), answer="wrong order"))
    start(session)
    answer_to(session, call_of(model_call("a", "")))
    finish(session, "right order")
    (only,) = session.report().divergences
    assert (only.kind, only.path) == (DivergenceKind.OUTCOME_CHANGED, "$.returned")
    assert "wrong" in (only.recorded or "") and "right" in (only.live or "")


def test_other_input_is_reported_and_the_replay_goes_on() -> None:
    session = session_of(make_run(model_call("a", "1")))
    start(session, "something else?")
    answer_to(session, call_of(model_call("a", "")))
    finish(session)
    assert [item.kind for item in session.report().divergences] == [DivergenceKind.INPUT_CHANGED]


def test_a_call_inside_a_recorded_tool_is_neither_asked_for_nor_missed() -> None:
    outer, inner = tool_call("research", "found"), model_call("sub-agent", "thinking")
    session = session_of(make_run(outer, inner, inside={1: 0}))
    start(session)
    answer_to(session, call_of(outer))
    finish(session)
    report = session.report()
    assert verdict(report) is Verdict.IDENTICAL
    assert report.steps == 1


@pytest.mark.parametrize(
    ("recorded", "live"), [(1, True), (1, 1.0), (0, False), (0.0, -0.0), ([1], [True]), ({"n": 1}, {"n": 1.0})]
)
def test_values_that_python_calls_equal_are_not_the_same_argument(recorded: Any, live: Any) -> None:
    session = session_of(make_run(tool_call("count", "x", recorded)))
    start(session)
    with pytest.raises(ReplayMiss):
        session.respond(call_of(tool_call("count", "x", live)))
    assert [item.kind for item in session.report().divergences] == [DivergenceKind.REQUEST_CHANGED]


def test_an_ignored_component_does_not_decide() -> None:
    session = session_of(make_run(model_call("a", "1", model="old")), policy=ReplayPolicy(ignore=("body.model",)))
    assert answer_to(session, call_of(model_call("a", "", model="new"))).response.status == 200


def test_an_ignored_component_that_differed_before_the_run_left_the_recording_is_warned_of() -> None:
    run = make_run(model_call("a", "1", model="old"), model_call("b", "2", model="old"))
    session = session_of(run, policy=ReplayPolicy(ignore=("body.model",)))
    answer_to(session, call_of(model_call("a", "", model="new")))
    answer_to(session, call_of(model_call("b", "", model="new")))
    finish(session)
    assert session.report().warnings == ()
    left = session_of(run, policy=ReplayPolicy(ignore=("body.model", "body.seed")))
    answer_to(left, call_of(model_call("a", "", model="new")))
    with pytest.raises(ReplayMiss):
        answer_to(left, call_of(model_call("c", "", model="new")))
    (warning,) = left.report().warnings
    assert warning.startswith("body.model is ignored and differed from step 1 on, and then the run diverged")


def test_a_program_that_never_reaches_its_entry_point_is_not_called_identical() -> None:
    report = session_of(make_run(model_call("a", "1"))).report()
    assert not report.entered
    assert verdict(report) is not Verdict.IDENTICAL


def test_the_host_of_a_model_call_never_decides() -> None:
    step = model_call("a", "1")
    session = session_of(make_run(step))
    moved = replace(step.request, url="http://127.0.0.1:9999/v1/chat/completions")
    assert answer_to(session, replace(call_of(step), request=moved)).response == step.response


def test_after_a_network_try_the_missing_steps_are_not_blamed() -> None:
    session = session_of(make_run(model_call("a", "1")))
    start(session)
    assert isinstance(session.network_tried("10.0.0.1:443"), ReplayMiss)
    report = session.report()
    assert report.sockets_tried == 1
    assert [item.kind for item in report.divergences] == [DivergenceKind.NETWORK]


def test_an_exception_instead_of_the_answer_is_the_divergence_and_not_the_calls_it_kept_from_being_made() -> None:
    session = session_of(make_run(model_call("a", "1"), model_call("b", "2")))
    start(session)
    session.leave(None, values.encode_exception(RuntimeError("no key")))
    (only,) = session.report().divergences
    assert (only.kind, only.path) == (DivergenceKind.OUTCOME_CHANGED, "$.raised")
    assert "no key" in (only.live or "")


def test_a_run_that_its_caller_ended_is_said_to_be_that() -> None:
    """A browser that goes away cancels the request; no one cancels the replay."""
    run = make_run(model_call("a", "1"))
    run[0] = run[0].with_attributes({genai.ERROR_CHAIN: values.encode_exception(CancelledError())})
    session = session_of(run)
    start(session)
    answer_to(session, call_of(model_call("a", "1")))
    finish(session)
    (only,) = session.report().divergences
    assert "ended from outside (CancelledError)" in only.note


def test_changed_input_comes_before_what_follows_from_it() -> None:
    session = session_of(make_run(model_call("a", "1")))
    start(session, "something else?")
    with pytest.raises(ReplayMiss):
        answer_to(session, call_of(model_call("something else?", "")))
    assert [item.kind for item in session.report().divergences] == [
        DivergenceKind.INPUT_CHANGED,
        DivergenceKind.REQUEST_CHANGED,
    ]
