"""Random numbers: a program draws what it would draw anyway, and each task and thread of a replay draws what it drew."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import choice
from random import random as drawn_by_name
from typing import Any

import numpy as np
import pytest
from answered_here import record
from answered_here import replay as replay_by

import freezeframe
from freezeframe.testing import capture
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_replay.process.isolate import restore_random
from freezeframe_schemas.divergence import Report
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import Verdict, verdict

Agent = Callable[[], Any]


@freezeframe.tool
def say(what: object) -> int:
    return len(str(what))


def replay(agent: Agent, fixture: Fixture) -> tuple[Report, Any]:
    return replay_by(agent, ReplaySession(fixture, on_enter=lambda: restore_random(fixture.entry)))


def shuffled(threads: list[threading.Thread]) -> list[threading.Thread]:
    """In an order that is not the program's, drawn from a source that no one watches."""
    return sorted(threads, key=lambda _: secrets.token_bytes(4))


# -- programs -----------------------------------------------------------------------------------------------------------


def in_threads() -> Any:
    """Threads that take turns at the generator as the scheduler decides."""
    drawn: dict[int, list[float]] = {}
    start = threading.Barrier(4)

    def work(number: int) -> None:
        start.wait()
        row = drawn[number] = []
        for _ in range(30):
            row.append(random.random())
            threading.Event().wait(secrets.randbelow(3) / 10_000)
        say(row)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [drawn[number] for number in range(4)]


def in_a_pool() -> Any:
    def work(number: int) -> Any:
        row = [random.randint(0, 10**9), random.choice("abcdefgh"), choice(range(1000)), random.sample(range(100), 3)]
        threading.Event().wait(secrets.randbelow(5) / 10_000)
        return [number, row, random.uniform(1, 2), random.getrandbits(100), random.gauss(0, 1), random.shuffle(row)]

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(work, range(12)))


def gauss_in_threads() -> Any:
    """Every other number was made together with the one before, perhaps for another thread."""

    def work(number: int) -> Any:
        row = [random.gauss(number, 1)]
        threading.Event().wait(secrets.randbelow(5) / 10_000)
        return [*row, random.random(), random.gauss(0, 2), random.gauss(0, 1)]

    random.gauss(0, 1)
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(work, range(12)))


def in_tasks() -> Any:
    async def work() -> Any:
        row = [random.random()]
        for _ in range(secrets.randbelow(4)):
            await asyncio.sleep(0)
        row.append(random.expovariate(1))
        say(row)
        return row

    async def main() -> Any:
        return await asyncio.gather(*(work() for _ in range(8)))

    return asyncio.run(main())


def beside_a_tool_that_draws() -> Any:
    @freezeframe.tool
    def roll() -> int:
        return random.randint(1, 6)

    return [random.random(), roll(), random.random(), roll(), random.random()]


def by_names_imported_before() -> Any:
    return [drawn_by_name(), choice("abc"), drawn_by_name(), random.random(), say(drawn_by_name())]


def seeded_by_the_program() -> Any:
    def work() -> float:
        return random.random()

    random.seed(7)
    first = random.random()
    with ThreadPoolExecutor(3) as pool:
        rest = [future.result() for future in [pool.submit(work) for _ in range(6)]]
    state = random.getstate()
    last = random.random()
    random.setstate(state)
    return [first, rest, last, random.random()]


def seeded_by_the_system() -> Any:
    random.seed()
    return [random.random(), say(random.random())]


def generators_of_its_own() -> Any:
    seeded = random.Random(3)
    unseeded = random.Random()
    return [seeded.random(), unseeded.random(), [random.Random().randint(0, 10**9) for _ in range(3)]]


def numpy_in_threads() -> Any:
    def work(number: int) -> Any:
        row = np.random.rand(3).tolist()
        threading.Event().wait(secrets.randbelow(5) / 10_000)
        return [number, row, int(np.random.randint(10**6)), np.random.normal(size=2).tolist()]

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(work, range(8)))


def generators_of_numpy() -> Any:
    return [
        np.random.default_rng().random(),
        float(np.random.RandomState().rand()),
        np.random.default_rng(4).random(),
        float(np.random.rand()),
        np.random.default_rng().random(),
    ]


