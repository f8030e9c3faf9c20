"""The source that operations read runs from: a store that stays open and, for people on this machine, files and fixtures."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from freezeframe_replay.local.home import STORE_VARIABLE, Home, find_home
from freezeframe_replay.local.target import RunsPlace, is_stored, load_target, sql_store_of, target_as_typed
from freezeframe_replay.sources.store import KeptStore, RunStore
from freezeframe_schemas.data_directory import KEYS
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import Run

_T = TypeVar("_T")


class RunSource:
    """Runs by name.

    Args:
        place: the source in which names are looked up.
        store: the store, if it is open already.
        only_stored: never read a name as a path: it came over HTTP.
    """

    def __init__(self, place: RunsPlace, store: KeptStore | None = None, *, only_stored: bool = False) -> None:
        self._place = place
        self._store = store or KeptStore(lambda: sql_store_of(place))
        self._only_stored = only_stored

    def is_stored(self, name: str) -> bool:
        """Return whether the name is that of a run in our own store."""
        return self._only_stored or is_stored(self._place, name)

    @property
    def home(self) -> Home:
        """Return the data directory."""
        return find_home(self._place.data)

    @property
    def keys(self) -> Path:
        """Return the directory of the keys, by which a replay compares private values."""
        return self.home.directory / KEYS

    @property
    def is_own(self) -> bool:
        """Return whether the store is that of the data directory."""
        return not (self._place.store or os.environ.get(STORE_VARIABLE))

    def as_typed(self, name: str, run_id: str) -> str:
        """Return the name of the run for the next command line."""
        return target_as_typed(self._place, name, run_id)

    def load(self, name: str) -> Fixture | Run:
        """Return the run or the fixture of this name.

        Raises:
            FixtureError: the fixture is missing or damaged.
            RunError: no such run, or several.
        """
        return self._store.load(name) if self.is_stored(name) else load_target(self._place, name)

    def fixture(self, name: str) -> Fixture:
        """Return the same as a fixture; raises as `load`."""
        found = self.load(name)
        if isinstance(found, Fixture):
            return found
        from freezeframe_replay.engine.freeze import freeze  # which reads every wire dialect

        return freeze(found)

    def use(self, work: Callable[[RunStore], _T]) -> _T:
        """Return the result of `work` on the store.

        Raises:
            ConfigError: it is missing, or it has no SQL.
            StoreError: it does not answer.
        """
        return self._store.use(work)
