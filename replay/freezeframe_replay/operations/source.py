"""The source that operations read runs from: a store that stays open and, for people on this machine, files and fixtures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.local.target import RunsPlace, is_stored, load_target, sql_store_of
from freezeframe_replay.sources.kept_store import KeptStore
from freezeframe_replay.sources.store import RunStore
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import Run

_T = TypeVar("_T")


class RunSource:
    """Runs by name.

    Args:
        place: where names are looked up.
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

    def load(self, name: str) -> Fixture | Run:
        """Return the run or the fixture of this name.

        Raises:
            FixtureError: there is no fixture, or it is damaged.
            RunError: no such run, or several.
        """
        return self._store.load(name) if self.is_stored(name) else load_target(self._place, name)

    def fixture(self, name: str) -> Fixture:
        """Return the same as a fixture; raises as `load`."""
        found = self.load(name)
        return found if isinstance(found, Fixture) else freeze(found)

    def use(self, work: Callable[[RunStore], _T]) -> _T:
        """Return what `work` returns for the store.

        Raises:
            ConfigError: there is none, or it has no SQL.
            StoreError: it does not answer.
        """
        return self._store.use(work)
