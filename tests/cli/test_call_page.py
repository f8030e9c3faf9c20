"""The pages of a replay, as HTML text: what a variable or a divergence holds stays text, and what changed is said."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pytest
from handmade_runs import make_run, tool_call

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.web.markup import words_apart
from freezeframe_replay.web.replay import Replay, call_page, replay_page
from freezeframe_schemas.divergence import Divergence, DivergenceKind, Made, Report, StackFrame
from freezeframe_schemas.run import build_run

HOSTILE = "</dd><script>alert(1)</script>\u202e\x1b[2J"


def frame(line: int, **variables: str) -> StackFrame:
    return StackFrame(place=f"agent.py:{line} in answer", line=f"x = {HOSTILE}", variables=variables)


@pytest.fixture
def replay() -> Replay:
    fixture = freeze(build_run(make_run(tool_call("first", 1), tool_call(HOSTILE, HOSTILE))))
    return Replay(number=3, run_id=fixture.run_id, fixture=fixture, folder=Path(HOSTILE), started=dt.datetime.now(dt.UTC))


@pytest.fixture
def report(replay: Replay) -> Report:
    made = (
        Made(call_kind="tool", name="first", how="exact", step=1, arguments="{}", frames=(frame(7, kept="1", other="'a'"),)),
        Made(
            call_kind="tool",
            name=HOSTILE,
            how="missed",
            arguments=HOSTILE,
            frames=(frame(8, kept="1", other=HOSTILE, fresh="2"), StackFrame(place="agent.py:30 in main")),
        ),
    )
    divergence = Divergence(
        kind=DivergenceKind.REQUEST_CHANGED, step=2, name=HOSTILE, recorded=f"a {HOSTILE}", live=f"b {HOSTILE}", note=HOSTILE
    )
    return Report(run_id=replay.run_id, steps=2, made=made, entered=True, divergences=(divergence,))


def test_what_a_variable_holds_stays_text(replay: Replay, report: Report) -> None:
    for page in (call_page(replay, report, 2), replay_page(replay, report)):
        assert page.count("<script") == 1, "our own"
        assert not {"\u202e", "\x1b"} & set(page)


def test_variables_that_are_new_or_changed_since_the_call_before_say_so(replay: Replay, report: Report) -> None:
    """Of the same function, whatever line it is at; the first call has nothing before it."""
    page = call_page(replay, report, 2)
    assert page.count('<span class="meta">new</span>') == page.count('<span class="meta">changed</span>') == 1
    assert "agent.py:30 in main" in page and "not in the recording" in page
    assert '<span class="meta">' not in call_page(replay, report, 1).partition("<main")[2]


def test_only_the_words_that_differ_are_marked() -> None:
    """Texts that have little in common are not: nothing would be left unmarked."""
    assert words_apart("it is in Lyon", "it is in <Bonn>") == ("it is in <b>Lyon</b>", "it is in <b>&lt;Bonn&gt;</b>")
    assert words_apart("yes", "<never>") == ("yes", "&lt;never&gt;")
    assert words_apart("word " * 5000, "other " * 5000)[0].count("<b>") == 0


def test_all_of_a_long_divergence_can_be_opened(replay: Replay, report: Report) -> None:
    """What a line of a terminal has no room for."""
    (short,) = report.divergences
    long = replace(short, whole_recorded=f'"{"x" * 2000}, the end"', whole_live=f'"{"x" * 2000}{"y" * 900}"')
    page = replay_page(replay, replace(report, divergences=(long,)))
    assert "<summary>Whole texts</summary>" in page
    assert f"<del>{'x' * 2000}, the end</del><ins>{'x' * 2000}{'y' * 900}</ins>" in page
    assert "Whole texts" not in replay_page(replay, report)
