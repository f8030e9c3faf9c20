"""Reports of replays as people read them, and the verdicts behind the exit codes."""

from __future__ import annotations

import pytest

from freezeframe_replay.report.report_text import report_text
from freezeframe_schemas import values
from freezeframe_schemas.divergence import Check, Divergence, DivergenceKind, Relaxed, Report, Served
from freezeframe_schemas.verdict import exit_code, why_incomparable

SERVED = (Served(step=1, how="exact"), Served(step=2, how="relaxed", relaxed=(Relaxed.PLACE,)))
NAMES = {"1": "tool find_orders", "2": "tool track"}
CHANGED = Divergence(
    kind=DivergenceKind.REQUEST_CHANGED,
    step=3,
    call_kind="model",
    name="POST /v1/chat/completions",
    path="$.body.messages[3].content",
    recorded='"{\\"temp\\": -26}"',
    live='"{\\"temp\\": -26} EDIT"',
    would_have_returned='"{\\"answer\\": 1}"',
    agreed=("kind", "path"),
    differed=("body.messages",),
)


def report(*divergences: Divergence, entered: bool = True, outcome: object = "it is in Lyon") -> Report:
    return Report(
        run_id="ab" * 8,
        steps=3 if divergences else 2,
        served=SERVED,
        divergences=divergences,
        entered=entered,
        outcome=values.encode(outcome),
        names=NAMES,
        input_check=Check.SAME,
        outcome_check=Check.SAME,
    )


def test_an_identical_replay() -> None:
    """N of N steps, each by name, and the outcome."""
    assert (
        report_text(report())
        == """\
identical, except 1 step asked at a different place: 2 of 2 steps and the outcome, run abababababababab
     1  tool find_orders
     2  tool track  (asked at a different place)
  outcome: returned "it is in Lyon\""""
    )


def test_a_recording_that_has_a_test_is_not_to_be_locked_in_again() -> None:
    changed = Divergence(kind=DivergenceKind.OUTCOME_CHANGED, path="$.returned", recorded="1", live="2")
    report = Report(run_id="ab12", steps=1, entered=True, served=(Served(step=1, how="exact"),), divergences=(changed,))
    assert "next: if this is the fix, lock it in with" in report_text(report)
    assert "next: if this is the fix, its test passes with it: pytest bug/test_bug.py" in report_text(
        report, test="bug/test_bug.py"
    )


def test_a_divergence() -> None:
    """Code, step, path, both sides, what agreed, what would have been returned, what to do."""
    later = Divergence(kind=DivergenceKind.MISSING_CALL, step=4, call_kind="tool", name="refund")
    assert (
        report_text(report(CHANGED, later))
        == """\
REPLAY-101 diverged at step 3 (model POST /v1/chat/completions, lane root): 2 of 3 steps replayed, run abababababababab
  $.body.messages[3].content
  - "{\\"temp\\": -26}"
  + "{\\"temp\\": -26} EDIT"
  differed: body.messages
  agreed: kind, path
  would have returned: {"answer": 1}
  then REPLAY-103 a recorded step was never requested at step 4 (tool refund, lane root)
  outcome: returned "it is in Lyon"
  next: if this is the fix, lock it in with `freezeframe fixture abababababab -o DIR --pytest`
        if it varies by itself: --ignore body.messages"""
    )


@pytest.mark.parametrize(
    ("found", "code"), [(report(), 0), (report(CHANGED), 3), (report(entered=False), 125)], ids=["same", "diverged", "no entry"]
)
def test_exit_codes_are_for_git_bisect(found: Report, code: int) -> None:
    """0 good, 3 bad, 125 skip."""
    assert exit_code(found) == code


def test_a_program_that_asked_for_nothing_is_not_compared() -> None:
    """A script that does not start is not changed behaviour; a function that returned early is."""
    gone = Divergence(kind=DivergenceKind.MISSING_CALL, step=1)
    silent = Report(run_id="r", steps=1, entered=True, divergences=(gone,))
    assert exit_code(silent) == 125
    assert "requested none of the recorded steps" in report_text(silent)
    early = Report(run_id="r", steps=1, entered=True, divergences=(gone,), outcome=values.encode("no"))
    assert (exit_code(early), why_incomparable(early)) == (3, None)


@pytest.mark.parametrize(
    ("kind", "advised"), [("model", "--live model"), ("http", "--live http"), ("tool", "--allow-tool n"), ("database", None)]
)
def test_a_new_call_is_made_for_real_by_the_option_of_its_kind(kind: str, advised: str | None) -> None:
    """A database is never asked live."""
    shown = " ".join(report_text(report(Divergence(kind=DivergenceKind.EXTRA_CALL, call_kind=kind, name="n"))).split())
    assert ("make it for real" in shown) == (advised is not None)
    assert "freezeframe fixture" in shown
    assert advised is None or advised in shown


@pytest.mark.parametrize("kind", list(DivergenceKind))
def test_every_kind_has_words_and_a_next_step(kind: DivergenceKind) -> None:
    """No divergence leaves the reader without advice."""
    shown = report_text(report(Divergence(kind=kind, step=1, live="api.example.com:443")))
    assert kind.value in shown.splitlines()[0]
    assert "next: " in shown
    assert report_text(report(Divergence(kind=kind)), quiet=True).count("\n") == 0


@pytest.mark.parametrize("kind", list(DivergenceKind))
def test_only_behaviour_counts_as_a_fix(kind: DivergenceKind) -> None:
    """Different input, the network and the other fences say nothing about the code: neither identical nor diverged."""
    says_nothing = kind in (DivergenceKind.INPUT_CHANGED, DivergenceKind.NETWORK, DivergenceKind.FENCED)
    found = report(Divergence(kind=kind))
    assert (why_incomparable(found) is not None) is says_nothing
    assert exit_code(found) == (125 if says_nothing else 3)


@pytest.mark.parametrize(
    ("error", "broken"), [(ImportError("no x"), True), (NameError("y"), True), (ValueError("no order"), False)]
)
def test_code_that_does_not_run_is_no_fix(error: Exception, broken: bool) -> None:
    """A ValueError may be the new behaviour; a NameError is not."""
    changed = Report(
        run_id="r",
        steps=1,
        entered=True,
        divergences=(Divergence(kind=DivergenceKind.OUTCOME_CHANGED),),
        outcome=values.encode_exception(error),
    )
    assert (why_incomparable(changed) is not None) is broken
