"""A run that never finished is compared as far as its recording goes; what comes after that is not judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade_runs import make_run, model_call, tool_call

from freezeframe.seams import Call
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas import genai, values
from freezeframe_schemas.divergence import DivergenceKind, Report
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Completion, Exchange, Response
from freezeframe_schemas.fixture import load_fixture, write_fixture
from freezeframe_schemas.lifecycle import NO_PARENT
from freezeframe_schemas.run import Run, build_run
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.verdict import Verdict, exit_code, headline, verdict


def cut_short(*exchanges: Exchange, without: int | None = None, **options: Any) -> Run:
    """Return a run of these calls without its entry span, and without the call number `without`."""
    entry, *steps = make_run(*exchanges, **options)
    pending = replace(
        entry,
        span_id="ff" * 8,
        parent_span_id=entry.span_id,
        end_time_unix_nano=entry.start_time_unix_nano,
        attributes={name: value for name, value in entry.attributes.items() if name != genai.ENTRY_OUTPUT}
        | {genai.ENTRY_BEGUN: NO_PARENT},
    )
    steps = [
        step.with_attributes({genai.EXCHANGE_INSIDE: step.parent_span_id}) if step.parent_span_id != entry.span_id else step
        for step in steps
    ]
    ended: list[SpanRecord] = [step for number, step in enumerate(steps, 1) if number != without]
    return build_run([pending, *ended])


def replay(run: Run, *calls: Exchange, returns: str | None = None) -> Report:
    """Return the report of a program that makes these calls, in their lanes, and stops a lane at its first miss."""
    session = ReplaySession(freeze(run))
    session.enter("agent:answer", values.encode({"args": ["where is it?"], "kwargs": {}}))
    missed: set[object] = set()
    for asked in calls:
        if asked.lane in missed:
            continue
        try:
            session.respond(Call(kind=asked.kind, name=asked.name, seam=asked.seam, request=asked.request, lane=asked.lane))
        except ReplayMiss:
            missed.add(asked.lane)
    if missed:
        session.leave(None, values.encode_exception(ReplayMiss("stopped")))
    elif returns is not None:
        session.leave(values.encode(returns), None)
    return session.report()


ONE, TWO, THREE = tool_call("look", 1, 1), tool_call("look", 2, 2), model_call("where?", "here")


def test_what_the_program_asks_for_where_the_recording_ends_is_neither_identical_nor_diverged() -> None:
    report = replay(cut_short(ONE, TWO), ONE, TWO, THREE)
    assert headline(report) == (
        "identical up to where the recording ends, except the outcome (not recorded) and 1 call beyond it"
        f" (model POST /v1/chat/completions): 2 of 2 steps; the run never finished, run {report.run_id}"
    )
    assert (verdict(report), exit_code(report), report.divergences) == (Verdict.IDENTICAL, 0, ())


def test_an_outcome_that_an_unfinished_run_never_had_is_not_compared() -> None:
    report = replay(cut_short(ONE, TWO), ONE, TWO, returns="another one")
    assert headline(report) == (
        "identical up to where the recording ends, except the outcome (not recorded):"
        f" 2 of 2 steps; the run never finished, run {report.run_id}"
    )


@pytest.mark.parametrize(
    ("calls", "kind"),
    [
        ((tool_call("look", 1, 7), TWO, THREE), DivergenceKind.REQUEST_CHANGED),
        ((ONE, tool_call("look", 1, 7), THREE), DivergenceKind.REQUEST_CHANGED),
        ((ONE,), DivergenceKind.MISSING_CALL),
    ],
)
def test_a_change_before_the_recording_ends_is_a_divergence(calls: tuple[Exchange, ...], kind: DivergenceKind) -> None:
    report = replay(cut_short(ONE, TWO), *calls, returns="here")
    assert verdict(report) is Verdict.DIVERGED
    assert report.first is not None and report.first.kind is kind


def test_a_run_that_ended_before_its_first_call_compares_nothing() -> None:
    report = replay(cut_short(), ONE)
    assert (verdict(report), exit_code(report)) == (Verdict.INCOMPARABLE, 125)
    assert "the recording ends before its first call" in headline(report)


def test_each_lane_goes_as_far_as_its_own_recording() -> None:
    left, right = (replace(step, lane=(lane,)) for lane, step in enumerate((ONE, TWO)))
    beyond = replace(THREE, lane=(0,))
    report = replay(cut_short(left, right), left, beyond, right)
    assert verdict(report) is Verdict.IDENTICAL
    assert "2 of 2 steps" in headline(report)
    report = replay(cut_short(left, right), left, beyond)
    assert "1 step that the replay did not reach: 1 of 2 steps" in headline(report)


def test_what_happened_inside_a_call_that_never_ended_is_not_asked_for() -> None:
    run = cut_short(ONE, TWO, THREE, inside={2: 1}, without=2)
    assert [step.exchange.name for step in freeze(run).askable] == ["look"]
    report = replay(run, ONE, TWO)
    assert headline(report).startswith("identical up to where the recording ends, except the outcome (not recorded) and 1 call")


def test_a_fixture_keeps_that_its_run_never_finished(tmp_path: Any) -> None:
    fixture = freeze(cut_short(ONE))
    write_fixture(fixture, tmp_path / "killed")
    assert load_fixture(tmp_path / "killed").entry == fixture.entry
    assert fixture.entry.unfinished


def test_only_what_is_tried_after_the_last_step_is_beyond_the_recording() -> None:
    early, late = (ReplaySession(freeze(cut_short(ONE, TWO))) for _ in range(2))
    for session, asked in ((early, (ONE,)), (late, (ONE, TWO))):
        session.enter("agent:answer", values.encode({"args": ["where is it?"], "kwargs": {}}))
        for call in asked:
            session.respond(Call(kind=call.kind, name=call.name, seam=call.seam, request=call.request))
        assert session.calls_at_the_end() == (None if session is early else 2)
        session.network_tried("10.0.0.1:5432")
    assert headline(early.report()).startswith("incomparable: REPLAY-106 a client that no seam covers")
    assert "and 1 call beyond it (connection 10.0.0.1:5432): 2 of 2 steps" in headline(late.report())


def test_a_call_that_the_run_abandoned_is_waited_for_before_the_recording_ends() -> None:
    given_up = replace(tool_call("look", 2, None), response=Response(completion=Completion.NONE), error=None)
    seen: list[int | None] = []
    session = ReplaySession(freeze(cut_short(ONE, given_up)), on_divergence=lambda: seen.append(session.calls_at_the_end()))
    session.enter("agent:answer", values.encode({"args": ["where is it?"], "kwargs": {}}))
    for call in (ONE, given_up):
        answer = session.respond(Call(kind=call.kind, name=call.name, seam=call.seam, request=call.request))
    assert answer is not None
    with pytest.raises(ReplayMiss):
        session.turn_in_thread(answer)
    assert seen == [None]
    assert verdict(session.report()) is Verdict.DIVERGED
