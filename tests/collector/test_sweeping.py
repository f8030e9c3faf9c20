"""The sweeper's thread over a store that does not answer; `tests/store/test_sweeper.py` tests what a sweep does."""

from __future__ import annotations

import logging
import threading
from typing import Any, cast

import pytest

from freezeframe_collector.service import Sweeper
from freezeframe_collector.store import Store
from freezeframe_collector.store.retention import Retention
from freezeframe_schemas.errors import RetryableStoreError


class AwayEngine:
    """An engine that always fails, and says when it was asked often enough."""

    def __init__(self, enough: int) -> None:
        self.asked = 0
        self.enough = threading.Event()
        self._enough = enough

    def rows(self, *_: object) -> Any:
        self.asked += 1
        if self.asked >= self._enough:
            self.enough.set()
        raise RetryableStoreError("connection refused")

    command = rows


def _sweeper(engine: AwayEngine, interval_s: float) -> Sweeper:
    return Sweeper(Store(cast("Any", engine)), Retention(days=30), interval_s=interval_s)


def test_a_sweep_that_fails_is_logged_and_done_again(caplog: pytest.LogCaptureFixture) -> None:
    """The store may be back in an hour: the thread does not end."""
    engine = AwayEngine(enough=3)
    sweeper = _sweeper(engine, 0.001)
    with caplog.at_level(logging.ERROR):
        sweeper.start()
        assert engine.enough.wait()
        assert sweeper.stop(300)
    assert "retention: connection refused" in caplog.text


def test_the_first_sweep_is_an_interval_after_the_start() -> None:
    """A user who started a collector on old data by mistake has time to stop it; and a stop does not wait for the interval."""
    engine = AwayEngine(enough=1)
    sweeper = _sweeper(engine, 3600.0)
    sweeper.start()
    assert not engine.enough.wait(0.1)
    assert sweeper.stop(300)
    assert engine.asked == 0
