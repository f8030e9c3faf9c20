"""Two recordings of the same input teach what varies by itself; a replay counts how often that decided."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from handmade_runs import make_run, model_call, tool_call

from freezeframe.seams import Call
from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_replay.report.calibrate import calibrate
from freezeframe_schemas.exchange import Exchange
from freezeframe_schemas.fixture import Fixture, load_fixture, write_fixture
from freezeframe_schemas.run import build_run


def recorded_headers(exchange: Exchange, **fields: object) -> Exchange:
    """Return the model call with further fields in its request."""
    body = {**json.loads(exchange.request.body), **fields}
    return replace(exchange, request=replace(exchange.request, body=json.dumps(body).encode()))


def fixture_of(*steps: Exchange) -> Fixture:
    return freeze(build_run(make_run(*steps)))


def recorded(nonce: str, *, answer: str = "1", second: str = "b") -> Fixture:
    first = recorded_headers(model_call("a", answer), trace_tag=nonce)
    return fixture_of(
        first, tool_call("look", 2, "x"), recorded_headers(model_call(second, "3"), trace_tag=nonce, top_p=len(second))
    )


def test_what_varies_in_a_run_that_goes_alike_is_learned_and_counted() -> None:
    found = calibrate(recorded("u1"), recorded("u2"))
    assert (found.compared, found.varying, found.content) == (3, {"body.trace_tag": 2}, {})
    assert found.same_input


def test_what_follows_from_another_answer_is_not_taken_for_variation() -> None:
    found = calibrate(recorded("u1"), recorded("u2", answer="other", second="because of other"))
    assert (found.compared, found.varying) == (3, {"body.trace_tag": 2})
    assert found.following == {"body.messages": 1, "body.top_p": 1}


@pytest.mark.parametrize("different", range(1, 6))
def test_what_is_known_to_vary_is_counted_to_the_end_wherever_an_answer_differs(different: int) -> None:
    """Answers of a model differ nearly always."""

    def steps(nonce: str, mark: str) -> list[Exchange]:
        asked = [recorded_headers(model_call(str(number), "same"), trace_tag=f"{nonce}{number}") for number in range(1, 6)]
        asked[different - 1] = recorded_headers(model_call(str(different), mark), trace_tag=f"{nonce}{different}")
        return asked

    one, other = steps("a", "this"), steps("b", "that")
    found = calibrate(fixture_of(*one), fixture_of(*other))
    assert (found.compared, found.varying, found.following) == (5, {"body.trace_tag": 5}, {})


def test_the_question_itself_is_never_ignored() -> None:
    found = calibrate(fixture_of(model_call("at 10:00", "1")), fixture_of(model_call("at 10:01", "1")))
    assert found.varying == {}
    assert found.content == {"body.messages": 1}


@pytest.mark.proof("command experiment calibrate")
def test_a_calibrated_fixture_replays_what_varies_and_counts_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_fixture(recorded("u1"), tmp_path / "a")
    write_fixture(recorded("u2"), tmp_path / "b")
    assert main(["experiment", "calibrate", str(tmp_path / "a"), str(tmp_path / "b"), "-o", str(tmp_path / "c")]) == 0
    assert "varies by itself: body.trace_tag, in 2 steps" in capsys.readouterr().out
    assert main(["fixture", "verify", str(tmp_path / "c")]) == 0
    session = ReplaySession(load_fixture(tmp_path / "c"))
    for step in recorded("u3").steps:
        exchange = step.exchange
        call = Call(kind=exchange.kind, name=exchange.name, seam=exchange.seam, request=exchange.request, lane=exchange.lane)
        assert session.respond(call) is not None
    assert session.report().relaxations == {"body.trace_tag": 2}
