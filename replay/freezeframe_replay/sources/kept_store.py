"""A store that stays open between requests, and the last viewed run.

Opening a connection costs several statements, and reading a large run takes seconds. A user who goes from a run
to one of its steps should not wait for either.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from freezeframe_replay.sources.store import RunStore, load_stored, open_runs, with_standing
from freezeframe_schemas.errors import StoreError
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.run import Run

_T = TypeVar("_T")
_FRESH_S: Final = 30.0
"""Time after which a finished run is read again: a late span shows up after that."""


class KeptStore:
    """The store at an address that may change: a collector that was restarted is found again."""

    def __init__(self, find_url: Callable[[], str]) -> None:
        self._find_url = find_url
        self._lock = threading.Lock()
        self._url = ""
        self._store: RunStore | None = None
        self._last: tuple[float, Run] | None = None

    def use(self, work: Callable[[RunStore], _T]) -> _T:
        """Return the result of `work`; over a new connection if the kept one no longer works."""
        url = self._find_url()
        with self._lock:
            kept = self._store if url == self._url else None
        if kept is not None:
            try:
                return work(kept)
            except StoreError:  # closed, or the token is another one since a restart
                pass
        return work(self._open(url))

    def load(self, name: str) -> Run:
        """Return the run of a trace id or of any other name that `RunStore.find` takes.

        Raises:
            RunError: no such run, or several.
            WireError: the stored run is damaged.
        """
        last = self._last
        if last is not None and last[1].trace_id == name and time.monotonic() - last[0] < _FRESH_S:
            return last[1]
        run = self.use(lambda store: with_standing(load_stored(store, name), store))
        self._last = None if run.status is RunStatus.UNFINISHED else (time.monotonic(), run)
        return run

    def close(self) -> None:
        with self._lock:
            store, self._store, self._url = self._store, None, ""
        if store is not None:
            store.close()

    def _open(self, url: str) -> RunStore:
        opened = open_runs(url)
        with self._lock:
            # the one before is not closed here: another thread may be reading from it
            self._store, self._url = opened, url
        return opened
