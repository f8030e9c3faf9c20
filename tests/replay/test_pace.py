"""Racing tasks are answered in the recorded order, in whatever order they asked."""

from __future__ import annotations

import _thread
import asyncio
import itertools
import threading
import time

import pytest

from freezeframe_replay.engine import threads
from freezeframe_replay.engine.pace import Pace
from freezeframe_replay.engine.threads import Activity


@pytest.mark.parametrize("recorded", list(itertools.permutations([10, 20, 30])))
async def test_answers_come_in_recorded_order(recorded: tuple[int, ...]) -> None:
    pace, came = Pace(), list[int]()

    async def ask(at_ns: int) -> None:
        await pace.wait(at_ns)
        came.append(at_ns)

    await asyncio.gather(*(ask(at_ns) for at_ns in recorded))
    assert came == sorted(recorded)


@pytest.mark.parametrize(
    ("asked_ns", "expected"),
    [
        ([0, 0, 15], ["fast answered", "fast acted", "slow answered", "slow acted"]),
        ([0, 0, 25], ["fast answered", "slow answered", "fast acted", "slow acted"]),
    ],
    ids=["asked between the answers", "asked after both"],
)
async def test_the_winner_of_a_race_acts_before_the_loser_is_answered_where_it_did_in_the_run(
    asked_ns: list[int], expected: list[str]
) -> None:
    pace, log = Pace(asked_ns), list[str]()

    async def ask(name: str, at_ns: int) -> None:
        await pace.wait(at_ns)
        log.append(f"{name} answered")
        await asyncio.sleep(0)
        log.append(f"{name} acted")

    await asyncio.gather(ask("slow", 20), ask("fast", 10))
    assert log == expected


async def test_a_cancelled_task_does_not_hold_up_the_others() -> None:
    pace = Pace()
    first = asyncio.ensure_future(pace.wait(1))
    second = asyncio.ensure_future(pace.wait(2))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert first.cancelled()


async def test_time_that_passes_by_itself_waits_for_the_next_answer() -> None:
    """So no timeout that is later than the answer fires before it, however busy the machine is."""
    pace, loop = Pace(), asyncio.get_running_loop()
    began_s = pace.loop_time(loop)
    answer = asyncio.ensure_future(pace.wait(20_000_000))
    await asyncio.sleep(0)
    pace._let_pass()
    until_ns = time.thread_time_ns() + 100_000_000
    while time.thread_time_ns() < until_ns:  # the program works on
        sum(range(1000))
    passed_s = (pace.loop_time(loop) or 0) - (began_s or 0)
    assert passed_s == pytest.approx(0.02, abs=1e-4)
    await answer


def test_a_thread_that_looks_does_not_count_itself_even_if_python_knows_it() -> None:
    """Python knows a thread by its id for good once it has asked for its own `Thread`, and ids are used again."""
    done, found = _thread.allocate_lock(), set[Activity]()
    done.acquire()

    def looks() -> None:
        threading.current_thread()
        for _ in range(500):
            seen = threads.look(())
            time.sleep(0.001)
            found.add(threads.activity_since(seen, ()))
            if Activity.RESTED in found:
                break
        done.release()

    _thread.start_new_thread(looks, ())
    done.acquire()
    assert Activity.RESTED in found


@pytest.mark.parametrize("state", "DTZ")
def test_a_thread_that_waits_for_a_disk_or_is_stopped_uses_up_the_time_without_rest(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def always(thread: int) -> str:
        del thread
        return state

    monkeypatch.setattr(threads, "_KNOWS_STATES", True)
    monkeypatch.setattr(threads, "_state", always)
    assert threads.activity_since({1: None}, ()) is Activity.PAUSED
