"""What an experiment says of a row whose program asked the model something else, from a session in the test's own process."""

from __future__ import annotations

from typing import Any

import pytest
from handmade_runs import make_run, model_call

from freezeframe.seams import Call
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_replay.experiments.rows import ExperimentVerdict, _finding
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.run import build_run


@pytest.mark.parametrize(
    ("outcome", "finding", "why"),
    [
        ("here", ExperimentVerdict.SAME, "same path and outcome"),
        ("there", ExperimentVerdict.CHANGED, "a different outcome at $"),
    ],
)
def test_with_the_same_path_the_outcome_decides(outcome: str, finding: ExperimentVerdict, why: str) -> None:
    fixture = freeze(build_run(make_run(model_call("a", "x"))))
    session = ReplaySession(fixture, policy=ReplayPolicy(live=frozenset({Kind.MODEL})))
    session.enter("agent:answer", values.encode({"args": ["where is it?"], "kwargs": {}}))
    asked = model_call("another question", "")
    assert session.respond(Call(kind=asked.kind, name=asked.name, seam=asked.seam, request=asked.request, lane=())) is None
    session.leave(values.encode(outcome), None)
    common: dict[str, Any] = {"name": "row", "run_id": fixture.run_id}
    found = _finding(fixture, session.report(), common)
    assert (found.finding, found.why) == (finding, why)
