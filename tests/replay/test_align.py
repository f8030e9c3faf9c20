"""Two runs side by side: what belongs together is paired, and what changed is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from handmade_runs import make_run, model_call, tool_call
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.report.align import Comparison, How, align, compare_runs
from freezeframe_schemas.exchange import Exchange
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import build_run


def fixture_of(*steps: Exchange, answer: str = "here", question: str = "where is it?") -> Fixture:
    return freeze(build_run(make_run(*steps, answer=answer, question=question)))


def hows(found: Comparison) -> list[tuple[How, int | None, int | None]]:
    return [(pair.how, pair.before and pair.before.step, pair.after and pair.after.step) for pair in found.pairs]


def test_a_run_is_alike_itself() -> None:
    one = fixture_of(model_call("a", "1"), tool_call("look", 2, "x"))
    assert compare_runs(one, one).alike


def test_a_changed_argument_and_what_follows_from_it_are_named_by_path() -> None:
    before = fixture_of(model_call("a", "1"), tool_call("look", "Lyon", "AC-1"), model_call("in Lyon", "done"), answer="Lyon")
    after = fixture_of(model_call("a", "1"), tool_call("look", "Bonn", "AC-2"), model_call("in Bonn", "done"), answer="Bonn")
    found = compare_runs(before, after)
    assert hows(found) == [(How.SAME, 1, 1), (How.CHANGED, 2, 2), (How.CHANGED, 3, 3)]
    first = found.first
    assert first is not None
    assert [(item.path, item.recorded, item.live) for item in first.request] == [("$.args[0]", '"AC-1"', '"AC-2"')]
    assert [(item.path, item.recorded, item.live) for item in first.response] == [("$.result", '"Lyon"', '"Bonn"')]
    assert found.pairs[2].request[0].path == "$.body.messages[0].content"
    assert found.outcome[0].recorded == '"Lyon"'


def test_another_answer_to_an_equal_request_is_a_change_of_the_answer() -> None:
    found = compare_runs(fixture_of(model_call("a", "yes")), fixture_of(model_call("a", "no")))
    (pair,) = found.pairs
    assert pair.how is How.CHANGED
    assert not pair.request
    assert pair.response[0].path == "$.messages[0].parts[0].content"


def test_an_inserted_step_is_added_and_the_later_ones_stay_paired() -> None:
    before = fixture_of(model_call("a", "1"), model_call("b", "2"))
    after = fixture_of(model_call("a", "1"), tool_call("look", 3), model_call("b", "2"))
    assert hows(compare_runs(before, after)) == [(How.SAME, 1, 1), (How.ADDED, None, 2), (How.SAME, 2, 3)]
    assert hows(compare_runs(after, before)) == [(How.SAME, 1, 1), (How.REMOVED, 2, None), (How.SAME, 3, 2)]


def test_the_order_in_which_tasks_asked_makes_no_difference() -> None:
    left, right = tool_call("left", 1, lane=(0,)), tool_call("right", 2, lane=(1,))
    assert compare_runs(fixture_of(left, right), fixture_of(right, left)).alike


def test_the_ids_and_the_time_of_an_answer_make_no_difference() -> None:
    before = fixture_of(model_call("a", "1"))
    step = before.steps[0]
    later = replace(step.exchange, end_time_unix_nano=step.exchange.end_time_unix_nano + 10**9, span_id="f" * 16)
    found = compare_runs(before, replace(before, steps=(replace(step, exchange=later),)))
    assert found.alike
    assert found.pairs[0].before != found.pairs[0].after


calls = st.lists(st.sampled_from([tool_call(name, 1, lane=lane) for name in "abc" for lane in [(), (0,)]]), max_size=8)


@given(calls, calls)
def test_each_step_of_both_runs_is_in_exactly_one_pair(one: list[Exchange], other: list[Exchange]) -> None:
    before, after = fixture_of(*one), fixture_of(*other)
    pairs = align(before, after)
    assert [step for step, _ in pairs if step is not None] == list(before.steps)
    assert sorted(step.number for _, step in pairs if step is not None) == [step.number for step in after.steps]


def test_a_fixture_that_an_earlier_version_keyed_is_paired_as_ever_and_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a version reads of a body decides its keys: those in a fixture are compared with no others."""
    after = fixture_of(tool_call("look", 3), model_call("a", "1"), model_call("b", "2"))
    before = replace(after, steps=tuple(replace(step, key=f"{step.number:032x}") for step in after.steps))
    assert compare_runs(before, after).alike
    write_fixture(before, tmp_path / "kept")
    assert main(["fixture", "verify", str(tmp_path / "kept")]) == 0
    assert "whole, 3 steps" in (said := capsys.readouterr().out)
    assert "3 with keys of another version" in said
