"""What is said about a report: never more than was compared, with what was not compared on the same line."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_schemas import values
from freezeframe_schemas.divergence import (
    Ambiguous,
    Check,
    Divergence,
    DivergenceKind,
    LiveCall,
    Made,
    Relaxed,
    Report,
    Served,
    Stopped,
    Uncompared,
    Why,
)
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import Entry
from freezeframe_schemas.verdict import (
    Verdict,
    exit_code,
    headline,
    judged_to_json,
    not_compared,
    title,
    verdict,
    why_incomparable,
    why_nothing_to_check,
)

WHOLE = Report(
    run_id="r1",
    steps=2,
    served=(Served(step=1, how="exact"), Served(step=2, how="exact")),
    entered=True,
    input_check=Check.SAME,
    outcome_check=Check.SAME,
)
STOPPED = Stopped(step=2, call_kind="tool", name="track", request="", recorded="", answer="")


def value(why: Why) -> Uncompared:
    """Return a private value that was not compared."""
    return Uncompared(class_name="EMAIL", surrogate="u7k3q9x2mfa@dq2x7kq.example.com", why=why, step=1)


reports = st.builds(
    Report,
    run_id=st.just("r1"),
    steps=st.integers(0, 2),
    served=st.sets(st.integers(1, 2)).map(lambda steps: tuple(Served(step=step, how="exact") for step in sorted(steps))),
    divergences=st.lists(st.builds(Divergence, kind=st.sampled_from(DivergenceKind)), max_size=2).map(tuple),
    live=st.lists(st.builds(LiveCall, call_kind=st.just("model"), name=st.just("m"), step=st.none()), max_size=1).map(tuple),
    entered=st.booleans(),
    outcome=st.none() | st.just("1"),
    input_check=st.sampled_from(Check),
    outcome_check=st.sampled_from(Check),
    stopped=st.none() | st.just(STOPPED),
    uncompared=st.lists(st.sampled_from(Why).map(value), max_size=2).map(tuple),
    requires_values=st.booleans(),
    reconstructed=st.booleans(),
)


@given(report=reports)
def test_identical_is_said_only_where_something_was_compared_and_nothing_differed(report: Report) -> None:
    if verdict(report).agrees:
        assert (verdict(report) is Verdict.SAME_IN_MEANING) == report.reconstructed
        assert report.entered
        assert not report.divergences
        assert report.stopped is None
        assert report.served or report.outcome_check is Check.SAME
        assert len(report.served) >= report.steps
        assert not (report.requires_values and report.uncompared)


def test_a_replay_that_skips_changed_code_says_so_and_never_identical() -> None:
    changed = replace(WHOLE.served[0], changed_code="shop.py:17")
    skipped = replace(WHOLE, served=(changed, WHOLE.served[1]), names={"1": "tool refund", "2": "model"})
    assert verdict(skipped) is Verdict.INCOMPARABLE
    assert headline(skipped) == (
        "incomparable: tool refund (shop.py:17) changed since the recording; its new code was not run; "
        "the rest is identical: 2 of 2 steps and the outcome, run r1"
    )


def test_code_that_could_not_be_read_is_named() -> None:
    unread = replace(WHOLE, served=(replace(WHOLE.served[0], relaxed=(Relaxed.CODE,)), WHOLE.served[1]))
    assert headline(unread).startswith("identical, except changes of the code behind a call (it could not be read) in 1 step: ")


@pytest.mark.parametrize("said", Verdict)
def test_two_verdicts_agree(said: Verdict) -> None:
    assert said.agrees == (said in {Verdict.IDENTICAL, Verdict.SAME_IN_MEANING})


@given(report=reports)
def test_incomparable_has_a_reason_and_nothing_else_has(report: Report) -> None:
    assert (why_incomparable(report) is not None) == (verdict(report) is Verdict.INCOMPARABLE) == (exit_code(report) == 125)


@given(report=reports)
def test_the_headline_is_one_line_that_begins_with_the_verdict_or_the_code(report: Report) -> None:
    first = headline(report)
    assert first.count("\n") == 0
    begins = {
        Verdict.IDENTICAL: "identical",
        Verdict.SAME_IN_MEANING: "same in meaning, reconstructed",
        Verdict.INCOMPARABLE: "incomparable: ",
        Verdict.DIVERGED: "REPLAY-1",
    }
    assert first.startswith(begins[verdict(report)])


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "identical: 2 of 2 steps and the outcome, run r1"),
        (
            {"inside": 3},
            "identical: 2 of 2 steps and the outcome (3 more inside other steps, which answer for them), run r1",
        ),
        (
            {"steps": 0, "served": ()},
            "identical: the outcome (the run recorded no calls), run r1",
        ),
        (
            {"outcome_check": Check.NOT_RECORDED},
            "identical, except the outcome (not recorded): 2 of 2 steps, run r1",
        ),
        (
            {"input_check": Check.NOT_SEEN, "outcome_check": Check.NOT_SEEN},
            "identical, except the input and the outcome (not seen by the replay): 2 of 2 steps, run r1",
        ),
        (
            {
                "served": (
                    Served(step=1, how="relaxed", relaxed=(Relaxed.CLOCK, "body.temperature")),
                    Served(step=2, how="exact"),
                )
            },
            "identical, except times read from the clock in 1 step and body.temperature in 1 step (ignored): 2 of 2 steps and "
            "the outcome, run r1",
        ),
        (
            {"uncompared": (value(Why.KEY),)},
            "identical, except 1 private value that needs the key to compare: 2 of 2 steps and the outcome, run r1",
        ),
        (
            {"uncompared": (value(Why.KEY), value(Why.DERIVED), value(Why.KEY), value(Why.SHARED), value(Why.INPUT))},
            "identical, except 2 private values that need the key to compare, 1 private value made from a surrogate, 1 private "
            "value whose surrogate also stands for others and 1 private value of the caller's own input: 2 of 2 steps and the "
            "outcome, run r1",
        ),
        (
            {"made": (Made(call_kind="database", name="sqlite INSERT", how="exact", step=1),)},
            "identical, except commits and rollbacks (not recorded): 2 of 2 steps and the outcome, run r1",
        ),
        (
            {"ambiguous": (Ambiguous(steps=(1, 2), why="x"),)},
            "identical, except which answer belongs to which of 1 pair of steps: 2 of 2 steps and the outcome, run r1",
        ),
        (
            {"served": (Served(step=1, how="exact"),), "live": (LiveCall(call_kind="model", name="m", step=2),)},
            "identical, except 1 call made for real: 1 of 2 steps and the outcome, run r1",
        ),
        (
            {"begun_inside": True},
            "identical, except the steps before the border at which the replay began: 2 of 2 steps and the outcome, run r1",
        ),
        (
            {"exit_status": 1},
            "identical, except the program's exit status (1): 2 of 2 steps and the outcome, run r1",
        ),
        (
            {"unheard": ("exit",)},
            "identical, except the program's exit status (not recorded): 2 of 2 steps and the outcome, run r1",
        ),
        (
            {
                "served": (
                    Served(step=1, how="relaxed", relaxed=(Relaxed.NAMES, Relaxed.PLACE)),
                    Served(step=2, how="relaxed", relaxed=(Relaxed.PLACE,)),
                )
            },
            "identical, except 2 steps asked at a different place: 2 of 2 steps and the outcome, run r1",
        ),
        (
            {"input_relaxed": (Relaxed.NAMES, Relaxed.OBJECTS), "outcome_relaxed": (Relaxed.CLOCK,)},
            "identical, except objects compared by class only in the input and times read from the clock in the outcome: "
            "2 of 2 steps and the outcome, run r1",
        ),
        (
            {"served": tuple(Served(step=step, how="relaxed", relaxed=(Relaxed.TIMEOUT,)) for step in (1, 2))},
            "identical, except the timeout of 2 calls (not known exactly): 2 of 2 steps and the outcome, run r1",
        ),
        (
            {"unfinished": True, "beyond": ("model chat", "model chat", "tool track")},
            "identical up to where the recording ends, except 3 calls beyond it (model chat, tool track): 2 of 2 steps and the "
            "outcome; the run never finished, run r1",
        ),
        (
            {"unfinished": True, "steps": 4, "beyond": ("model chat",)},
            "identical up to where the recording ends, except 1 call beyond it (model chat) and 2 steps that the replay did "
            "not reach: 2 of 4 steps and the outcome; the run never finished, run r1",
        ),
    ],
)
def test_what_was_not_compared_is_on_the_line_of_the_verdict(changes: dict[str, Any], line: str) -> None:
    assert headline(replace(WHOLE, **changes)) == line


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"steps": 0, "served": (), "outcome_check": Check.NOT_RECORDED},
            "nothing was compared: the run recorded no calls, and no outcome",
        ),
        (
            {"steps": 0, "served": (), "outcome_check": Check.NOT_SEEN},
            "nothing was compared: the run recorded no calls, and the replay did not see its outcome",
        ),
        (
            {"steps": 0, "served": (), "inside": 2, "outcome_check": Check.NOT_RECORDED},
            "nothing was compared: the run recorded no call that a replay asks for, and no outcome",
        ),
        (
            {"steps": 0, "served": (), "unfinished": True, "outcome_check": Check.NOT_RECORDED},
            "nothing was compared: the recording ends before its first call, since the run never finished",
        ),
        ({"served": (Served(step=1, how="exact"),)}, "1 of 2 recorded steps are not accounted for"),
        (
            {"served": (Served(step=1, how="exact"),), "live": (LiveCall(call_kind="model", name="m", step=None),)},
            "1 of 2 recorded steps are not accounted for",
        ),
        (
            {"uncompared": (value(Why.KEY),), "requires_values": True},
            "every private value had to be compared; not compared: 1 private value that needs the key to compare",
        ),
        (
            {"uncompared": (value(Why.COMPUTED), value(Why.KEY))},
            "what differs may be derived from 1 private value (a length, a sum of digits, a part or an order), and is not "
            "comparable without the original",
        ),
        ({"stopped": STOPPED}, "it was stopped before step 2, as asked"),
        ({"entered": False}, "the program never reached the recorded entry point"),
    ],
)
def test_where_nothing_was_compared_the_exit_code_is_125_and_the_reason_is_said(changes: dict[str, Any], why: str) -> None:
    report = replace(WHOLE, **changes)
    assert (exit_code(report), headline(report)) == (125, f"incomparable: {why}, run r1")


def test_json_says_what_the_other_doors_say() -> None:
    """Scripts read the verdict, and need not compute it from the report's parts."""
    report = replace(WHOLE, outcome_check=Check.NOT_RECORDED)
    said = json.loads(judged_to_json(report))
    assert (said["verdict"], said["headline"]) == ("identical", headline(report))
    assert said["not_compared"] == list(not_compared(report)) == ["the outcome (not recorded)"]
    assert said["why_incomparable"] is None


