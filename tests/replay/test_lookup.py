"""Which recorded step answers a call: the one of its place first, then what is the same but for place, values and times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade_runs import SECOND_NS, make_run, model_call, tool_call
from hypothesis import given
from hypothesis import strategies as st

from freezeframe.seams import Call
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas import values
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Exchange, Lane
from freezeframe_schemas.fixture import Fixture, Redaction
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import SpanRecord

LANES: tuple[Lane, ...] = ((), (0,), (1,))
requests = st.tuples(st.sampled_from(LANES), st.sampled_from(["a", "b"]))


class Replay:
    """A session, and what it served."""

    def __init__(self, fixture: Fixture) -> None:
        self.session = ReplaySession(fixture)

    def ask(self, exchange: Exchange, lane: Lane | None = None) -> bytes | None:
        """Return the answer; None if no step answers."""
        asked = exchange.lane if lane is None else lane
        call = Call(kind=exchange.kind, name=exchange.name, seam=exchange.seam, request=exchange.request, lane=asked)
        try:
            answer = self.session.respond(call)
        except ReplayMiss:
            return None
        assert answer is not None
        return answer.response.body

    @property
    def served(self) -> list[tuple[int, str, tuple[str, ...]]]:
        return [(item.step, item.how, item.relaxed) for item in self.session.report().served]


def replay(*exchanges: Exchange, **options: Any) -> Replay:
    return Replay(freeze(build_run(make_run(*exchanges, **options))))


def answered(steps: list[tuple[Lane, str]]) -> list[Exchange]:
    return [model_call(question, f"answer {number}", lane=lane) for number, (lane, question) in enumerate(steps)]


@given(steps=st.lists(requests, max_size=8), data=st.data())
def test_a_call_at_its_place_gets_its_own_step_whatever_the_other_lanes_do(
    steps: list[tuple[Lane, str]], data: st.DataObject
) -> None:
    """Its place: lane, request, and how many equal requests the lane made before."""
    recorded = answered(steps)
    again = replay(*recorded)
    lanes = data.draw(st.permutations([lane for lane, _ in steps]))
    rows = {lane: iter([number for number, (its, _) in enumerate(steps) if its == lane]) for lane in LANES}
    for number in (next(rows[lane]) for lane in lanes):
        assert again.ask(recorded[number]) == recorded[number].response.body
    assert sorted(again.served) == [(number + 1, "exact", ()) for number in range(len(steps))]


@given(steps=st.lists(requests, min_size=1, max_size=8), data=st.data())
def test_in_a_lane_that_is_new_the_equal_steps_answer_in_their_order(
    steps: list[tuple[Lane, str]], data: st.DataObject
) -> None:
    recorded = answered(steps)
    again = replay(*recorded)
    asked = [question for _, question in data.draw(st.permutations(steps))]
    left = {question: [number for number, one in enumerate(steps) if one[1] == question] for question in asked}
    for question in asked:
        number = left[question].pop(0)
        assert again.ask(recorded[number], lane=(7,)) == recorded[number].response.body
    assert {item[1:] for item in again.served} == {("relaxed", ("place",))}
    assert sorted(item[0] for item in again.served) == [*range(1, len(steps) + 1)]
    assert again.ask(recorded[0], lane=(7,)) is None
    assert again.session.report().divergences[-1].kind is DivergenceKind.EXTRA_CALL


def test_requests_of_a_lane_in_another_order_get_their_own_answers() -> None:
    steps = answered([((), "a"), ((), "b")])
    again = replay(*steps)
    assert [again.ask(step) for step in reversed(steps)] == [step.response.body for step in reversed(steps)]
    assert again.served == [(2, "exact", ()), (1, "exact", ())]


def test_a_header_that_has_a_meaning_decides() -> None:
    def with_beta(name: str) -> Exchange:
        step = model_call("a", name)
        return replace(step, request=replace(step.request, headers=(("anthropic-beta", name), ("user-agent", "x"))))

    again = replay(with_beta("tools"), with_beta("vision"))
    assert again.ask(with_beta("audio")) is None
    for name in ("tools", "vision"):
        assert again.ask(with_beta(name)) == with_beta(name).response.body


def at(second: float) -> str:
    return f"1970-01-01T00:00:{second:04.1f}Z"


@pytest.mark.parametrize("later", [2.0, -2.0, 2.1, -2.1])
def test_a_time_may_be_off_by_two_seconds_after_an_answer(later: float) -> None:
    again = replay(tool_call("note", 1, "a"), tool_call("note", 2, at(30)))
    assert again.ask(tool_call("note", 0, "a")) is not None
    answer = again.ask(tool_call("note", 0, at(30 + later)))
    assert (answer is not None) == (abs(later) <= 2)
    assert again.served[1:] == ([(2, "relaxed", ("clock",))] if answer else [])


def spans_with_times(*times: tuple[int, int], said: str = "x", question: str = "where is it?") -> list[SpanRecord]:
    """Return a run from second 1 on whose steps begin and end at these seconds; the last one notes the second 30."""
    steps = [tool_call("look", said, number) for number in range(len(times) - 1)]
    entry, *spans = make_run(*steps, tool_call("note", 2, at(30)), question=question)
    moved = [
        replace(span, start_time_unix_nano=start * SECOND_NS, end_time_unix_nano=end * SECOND_NS)
        for span, (start, end) in zip(spans, times, strict=True)
    ]
    return [entry, *moved]


@pytest.mark.parametrize(
    ("times", "slack"),
    [
        ([(5, 6)], 2 + 4),
        ([(2, 3), (5, 6)], 2 + 2),
        ([(2, 5), (5, 6)], 2),
        ([(2, 3), (3, 9), (5, 6)], 2 + 2),
        ([(1, 2), (2, 3), (5, 6)], 2 + 2),
    ],
)
def test_a_time_may_be_off_by_as_long_as_the_recorded_code_took_since_its_last_answer(
    times: list[tuple[int, int]], slack: int
) -> None:
    """An answer that came after the step began does not count; before the first one, the start of the run does."""
    for later in (slack, slack + 0.1):
        again = Replay(freeze(build_run(spans_with_times(*times))))
        for number in range(len(times) - 1):
            assert again.ask(tool_call("look", "", number)) is not None
        assert (again.ask(tool_call("note", 0, at(30 + later))) is not None) == (later == slack)


@pytest.mark.parametrize("given_by", ["said", "question"])
def test_a_time_that_the_program_was_given_is_compared_as_it_is(given_by: str) -> None:
    told = {given_by: f"since {at(30)}"}
    again = Replay(freeze(build_run(spans_with_times((2, 3), (3, 4), **told))))
    assert again.ask(tool_call("look", "", 0)) is not None
    assert again.ask(tool_call("note", 0, at(31))) is None


def test_a_time_in_an_answer_that_comes_later_is_not_given() -> None:
    steps = [tool_call("note", at(30), at(30)), tool_call("look", at(30))]
    again = replay(*steps)
    assert again.ask(tool_call("note", 0, at(31))) is not None


@pytest.mark.parametrize(("day", "is_near"), [("1970-01-31", True), ("1970-02-15", False), ("2020-01-31", False)])
def test_a_date_far_from_the_run_is_no_time_of_its_clock(day: str, is_near: bool) -> None:
    again = replay(tool_call("note", 1, f"{day}T12:00:30Z"))
    assert (again.ask(tool_call("note", 0, f"{day}T12:00:31Z")) is not None) == is_near


def test_only_the_next_step_of_a_function_is_compared_but_for_its_times() -> None:
    steps = [tool_call("a", 1, at(30)), tool_call("b", 2, at(30)), tool_call("b", 3, at(31))]
    again = replay(*steps)
    assert again.ask(tool_call("b", 0, at(32))) == steps[1].response.body
    assert again.ask(tool_call("b", 0, at(32))) == steps[2].response.body
    assert again.ask(tool_call("b", 0, at(32))) is None
    assert again.ask(tool_call("c", 0, at(30))) is None
    assert again.ask(tool_call("a", 0, at(32))) == steps[0].response.body


@pytest.mark.parametrize(("later", "is_same"), [(96, True), (96.5, False)])
def test_a_time_in_the_outcome_may_be_off_by_what_the_code_took_after_the_last_answer(later: float, is_same: bool) -> None:
    """The run ends at second 100, its last answer came at second 6."""
    moment, live = "1970-01-01 00:00:00", f"1970-01-01 00:01:{later - 60:04.1f}"
    again = replay(*(tool_call("look", 1, number) for number in range(4)), answer=f"done at {moment}.0")
    for number in range(4):
        again.ask(tool_call("look", 1, number))
    again.session.leave(values.encode(f"done at {live}"), None)
    kinds = {item.kind for item in again.session.report().divergences}
    assert (DivergenceKind.OUTCOME_CHANGED not in kinds) == is_same


def test_a_miss_names_the_components_that_agree_and_those_that_do_not() -> None:
    again = replay(model_call("a", "first"))
    assert again.ask(model_call("a", "", model="gpt-y")) is None
    (only,) = again.session.report().divergences
    assert only.differed == ("body.model",)
    assert only.agreed
    assert not {*only.agreed} & {*only.differed}


def test_a_miss_names_what_differs_besides_the_time() -> None:
    again = replay(tool_call("note", 1, at(30), "a"))
    assert again.ask(tool_call("note", 0, at(31), "b")) is None
    (only,) = again.session.report().divergences
    assert (only.path, only.recorded, only.live) == ("$.body.args[1]", '"a"', '"b"')


# -- redacted runs -------------------------------------------------------------------------------------------------------

MAIL, OTHER, NAME = "ada.frost@dq2x7kq.example.com", "ben.hurst@dq2x7kq.example.com", "Balomuzq"
SURROGATES = {MAIL: "EMAIL", OTHER: "EMAIL", NAME: "PERSON", "9999": "SECRET"}
OWN, OWN_OTHER = "cleo.marsh@corp-mail.io", "dan.oaks@corp-mail.io"


def redacted(*exchanges: Exchange) -> Replay:
    """Return a replay without the key. The first one compiles the redactor's engine."""
    fixture = freeze(build_run(make_run(*exchanges)))
    return Replay(replace(fixture, redaction=Redaction(policy="strict@x", surrogates=SURROGATES)))


