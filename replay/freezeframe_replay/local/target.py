"""The run or fixture that a user names, and its source."""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from freezeframe_replay.local.collector import store_url
from freezeframe_replay.local.home import STORE_VARIABLE, find_home
from freezeframe_replay.report.render import ID_DIGITS
from freezeframe_replay.sources.fixture_archive import is_archive, load_fixture_archive
from freezeframe_replay.sources.span_file import load_runs_below, load_runs_of_file, others_of, pick_run, split_name
from freezeframe_replay.sources.store import LAST, RunStore, load_stored, open_runs
from freezeframe_replay.sources.store_door import is_backend
from freezeframe_schemas.errors import ConfigError, RunError
from freezeframe_schemas.fixture import Fixture, load_fixture
from freezeframe_schemas.run import Run, build_run

if TYPE_CHECKING:
    from freezeframe_replay.sources.backends import ListedRun

_LIKE_A_FILE: Final = re.compile(r"\.(?:jsonl?|pb|tar\.gz|tgz|ffz)(?::|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsPlace:
    """The source of runs."""

    data: Path | None = None
    """The data directory; None to find it as `find_home` does."""
    store: str | None = None
    """The URL of another store; None to read the data directory's own."""


def is_fixture(text: str) -> bool:
    """Return whether the argument names a fixture: its directory or manifest, or a path where nothing exists."""
    path = Path(text)
    if (path.is_dir() and split_name(text) is None) or path.name == "manifest.json":
        return True
    return is_archive(path) or ("/" in text and split_name(text) is None)


def target_as_typed(place: RunsPlace, named: str, run_id: str) -> str:
    """Return the name of this run or fixture for the next command line.

    A file or fixture keeps its name. A run is named by its id, since `last` may be another one by then, with --data and --store
    if they were given. The password of a store is not repeated.
    """
    if is_fixture(named) or split_name(named) is not None:
        return shlex.quote(named)
    whole = named.lower() == run_id or (place.store is not None and is_backend(place.store))
    words = [run_id if whole else run_id[:ID_DIGITS]]  # other backends know only whole ids
    if place.data:
        words.append(f"--data {shlex.quote(str(place.data))}")
    if place.store:
        words.append(f"--store {'URL' if urlsplit(place.store).password else shlex.quote(place.store)}")
    return " ".join(words)


def load_target(place: RunsPlace, named: str) -> Fixture | Run:
    """Return the fixture at a path (its directory, its manifest, or an archive of it), else the run of this name.

    Raises:
        FixtureError: the fixture is missing or damaged.
        RunError: no such run, or several.
    """
    if not is_fixture(named):
        return load_run(place, named)
    return load_fixture_archive(Path(named)) if is_archive(Path(named)) else load_fixture(fixture_directory(named))


def fixture_directory(text: str) -> Path:
    """Return the directory of the fixture named by its folder or its manifest."""
    path = Path(text)
    return path.parent if path.name == "manifest.json" else path


def open_store(place: RunsPlace) -> RunStore:
    """Return the store that --store, the environment or the data directory names.

    Raises:
        ConfigError: no store to read.
        StoreError: it does not answer.
    """
    return open_runs(sql_store_of(place))


def sql_store_of(place: RunsPlace) -> str:
    """Return the URL of a store with freezeframe's own tables.

    Raises:
        ConfigError: it is missing, or it is another kind of store.
    """
    is_folder = folder_of(place) is not None
    url = store_of(place)
    if is_folder or is_backend(url):
        raise ConfigError(
            f"store: {url.partition('://')[0]} has no SQL and no filters; these require freezeframe's own tables",
            do="list its newest runs with `freezeframe runs --store URL`, and name one",
        )
    return url


def reads_sql(place: RunsPlace) -> bool:
    """Return whether the place is a store with freezeframe's own tables: a data directory's own is."""
    return folder_of(place) is None and not is_backend(place.store or os.environ.get(STORE_VARIABLE, "").strip())


def is_stored(place: RunsPlace, named: str) -> bool:
    """Return whether the name is that of a run in such a store, not of a file or a fixture."""
    is_path = is_fixture(named) or split_name(named) is not None or _LIKE_A_FILE.search(named)
    return not is_path and reads_sql(place)


def folder_of(place: RunsPlace) -> Path | None:
    """Return the directory of OTLP files that --store names, None if it names something else."""
    found = Path(place.store) if place.store and "://" not in place.store else None
    return found if found is not None and found.is_dir() else None


def list_elsewhere(place: RunsPlace, limit: int) -> list[ListedRun] | None:
    """Return the newest runs of another backend or of a directory of OTLP files, the newest first; None if it is our store.

    Raises:
        ConfigError: it lists no runs.
        StoreError: it does not answer.
    """
    folder = folder_of(place)
    url = "" if folder is not None else store_of(place)
    if folder is None and not is_backend(url):
        return None
    from freezeframe_replay.sources.backends import list_backend_runs, listed_run  # which read every vendor's spans

    if folder is None:
        return list_backend_runs(url, limit)
    return list(map(listed_run, load_runs_below(folder)[: -limit - 1 : -1]))


def store_of(place: RunsPlace) -> str:
    """Return the URL of the store to read; a collector of the data directory first stores all acknowledged spans.

    Raises:
        ConfigError: no store to read.
    """
    return place.store or store_url(find_home(place.data))


def load_run(place: RunsPlace, named: str) -> Run:
    """Return the named run, from the store or from a file of spans.

    Raises:
        RunError: no such run, or several.
    """
    in_file = split_name(named)
    if in_file is not None:
        path, run = in_file
        return _picked(path, load_runs_of_file(path), run)
    if _LIKE_A_FILE.search(named):
        raise RunError(f"{named}: no such file", do="name a file of spans, a fixture, or the id of a run in the store")
    folder = folder_of(place)
    if folder is not None:
        return _picked(folder, load_runs_below(folder), "" if named == LAST else named)
    url = store_of(place)
    if not is_backend(url):
        return load_stored(open_runs(url), named)
    from freezeframe_replay.sources.backends import load_backend_spans

    return build_run(load_backend_spans(url, named))


def _picked(path: Path, runs: list[Run], named: str) -> Run:
    """Return one run of a path; if none was named and there are several, name the others on stderr."""
    run = pick_run(path, runs, named)
    if not named and (line := others_of(path, runs, run)):
        print(f"note: {line}", file=sys.stderr)
    return run


def load_as_fixture(place: RunsPlace, named: str) -> Fixture:
    """Return the named fixture on the disk, or the named run as a fixture."""
    found = load_target(place, named)
    if isinstance(found, Fixture):
        return found
    from freezeframe_replay.engine.freeze import freeze

    return freeze(found)
