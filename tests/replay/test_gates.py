"""Gates of experiments, and what calls took: a limit is passed only by what is known."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from handmade_runs import make_run, model_call, tool_call

from freezeframe_replay.assertions import cost_at_most, took_at_most
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.experiments.gates import Gates, check_gates
from freezeframe_replay.report.spent import Spent, spent_by
from freezeframe_schemas.divergence import Check, Report, Served
from freezeframe_schemas.exchange import Chunk, Exchange
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import build_run


def priced(model: str) -> Exchange:
    """Return a model call whose answer says that it took a million tokens each way."""
    call = model_call("Where?", "In Lyon.", model=model)
    usage = {"prompt_tokens": 10**6, "completion_tokens": 10**6}
    body = {"model": model, "choices": [{"message": {"content": "In Lyon."}}], "usage": usage}
    return replace(call, response=replace(call.response, chunks=(Chunk(data=json.dumps(body).encode(), offset_ns=5),)))


def recorded(*exchanges: Exchange, inside: dict[int, int] | None = None) -> Fixture:
    """Return a run of these days, for which there are prices."""
    now = 1_790_000_000 * 10**9
    spans = make_run(*exchanges, inside=inside)
    shifted = [
        replace(span, start_time_unix_nano=span.start_time_unix_nano + now, end_time_unix_nano=span.end_time_unix_nano + now)
        for span in spans
    ]
    return freeze(build_run(shifted))


@pytest.mark.parametrize(
    ("gates", "changed", "rows", "passed"),
    [
        (Gates(changed=1), 1, [], True),
        (Gates(changed=1), 2, [], False),
        (Gates(p95_s=2), 0, [Spent(ms=1000)] * 19 + [Spent(ms=9000)], True),
        (Gates(p95_s=2), 0, [Spent(ms=1000)] * 18 + [Spent(ms=9000)] * 2, False),
        (Gates(p95_s=2), 0, [Spent(ms=1000), None], None),
        (Gates(p95_s=2), 0, [Spent(ms=9000), None], False),
        (Gates(p95_s=2), 0, [], None),
        (Gates(p95_s=2), 0, [Spent(ms=9000), *[None] * 30], None),
        (Gates(usd=0.1), 0, [Spent(usd=0.09), Spent(usd=0.1)], True),
        (Gates(usd=0.1), 0, [Spent(usd=0.01), Spent(usd=0.11)], False),
        (Gates(usd=0.1), 0, [Spent(usd=0.01), Spent(unknown=1)], None),
        (Gates(usd=0.1), 0, [Spent(usd=0.2, unknown=1)], False),
    ],
)
def test_a_gate_is_passed_only_by_what_is_known(
    gates: Gates, changed: int, rows: list[Spent | None], passed: bool | None
) -> None:
    (gate,) = check_gates(gates, changed, rows)
    assert gate.passed is passed


def test_runs_that_could_not_be_compared_leave_the_gate_of_changes_open() -> None:
    """Unless it makes no difference whether they changed."""
    found = [next(check_gates(Gates(changed=2), changed, [], incomparable=1)) for changed in (1, 2, 3)]
    assert [gate.passed for gate in found] == [True, None, False]
    assert found[1].note == "not known of 1 run"


def test_runs_that_may_be_broken_leave_the_gate_of_broken_runs_open() -> None:
    found = [next(check_gates(Gates(broken=2), 9, [], broken=broken, unknown=1)) for broken in (1, 2, 3)]
    assert [(gate.name, gate.passed) for gate in found] == [("broken", True), ("broken", None), ("broken", False)]


def test_the_calls_of_a_run_are_summed_and_what_is_not_known_is_counted() -> None:
    """A call inside another costs, and its time is part of the outer one's."""
    found = spent_by(recorded(tool_call("outer", 1), priced("gpt-4o-mini"), priced("a-model-of-nobody"), inside={1: 0}))
    assert found == Spent(ms=2000.0, usd=0.75, unknown=1)
    assert spent_by(recorded(tool_call("outer", 1), priced("gpt-4o-mini"), inside={1: 0}), {2}).ms == 0


def test_an_embedding_has_a_known_cost_although_it_has_no_output_tokens() -> None:
    call = priced("text-embedding-3-small")
    said = {"data": [{"index": 0, "embedding": [0.5]}], "model": "text-embedding-3-small", "usage": {"prompt_tokens": 10**6}}
    embedded = replace(
        call,
        dialect="openai.embeddings",
        request=replace(
            call.request,
            url="https://api.openai.com/v1/embeddings",
            body=b'{"model": "text-embedding-3-small", "input": "Where?"}',
        ),
        response=replace(call.response, chunks=(Chunk(data=json.dumps(said).encode(), offset_ns=5),)),
    )
    found = spent_by(recorded(embedded))
    assert (found.usd, found.unknown) == (0.02, 0)


def test_a_test_can_bound_time_and_cost_of_a_run() -> None:
    fixture = recorded(priced("gpt-4o-mini"))
    report = Report(
        run_id=fixture.run_id, steps=1, served=(Served(step=1, how="exact"),), entered=True, outcome_check=Check.SAME
    )
    assert took_at_most(report, fixture, 1) is None and cost_at_most(report, fixture, 0.75) is None
    assert "the calls took 1 s" in (took_at_most(report, fixture, 0.9) or "")
    assert "the calls cost $0.750000" in (cost_at_most(report, fixture, 0.7) or "")
    assert "is not known" in (cost_at_most(report, recorded(priced("a-model-of-nobody")), 1) or "")