MISSING = Divergence(kind=DivergenceKind.MISSING_CALL, step=1)
CHANGED = Divergence(kind=DivergenceKind.OUTCOME_CHANGED)
NETWORK = Divergence(kind=DivergenceKind.NETWORK)


def raised(name: str) -> str:
    """Return an outcome as the replay reports it."""
    return json.dumps({values.TAG: "exception", "class": name, "text": "no"})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"divergences": (MISSING, MISSING), "served": ()}, "the program requested none of the recorded steps"),
        ({"divergences": (MISSING,), "served": (), "outcome": "1"}, None),
        ({"divergences": (MISSING,), "served": WHOLE.served[:1]}, None),
        ({"divergences": (MISSING, CHANGED), "served": ()}, None),
        ({"divergences": (CHANGED,), "outcome": raised("builtins:NameError")}, "the code did not run: NameError: no"),
        ({"divergences": (CHANGED,), "outcome": raised("builtins:KeyError")}, None),
        ({"divergences": (CHANGED,), "outcome": raised("NameError").replace("exception", "set")}, None),
        ({"divergences": (CHANGED,), "outcome": json.dumps({"class": "NameError"})}, None),
        ({"divergences": (CHANGED,), "outcome": '["NameError"]'}, None),
        ({"divergences": (CHANGED,), "outcome": "NameError"}, None),
        ({"divergences": (CHANGED,), "outcome": None}, None),
        ({"divergences": (replace(CHANGED, kind=DivergenceKind.EXTRA_CALL),), "outcome": raised("NameError")}, None),
        (
            {"divergences": (replace(NETWORK, live="https://a.example", name="connect"),)},
            "REPLAY-106 a client that no seam covers tried to reach the network (https://a.example)",
        ),
        (
            {"divergences": (replace(NETWORK, name="connect"),)},
            "REPLAY-106 a client that no seam covers tried to reach the network (connect)",
        ),
        ({"divergences": (NETWORK,)}, "REPLAY-106 a client that no seam covers tried to reach the network"),
        (
            {"divergences": (Divergence(kind=DivergenceKind.FENCED, call_kind="process", name="ls"),)},
            "REPLAY-108 the program was blocked by a fence (process: ls)",
        ),
        (
            {"divergences": (Divergence(kind=DivergenceKind.INPUT_CHANGED, live="x", name="y"),)},
            "REPLAY-105 the entry point was called with input that differs from the recording",
        ),
    ],
)
def test_a_divergence_says_nothing_where_the_program_did_not_get_to_decide(changes: dict[str, Any], why: str | None) -> None:
    report = replace(WHOLE, **changes)
    assert verdict(report) is (Verdict.DIVERGED if why is None else Verdict.INCOMPARABLE)
    if why is not None:
        assert headline(report) == f"incomparable: {why}, run r1"


