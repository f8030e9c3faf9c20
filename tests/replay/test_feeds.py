"""What a program takes from its surroundings: the clock, UUIDs, flags. In a replay it gets what the run got."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import threading
import time
import uuid
from dataclasses import replace
from typing import Any
from uuid import uuid1, uuid4

import pytest
from answered_here import answering, record, replay
from handmade_runs import make_run, model_call

import freezeframe
from freezeframe.seams import Call
from freezeframe.testing import capture
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.moments import Moments, Slack
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Exchange
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import Verdict, verdict

# -- UUIDs --------------------------------------------------------------------------------------------------------------


def test_uuids_are_given_again_whoever_imported_the_function_and_in_whatever_lane() -> None:
    def agent() -> Any:
        made: dict[int, Any] = {}

        def work(number: int) -> None:
            made[number] = [uuid4().hex[:8], str(uuid.uuid4())]

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in reversed(threads):
            thread.start()
        for thread in threads:
            thread.join()

        async def task() -> str:
            await asyncio.sleep(0)
            return str(uuid4())

        async def main() -> list[str]:
            return await asyncio.gather(*(task() for _ in range(4)))

        return [made[number] for number in range(4)], asyncio.run(main()), str(uuid1()), str(uuid.uuid1())

    fixture, outcome = record(agent)
    for _ in range(3):
        report, again = replay(agent, ReplaySession(fixture))
        assert again == outcome
        assert verdict(report) is Verdict.IDENTICAL


def test_the_ids_that_langchain_gives_its_messages_are_given_again() -> None:
    from uuid_utils.compat import uuid4, uuid7

    def agent() -> Any:
        return [str(uuid7()), str(uuid4()), str(uuid7(timestamp=1, nanos=2))]

    fixture, outcome = record(agent)
    report, again = replay(agent, ReplaySession(fixture))
    assert again == outcome
    assert verdict(report) is Verdict.IDENTICAL


def test_a_uuid_more_than_recorded_is_a_new_one() -> None:
    made: list[str] = []

    def agent() -> str:
        made.append(str(uuid4()))
        return made[-1]

    fixture, first = record(agent)

    def twice() -> str:
        agent()
        return agent()

    _, second = replay(twice, ReplaySession(fixture))
    assert made[1] == first
    assert second not in (first, made[1])


def test_a_uuid_that_a_tool_drew_is_not_given_to_the_next_who_asks() -> None:
    """A replay does not run the tool, so no one would take its reading."""

    @freezeframe.tool
    def book() -> str:
        return str(uuid4())

    def agent() -> list[str]:
        return [str(uuid4()), book(), str(uuid4())]

    fixture, outcome = record(agent)
    report, again = replay(agent, ReplaySession(fixture))
    assert again == outcome
    assert verdict(report) is Verdict.IDENTICAL


def test_outside_a_run_uuids_are_left_alone() -> None:
    with capture():
        assert uuid4() != uuid4()
    assert uuid.os.__name__ == "os"  # pyright: ignore[reportAttributeAccessIssue]  # what the seam stands in for


# -- what was typed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "heard"),
    [("as they are", ["now 1", "now 2"]), ("in runs", ["then 1", "now 1"]), ("everywhere", ["then 1", "then 2"])],
)
def test_what_was_typed_is_given_again_in_runs_or_everywhere(
    where: str, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("then 1\nthen 2\nnow 1\nnow 2\n"))
    fixture, _ = record(lambda: [input(), input()])
    with answering(ReplaySession(fixture), typed=where):
        assert [freezeframe.run(name="agent")(input)(), input()] == heard


# -- flags --------------------------------------------------------------------------------------------------------------


def test_a_flag_has_the_recorded_value_whatever_it_is_now() -> None:
    now = {"new-prices": True, "tone": "warm"}

    def agent() -> Any:
        return [freezeframe.flag("new-prices", now["new-prices"]), freezeframe.flag("tone", now["tone"])]

    fixture, outcome = record(agent)
    assert outcome == [True, "warm"]
    now.update({"new-prices": False, "tone": "cold"})
    report, again = replay(agent, ReplaySession(fixture))
    assert again == outcome
    assert verdict(report) is Verdict.IDENTICAL


def test_a_flag_that_the_run_did_not_ask_for_is_the_programs_own() -> None:
    fixture, _ = record(lambda: None)
    _, value = replay(lambda: freezeframe.flag("new", 7), ReplaySession(fixture))
    assert value == 7


def test_flags_of_openfeature_have_the_recorded_value_without_their_provider() -> None:
    api: Any = pytest.importorskip("openfeature.api")
    memory: Any = pytest.importorskip("openfeature.provider.in_memory_provider")

    def agent() -> Any:
        client = api.get_client()
        return [
            client.get_boolean_value("new-prices", False),
            client.get_string_value("tone", "none"),
            asyncio.run(client.get_integer_value_async("limit", 0)),
        ]

    flags = {
        "new-prices": memory.InMemoryFlag("on", {"on": True, "off": False}),
        "tone": memory.InMemoryFlag("a", {"a": "warm"}),
        "limit": memory.InMemoryFlag("a", {"a": 3}),
    }
    api.set_provider(memory.InMemoryProvider(flags))
    fixture, outcome = record(agent)
    assert outcome == [True, "warm", 3]
    api.set_provider(memory.InMemoryProvider({}))
    assert replay(agent, ReplaySession(fixture))[1] == outcome


# -- the clock ----------------------------------------------------------------------------------------------------------


def ask(session: ReplaySession, text: str) -> Exchange | None:
    exchange = model_call(text, "")
    return session.respond(
        Call(kind=exchange.kind, name=exchange.name, seam=exchange.seam, request=exchange.request, lane=exchange.lane)
    )


NOW_NS = int(dt.datetime(2026, 11, 22, 14, 5, tzinfo=dt.UTC).timestamp()) * 10**9


def session_of(*calls: Exchange) -> ReplaySession:
    """Return a session of a run at `NOW_NS`."""

    def moved(item: Any) -> Any:
        return replace(
            item, start_time_unix_nano=NOW_NS + item.start_time_unix_nano, end_time_unix_nano=NOW_NS + item.end_time_unix_nano
        )

    fixture = freeze(build_run(make_run(*calls)))
    steps = tuple(replace(step, exchange=moved(step.exchange)) for step in fixture.steps)
    return ReplaySession(replace(fixture, entry=moved(fixture.entry), steps=steps))


@pytest.mark.parametrize(
    ("recorded", "live"),
    [
        ("2026-11-22T14:05:17.123456", "2026-11-22T14:05:17.900001"),
        ("2026-11-22 14:05:17.123456+00:00", "2026-11-22 14:05:18.000000+00:00"),
        ("2026-11-22T23:59:59Z", "2026-11-23T00:00:00Z"),
        ("2026-11-22 14:05", "2026-11-22 14:06"),
        ("14:05:17", "14:05:18"),
        ("1795356317", "1795356318"),
        ("1795356317.25", "1795356318.5"),
        ("1795356317250", "1795356317950"),
        ("1795356317250000000", "1795356317950000000"),
    ],
)
def test_a_time_that_the_program_reads_from_its_clock_does_not_decide(recorded: str, live: str) -> None:
    session = session_of(model_call(f"It is {recorded}.", "1"), model_call(f"It was {recorded}; and?", f"yes, {recorded}"))
    assert ask(session, f"It is {live}.") is not None
    assert ask(session, f"It was {live}; and?") is not None
    report = session.report()
    assert report.divergences == ()
    assert report.relaxations == {"clock": 2}


@pytest.mark.parametrize(
    "live", ["It is 2026-11-22T14:06:17Z.", "It was 2026-11-22T14:05:17Z.", "It is 2026-11-22T14:05:18Z?", "It is Sunday."]
)
def test_another_time_or_another_word_still_decides(live: str) -> None:
    session = session_of(model_call("It is 2026-11-22T14:05:17Z.", "1"))
    with pytest.raises(ReplayMiss):
        ask(session, live)


def test_a_time_that_the_program_was_given_is_content() -> None:
    session = session_of(model_call("when?", "at 2026-11-22T14:05:17Z"), model_call("book 2026-11-22T14:05:17Z", "done"))
    ask(session, "when?")
    with pytest.raises(ReplayMiss, match="14:05:18"):
        ask(session, "book 2026-11-22T14:05:18Z")


@pytest.mark.parametrize(
    ("recorded", "live"),
    [("1234567890", "1234567891"), ("1234567890123", "1234567890124"), ("2026-01-05 10:00", "2026-01-05 10:01")],
)
def test_a_number_or_a_date_far_from_the_run_was_not_read_from_its_clock(recorded: str, live: str) -> None:
    session = session_of(model_call(f"Where is order {recorded}?", "1"))
    with pytest.raises(ReplayMiss, match=live):
        ask(session, f"Where is order {live}?")


def test_the_first_difference_is_the_change_and_not_the_time() -> None:
    session = session_of(model_call("It is 2026-11-22T14:05:17Z. Be brief.", "1"))
    body = model_call("It is 2026-11-22T14:05:18Z. Be brief.", "1", model="another")
    with pytest.raises(ReplayMiss, match=r"\$\.body\.model"):
        session.respond(Call(kind=body.kind, name=body.name, seam=body.seam, request=body.request, lane=body.lane))


def test_a_time_in_the_outcome_does_not_decide_either() -> None:
    def agent() -> dict[str, Any]:
        return {"at": dt.datetime.now(dt.UTC).isoformat(), "stamp": time.time(), "text": f"made {dt.datetime.now()}"}

    fixture, _ = record(agent)
    assert verdict(replay(agent, ReplaySession(fixture))[0]) is Verdict.IDENTICAL


def test_numbers_that_are_no_times_are_compared_as_they_are() -> None:
    slack = Slack(within_s=2, is_content=lambda text: False, now_s=NOW_NS / 1e9)
    assert Moments().settle({"n": 41, "id": 99}, {"n": 42, "id": 99}, slack) == {"n": 42, "id": 99}
    assert Moments().settle([1, 2], [1, 2, 3], slack) == [1, 2, 3]