@pytest.mark.proof
@pytest.mark.long
def test_the_next_step_of_the_lane_answers_if_only_its_private_values_are_in_the_way() -> None:
    steps = [model_call(f"write to {mail}", f"{n}") for n, mail in enumerate((MAIL, OTHER, MAIL))]
    again = redacted(*steps)
    for step, own in zip(steps, (OWN, OWN_OTHER, OWN), strict=True):
        assert again.ask(model_call(f"write to {own}", "")) == step.response.body
    assert again.served == [(1, "exact", ()), (2, "exact", ()), (3, "exact", ())]
    assert again.ask(model_call(f"write to {OWN}", "")) is None
    assert again.session.report().divergences[-1].kind is DivergenceKind.EXTRA_CALL


@pytest.mark.proof
@pytest.mark.long
def test_in_another_lane_the_step_answers_whose_values_may_be_the_same() -> None:
    steps = [model_call(f"write to {mail}", f"{n}") for n, mail in enumerate((MAIL, OTHER))]
    again = redacted(*steps)
    for step, own in zip(steps, (OWN, OWN_OTHER), strict=True):
        assert again.ask(model_call(f"write to {own}", ""), lane=(7,)) == step.response.body
    assert again.served == [(1, "relaxed", ("place",)), (2, "relaxed", ("place",))]
    left, used = "no recorded model call is left", "already used"
    for question, note in ((f"call {OWN}", left), (f"write to {OWN}", used), ("write to emil@oak-hill.de", left)):
        assert again.ask(model_call(question, ""), lane=(7,)) is None
        assert note in again.session.report().divergences[-1].note


