"""The sweeper: drops the expired days from the embedded store, once an hour, except failed and pinned runs.

The first sweep is an hour after the start, so that a collector that was started on old data by mistake can be stopped in time.
For a server, the operator runs the retention: `freezeframe store expire --store URL`.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
from typing import Final

from freezeframe_collector.store import Store
from freezeframe_collector.store.retention import Retention, expire
from freezeframe_schemas.errors import FreezeframeError

_LOG = logging.getLogger(__name__)
INTERVAL_S: Final = 3600.0


class Sweeper:
    """A thread that sweeps until it is stopped."""

    def __init__(self, store: Store, retention: Retention, *, interval_s: float = INTERVAL_S) -> None:
        self._store = store
        self._retention = retention
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="freezeframe-sweeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Wait for a sweep under way; return whether the thread has ended."""
        self._stopping.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self.sweep(dt.datetime.now(dt.UTC).date())

    def sweep(self, today: dt.date) -> None:
        """Drop what has expired; a failure is logged, and the next sweep tries again."""
        try:
            for day in expire(self._store, self._retention, today=today):
                _LOG.info("retention: %s: %d runs dropped, %d kept", day.day, day.dropped_runs, day.kept_runs)
        except FreezeframeError as error:
            _LOG.error("retention: %s", error)
