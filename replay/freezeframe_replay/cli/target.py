"""RUN and FIXTURE on a command line: what the user named, loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from freezeframe_replay.home import Home, store_url

if TYPE_CHECKING:
    from freezeframe_replay.store import RunStore
    from freezeframe_schemas.fixture import Fixture
    from freezeframe_schemas.run import Run


def is_fixture(text: str) -> bool:
    """Tell whether the argument is a path (a fixture), not the id of a run."""
    path = Path(text)
    return path.is_dir() or path.name == "manifest.json" or "/" in text


def load_target_fixture(text: str) -> Fixture:
    """Return the fixture at a path; the directory or its manifest may be named.

    Raises:
        FixtureError: none there, or damaged.
    """
    from freezeframe_schemas.fixture import load_fixture

    return load_fixture(fixture_directory(text))


def fixture_directory(text: str) -> Path:
    """Return the directory of the fixture named by its folder or its manifest."""
    path = Path(text)
    return path.parent if path.name == "manifest.json" else path


def open_store(home: Home) -> RunStore:
    """Return the store of the data directory.

    Raises:
        ConfigError: there is none to read.
        StoreError: it does not answer.
    """
    from freezeframe_replay.store import open_runs

    return open_runs(store_url(home))


def load_run(text: str, home: Home) -> Run:
    """Return a run of the store.

    Raises:
        RunError: no such run, or several.
    """
    from freezeframe_schemas.run import build_run

    store = open_store(home)
    return build_run(store.load_spans(store.resolve(text)))
