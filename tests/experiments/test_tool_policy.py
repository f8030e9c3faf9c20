"""Tool policy: saved rules, consent, options that win, and the account of calls. No process is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from handmade_runs import make_run, model_call, tool_call

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import ReplayPolicy, policy_from_json, policy_to_json
from freezeframe_replay.engine.session import fixed_answer
from freezeframe_replay.experiments.tool_policy import (
    ToolMode,
    ToolRule,
    ToolUse,
    load_rules,
    rules_of,
    save_rules,
    sum_of,
    tool_uses,
    with_rules,
)
from freezeframe_schemas.divergence import Made, Report, Served
from freezeframe_schemas.errors import ConfigError, FixtureError
from freezeframe_schemas.exchange import Chunk, Response
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import build_run

RULES = {
    "refund": ToolRule(mode=ToolMode.RUN),
    "search": ToolRule(mode=ToolMode.LIVE),
    "track": ToolRule(mode=ToolMode.RECORDED),
    "weather": ToolRule(mode=ToolMode.FIXED, value={"celsius": 20}),
}


@pytest.fixture
def run() -> Fixture:
    """A run with two calls of `track` and one of `search`."""
    calls = (tool_call("track", "A", 1), tool_call("track", "B", 2), tool_call("search", "x", 3), model_call("Hi", "Ho"))
    return freeze(build_run(make_run(*calls)))


def test_saved_rules_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert load_rules(tmp_path) == {}
    save_rules(tmp_path, RULES)
    assert load_rules(tmp_path) == RULES


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"format": "freezeframe-tools", "version": 9, "tools": {}}',
        '{"format": "freezeframe-tools", "version": 1, "tools": {"a": {"mode": "often"}}}',
    ],
)
def test_rules_that_are_not_readable_are_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "tools.json").write_text(text)
    with pytest.raises(FixtureError, match=r"tools\.json"):
        load_rules(tmp_path)


def test_a_tool_runs_for_real_only_with_consent() -> None:
    """A dataset may be a stranger's."""
    with pytest.raises(ConfigError, match="lets search run for real") as caught:
        with_rules(ReplayPolicy(), RULES)
    assert "--allow-tool search" in (caught.value.do or "")
    policy = with_rules(ReplayPolicy(allow_tools=frozenset({"search"})), RULES)
    assert rules_of(policy) == RULES


def test_a_candidates_own_options_win() -> None:
    own = ReplayPolicy(fixed_tools={"refund": "1", "search": "2"}, run_tools=frozenset({"weather"}))
    policy = with_rules(own, RULES)
    assert {name: rule.mode for name, rule in rules_of(policy).items()} == {
        "refund": ToolMode.FIXED,
        "search": ToolMode.FIXED,
        "weather": ToolMode.RUN,
        "track": ToolMode.RECORDED,
    }
    assert policy_from_json(policy_to_json(policy)) == policy


def test_the_account_has_served_unused_and_mismatched_calls(run: Fixture) -> None:
    track = next(step.number for step in run.steps if step.exchange.name == "track")
    made = (
        Made(call_kind="tool", name="track", how="exact", step=track),
        Made(call_kind="tool", name="track", how="fixed"),
        Made(call_kind="tool", name="search", how="missed"),
        Made(call_kind="model", name="chat", how="live"),
    )
    report = Report(run_id=run.run_id, steps=4, served=(Served(step=track, how="exact"),), made=made)
    policy = ReplayPolicy(fixed_tools={"track": "0", "trakc": "0"})
    once = tool_uses(run, report, policy)
    assert once == (
        ToolUse(name="track", mode=ToolMode.FIXED, served=1, unused=1, mismatched=1),
        ToolUse(name="search", mode=ToolMode.RECORDED, unused=1, mismatched=1),
        ToolUse(name="trakc", mode=ToolMode.FIXED),
    )
    assert sum_of([once, once])[0] == ToolUse(name="track", mode=ToolMode.FIXED, served=2, unused=2, mismatched=2)


def test_a_fixed_answer_replaces_results_and_errors_and_is_yielded_by_generators() -> None:
    call = tool_call("track", "A", 1)
    assert json.loads(fixed_answer(call, "20").response.body) == 20
    stream = Response(chunks=(Chunk(data=b'{"yields": [1, 2], "return": null}'),))
    for value, items in (("20", [20]), ("[3, 4]", [3, 4])):
        answer = fixed_answer(type(call)(kind=call.kind, name="track", seam="", request=call.request, response=stream), value)
        assert json.loads(answer.response.body) == {"yields": items, "return": None}