def numpy_seeded() -> Any:
    np.random.seed(5)
    return [float(np.random.rand()), np.random.permutation(5).tolist()]


PROGRAMS: list[Agent] = [
    in_threads,
    in_a_pool,
    gauss_in_threads,
    in_tasks,
    beside_a_tool_that_draws,
    by_names_imported_before,
    seeded_by_the_program,
    seeded_by_the_system,
    generators_of_its_own,
    numpy_in_threads,
    generators_of_numpy,
    numpy_seeded,
]


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_each_lane_draws_again_what_it_drew(program: Agent) -> None:
    fixture, outcome = record(program)
    for _ in range(10):
        report, again = replay(program, fixture)
        assert again == outcome
        assert report.divergences == ()


def test_a_number_that_was_made_for_one_lane_and_given_to_another_is_given_again() -> None:
    """The second of `gauss`'s two; and numpy's generator goes on where another lane left it."""

    def turn() -> list[float]:
        return [random.gauss(0, 1), random.random(), float(np.random.rand())]

    def agent() -> Any:
        with ThreadPoolExecutor(1) as pool:
            return [turn(), pool.submit(turn).result(), turn()]

    fixture, outcome = record(agent)
    assert replay(agent, fixture)[1] == outcome


# -- the program's own sequence -----------------------------------------------------------------------------------------


def sequence() -> list[Any]:
    random.seed(1)
    row: list[Any] = [random.random(), drawn_by_name(), choice("abcdef"), random.getrandbits(70), random.gauss(0, 1)]
    row += [random.gauss(0, 1), random.sample(range(50), 5), random.randbytes(9), random.betavariate(1, 2)]
    with ThreadPoolExecutor(1) as pool:
        row += [pool.submit(random.random).result(), pool.submit(random.choices, "abc", k=4).result()]
    random.seed("words")
    np.random.seed(1)
    return [*row, random.random(), random.Random(9).random(), float(np.random.rand()), np.random.bytes(3)]


def test_a_program_draws_what_it_draws_without_us() -> None:
    bare = sequence()
    with capture():
        assert sequence() == bare
        assert freezeframe.run(sequence)() == bare
    assert sequence() == bare


@pytest.mark.proof
@pytest.mark.long
def test_many_draws_are_one_reading() -> None:
    def agent() -> float:
        return sum(random.random() for _ in range(50_000))

    fixture, outcome = record(agent)
    assert len(fixture.entry.clock_readings or "") < 100
    assert replay(agent, fixture)[1] == outcome


# -- other programs -----------------------------------------------------------------------------------------------------


def test_another_seed_draws_other_numbers() -> None:
    def agent(seed: int) -> float:
        random.seed(seed)
        return random.random()

    fixture, _ = record(lambda: agent(1))
    report, again = replay(lambda: agent(2), fixture)
    assert verdict(report) is not Verdict.IDENTICAL
    assert again == random.Random(2).random()


def test_a_draw_more_than_recorded_is_a_new_one() -> None:
    fixture, outcome = record(lambda: [random.random() for _ in range(2)])
    _, again = replay(lambda: [random.random() for _ in range(3)], fixture)
    assert again[:2] == outcome
    assert again[2] not in outcome


# -- what cannot be given again -----------------------------------------------------------------------------------------


def from_the_device() -> str:
    with open("/dev/urandom", "rb") as device:
        return device.read(3).hex()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: secrets.token_hex(4),
        lambda: random.SystemRandom().random(),
        lambda: os.urandom(3).hex(),
        lambda: os.getrandom(3).hex(),
        from_the_device,
    ],
    ids=["secrets", "SystemRandom", "os.urandom", "os.getrandom", "/dev/urandom"],
)
def test_what_is_meant_to_be_secret_is_not_recorded_and_named(draw: Agent) -> None:
    with capture() as captured:
        outcome = freezeframe.run(draw)()
        run = build_run(captured.spans)
    assert "random_unrecorded" in {gap.kind.value for gap in run.gaps}
    assert str(outcome) not in (run.entry.clock_readings or "")
