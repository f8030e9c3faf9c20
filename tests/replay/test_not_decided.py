"""What does not decide a replay is named: objects that cannot be written down, fields that only inform."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from handmade_runs import make_run, model_call, tool_call

from freezeframe.seams import Call
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Exchange
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import Verdict, headline, verdict

INPUT = values.encode({"args": ["where is it?"], "kwargs": {}})
TRACK = tool_call("track", "Lyon", "AC-1")
WHOLE = "identical: 1 of 1 step and the outcome"
OBJECT = "an object that can be compared by class only"


class Thing:
    """Has no form as JSON; its repr holds an address."""


def line(
    exchange: Exchange, *, answer: Any = "here", live: Any = "here", asked: Exchange | None = None, ignore: tuple[str, ...] = ()
) -> str:
    """Return the headline of a replay that asks one thing and returns `live`."""
    session = ReplaySession(freeze(build_run(make_run(exchange, answer=answer))), policy=ReplayPolicy(ignore=ignore))
    session.enter("agent:answer", INPUT)
    call = asked or exchange
    assert session.respond(Call(kind=call.kind, name=call.name, seam=call.seam, request=call.request, lane=call.lane))
    session.leave(values.encode(live), None)
    return headline(session.report()).partition(", run ")[0]


@pytest.mark.parametrize(
    ("recorded", "live", "said"),
    [
        (Thing, Thing, f"identical, except the outcome ({OBJECT}): 1 of 1 step"),
        (Thing, lambda: Exception, "REPLAY-104 "),
        (
            lambda: [1, Thing()],
            lambda: [1, Thing()],
            "identical, except objects compared by class only in the outcome: 1 of 1 step and the outcome",
        ),
        (lambda: [1, Thing()], lambda: [2, Thing()], "REPLAY-104 "),
    ],
)
def test_an_object_is_compared_by_its_class_and_the_line_says_so(
    recorded: Callable[[], Any], live: Callable[[], Any], said: str
) -> None:
    """Its repr holds an address: two runs of unchanged code differ there, or agree by chance."""
    assert line(TRACK, answer=recorded(), live=live()).startswith(said)


def test_without_calls_an_object_as_outcome_is_nothing_compared() -> None:
    session = ReplaySession(freeze(build_run(make_run(answer=Thing()))))
    session.enter("agent:answer", INPUT)
    session.leave(values.encode(Thing()), None)
    said = headline(session.report())
    assert said.startswith("incomparable: nothing was compared: the run recorded no calls, and its outcome is an object")


def test_an_argument_that_is_an_object_is_named() -> None:
    exchange, again = (tool_call("track", "Lyon", Thing()) for _ in range(2))
    assert (
        line(exchange, asked=again) == "identical, except objects compared by class only in 1 step: 1 of 1 step and the outcome"
    )


def group(*members: Exception) -> str:
    return values.encode_exception(ExceptionGroup("g", members))


@pytest.mark.parametrize(
    ("live", "is_same"),
    [
        (group(ValueError("a")), True),
        (group(ValueError("b")), False),
        (group(KeyError("a")), False),
        (group(ValueError("a"), ValueError("a")), False),
        (group(ExceptionGroup("g", [ValueError("a")])), False),
    ],
)
def test_a_group_of_exceptions_is_compared_by_its_members(live: str, is_same: bool) -> None:
    fixture = freeze(build_run(make_run()))
    session = ReplaySession(replace(fixture, entry=replace(fixture.entry, output=None, error=group(ValueError("a")))))
    session.enter("agent:answer", INPUT)
    session.leave(None, live)
    assert (verdict(session.report()) is Verdict.IDENTICAL) is is_same


def with_fields(**fields: Any) -> Exchange:
    exchange = model_call("where?", "Lyon")
    body = {**json.loads(exchange.request.body), **fields}
    return replace(exchange, request=replace(exchange.request, body=json.dumps(body).encode()))


def test_a_field_that_only_informs_is_named_where_it_differs() -> None:
    """`user` and `metadata` do not decide which answer is given, and are not part of what was compared."""
    assert line(with_fields(user="u1"), asked=with_fields(user="u1")) == WHOLE
    assert line(with_fields(user="u1"), asked=with_fields(user="u2")) == (
        "identical, except body.user in 1 step (ignored): 1 of 1 step and the outcome"
    )
    assert line(with_fields(), asked=with_fields(metadata={"team": "b"})).startswith(
        "identical, except body.metadata in 1 step"
    )


def test_an_ignored_component_is_named_where_it_differs() -> None:
    ignore = ("body.temperature",)
    assert line(with_fields(temperature=0), asked=with_fields(temperature=0), ignore=ignore) == WHOLE
    assert line(with_fields(temperature=0), asked=with_fields(temperature=1), ignore=ignore) == (
        "identical, except body.temperature in 1 step (ignored): 1 of 1 step and the outcome"
    )
