"""Admission: bytes in progress are bounded, and a request that waits for room gets it as soon as there is some."""

from __future__ import annotations

import threading

import pytest

from freezeframe_collector.admission import BusyError, ByteBudget


def waiting_for(budget: ByteBudget) -> tuple[threading.Thread, threading.Event]:
    """Return a thread that wants 80 bytes and has none, and what it sets once it has them."""
    entered = threading.Event()

    def second() -> None:
        with budget.reserve(80):
            entered.set()

    waiting = threading.Thread(target=second, daemon=True)
    waiting.start()
    assert not entered.wait(0.05)
    return waiting, entered


def test_a_request_that_waits_enters_when_another_ends() -> None:
    """It is refused only after the whole wait, and enters sooner if there is room before that."""
    budget = ByteBudget(100, wait_s=60.0, retry_after_s=1.0)
    with budget.reserve(80):
        waiting, entered = waiting_for(budget)
    assert entered.wait()
    waiting.join()
    assert (budget.used_bytes, budget.refused) == (0, 0)


def test_a_request_larger_than_the_budget_enters_alone() -> None:
    """It would wait for ever otherwise; next to another one it is refused, and the refusal says how much there was."""
    budget = ByteBudget(100, wait_s=0.0, retry_after_s=1.0)
    with budget.reserve(1_000):
        assert budget.used_bytes == 1_000
    with budget.reserve_now(1), pytest.raises(BusyError, match="1 of 100 bytes are in use, the request has 1000"):
        budget.reserve(1_000)
    assert (budget.used_bytes, budget.refused) == (0, 1)


def test_a_larger_budget_lets_in_who_waits() -> None:
    """A reload that raises the limit helps requests that are waiting already."""
    budget = ByteBudget(100, wait_s=60.0, retry_after_s=1.0)
    with budget.reserve(80):
        waiting, entered = waiting_for(budget)
        budget.renew(200, wait_s=60.0, retry_after_s=1.0)
        assert entered.wait()
        waiting.join()


def test_what_fails_gives_its_room_back() -> None:
    """A request that breaks in the middle leaves nothing reserved."""
    budget = ByteBudget(100, wait_s=0.0, retry_after_s=1.0)
    with pytest.raises(ZeroDivisionError), budget.reserve(60):
        raise ZeroDivisionError
    assert budget.used_bytes == 0
    assert budget.wait_idle(0.0)
