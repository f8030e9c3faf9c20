"""RUN and FIXTURE on a command line: what the user named, loaded."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from freezeframe_replay.cli.options import home_of
from freezeframe_replay.local.daemon import flush, store_url
from freezeframe_replay.report.render import ID_DIGITS
from freezeframe_schemas.errors import ConfigError, RunError

if TYPE_CHECKING:
    from freezeframe_replay.sources.store import RunStore
    from freezeframe_schemas.fixture import Fixture
    from freezeframe_schemas.run import Run

_LIKE_A_FILE: Final = re.compile(r"\.(?:jsonl?|pb|tar\.gz|tgz)(?::|$)")
TARGET_HELP = (
    "id of a run, its first digits, `last`, `last-failed`, a fixture's directory or .tar.gz, or a file of spans (FILE or "
    "FILE:ID)"
)


def is_fixture(text: str) -> bool:
    """Return whether the argument names a fixture: its directory or manifest, or a path where nothing is."""
    path = Path(text)
    if path.is_dir() or path.name == "manifest.json":
        return True
    from freezeframe_replay.sources.fixture_archive import is_archive
    from freezeframe_replay.sources.span_file import split_name

    return is_archive(path) or ("/" in text and split_name(text) is None)


def typed_again(arguments: argparse.Namespace, run_id: str) -> str:
    """Return how the run or fixture of this command line is named in the next one.

    A file or fixture as it was; a run by its id, since `last` may be another one by then, with --data and --store where they
    were given. The password of a store is not repeated.
    """
    from freezeframe_replay.sources.span_file import split_name

    named: str = arguments.run
    if is_fixture(named) or split_name(named) is not None:
        return shlex.quote(named)
    words = [run_id if named.lower() == run_id else run_id[:ID_DIGITS]]  # other backends know whole ids only
    if arguments.data:
        words.append(f"--data {shlex.quote(str(arguments.data))}")
    if arguments.store:
        words.append(f"--store {'URL' if urlsplit(arguments.store).password else shlex.quote(arguments.store)}")
    return " ".join(words)


def load_target_fixture(text: str) -> Fixture:
    """Return the fixture at a path; the directory, its manifest or an archive of it may be named.

    Raises:
        FixtureError: none there, or damaged.
    """
    from freezeframe_replay.sources.fixture_archive import is_archive, load_fixture_archive
    from freezeframe_schemas.fixture import load_fixture

    return load_fixture_archive(Path(text)) if is_archive(Path(text)) else load_fixture(fixture_directory(text))


def fixture_to_replay(text: str) -> Fixture | Path:
    """Return the fixture at a path as a replay takes it: its directory, or out of an archive.

    Raises:
        FixtureError: an archive that cannot be read.
    """
    from freezeframe_replay.sources.fixture_archive import is_archive

    return load_target_fixture(text) if is_archive(Path(text)) else fixture_directory(text)


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
    from freezeframe_replay.sources.backends import is_backend
    from freezeframe_replay.sources.store import open_runs

    url = _store_of(arguments)
    if is_backend(url):
        raise ConfigError(
            f"store: {url.partition('://')[0]} returns runs by trace id only; lists and SQL require freezeframe's own tables",
            do="name the run, for example `freezeframe show TRACE_ID --store URL`",
        )
    return open_runs(url)


def _store_of(arguments: argparse.Namespace) -> str:
    if arguments.store:
        return str(arguments.store)
    home = home_of(arguments)
    url = store_url(home)
    flush(home)
    return url


def load_run(arguments: argparse.Namespace, named: str | None = None) -> Run:
    """Return the run that `named` (by default `arguments.run`) names, of the store or of a file of spans.

    Raises:
        RunError: no such run, or several.
    """
    from freezeframe_replay.sources.backends import is_backend, load_backend_spans
    from freezeframe_replay.sources.span_file import load_run_of_file, split_name
    from freezeframe_replay.sources.store import open_runs
    from freezeframe_schemas.run import build_run

    text: str = named or arguments.run
    in_file = split_name(text)
    if in_file is not None:
        return load_run_of_file(*in_file)
    if _LIKE_A_FILE.search(text):
        raise RunError(f"{text}: no such file", do="name a file of spans, a fixture, or the id of a run in the store")
    url = _store_of(arguments)
    return build_run(load_backend_spans(url, text) if is_backend(url) else open_runs(url).load_spans(text))


def load_as_fixture(arguments: argparse.Namespace, named: str) -> Fixture:
    """Return what `named` names as a fixture: one on the disk, or a run, frozen."""
    if is_fixture(named):
        return load_target_fixture(named)
    from freezeframe_replay.engine.freeze import freeze

    return freeze(load_run(arguments, named))
