"""RUN and FIXTURE on a command line: what the user named, loaded."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from freezeframe_replay.cli.options import home_of
from freezeframe_replay.daemon import flush
from freezeframe_replay.home import store_url

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


def open_store(arguments: argparse.Namespace) -> RunStore:
    """Return the store that --store, the environment or the data directory names.

    Raises:
        ConfigError: there is none to read.
        StoreError: it does not answer.
    """
    from freezeframe_replay.store import open_runs

    if arguments.store:
        return open_runs(arguments.store)
    home = home_of(arguments)
    url = store_url(home)
    flush(home)
    return open_runs(url)


def load_run(arguments: argparse.Namespace) -> Run:
    """Return the run that `arguments.run` names.

    Raises:
        RunError: no such run, or several.
    """
    from freezeframe_schemas.run import build_run

    return build_run(open_store(arguments).load_spans(arguments.run))