@pytest.mark.parametrize(
    ("divergence", "said"),
    [
        (Divergence(kind=DivergenceKind.REQUEST_CHANGED, step=3, call_kind="tool", name="track", lane="0.1"),
         "diverged at step 3 (tool track, lane 0.1)"),
        (Divergence(kind=DivergenceKind.REQUEST_CHANGED, step=3, call_kind="tool", name="track", lane="0.2"),
         "diverged at step 3 (tool track, task 1, tools)"),
        (Divergence(kind=DivergenceKind.MISSING_CALL, step=3), "a recorded step was never requested at step 3 (lane root)"),
        (Divergence(kind=DivergenceKind.EXTRA_CALL, call_kind="model"),
         "a call that is not in the recording (model, lane root)"),
        (Divergence(kind=DivergenceKind.OUTCOME_CHANGED, lane="0.1"), "a different outcome"),
    ],
)  # fmt: skip
def test_a_title_says_what_differs_and_where(divergence: Divergence, said: str) -> None:
    assert title(divergence, {"0.2": "task 1, tools", "": "root"}) == said


@pytest.mark.parametrize("held", ["input", "output", "error"])
def test_a_recording_can_be_checked_if_it_holds_anything_to_compare(held: str) -> None:
    nothing = why_nothing_to_check(Fixture(run_id="r1", entry=Entry(), steps=()))
    assert nothing is not None
    assert nothing.startswith("nothing to check: run r1 recorded no calls, no input and no outcome")
    assert why_nothing_to_check(Fixture(run_id="r1", entry=replace(Entry(), **{held: ""}), steps=())) is None