@pytest.mark.proof
@pytest.mark.long
def test_a_name_and_a_time_that_differ_are_both_named() -> None:
    again = redacted(tool_call("find", 1, NAME), tool_call("find", 2, NAME, at(30)), tool_call("find", 3, MAIL, at(30)))
    assert again.ask(tool_call("find", 0, "Brolinda")) is not None  # in no list of names
    assert again.ask(tool_call("find", 0, "Brolinda", at(31))) is not None
    assert again.ask(tool_call("find", 0, OWN, at(31))) is not None
    assert [item[2] for item in again.served] == [("names",), ("clock", "names"), ("clock",)]
    assert again.session.report().ambiguous == ()


@pytest.mark.proof
@pytest.mark.long
def test_an_equal_request_that_redaction_made_different_is_named_with_the_step_before() -> None:
    again = redacted(tool_call("find", 1, NAME), tool_call("find", 2, "Maria"))
    for _ in range(2):
        assert again.ask(tool_call("find", 0, "Maria")) is not None
    assert [(item.steps, "one of them only" in item.why) for item in again.session.report().ambiguous] == [((1, 2), True)]


@pytest.mark.proof
@pytest.mark.long
def test_different_requests_that_redaction_made_equal_are_named() -> None:
    """Short codes have one surrogate in common, so that it tells nothing."""
    again = redacted(*(tool_call("open", number, pin=9999) for number in range(3)))
    for pin in (4711, 4711, 1208):
        assert again.ask(tool_call("open", 0, pin=pin)) is not None
    assert [(item.steps, "share a surrogate" in item.why) for item in again.session.report().ambiguous] == [((2, 3), True)]
