"""Dataset: a set of runs as a folder of fixtures with a manifest that pins each of them.

::

    dataset.json       format, version, the query that chose the runs, one row per run with its fixture's digest
    runs/<name>/       one fixture each (docs/fixture-format.md)
    judgements/        what judges asked and the answers, so that a verdict can be repeated offline
    results/           results of experiments that were kept, one file per candidate

Loading runs no code. A fixture that is not the pinned one is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from freezeframe_schemas.errors import FixtureError
from freezeframe_schemas.fixture import Fixture, load_fixture, write_fixture
from freezeframe_schemas.whole_file import replace_file

FORMAT: Final = "freezeframe-dataset"
VERSION: Final = 1
MANIFEST: Final = "dataset.json"
FIXTURE: Final = "manifest.json"
"""A file of each fixture's folder."""
_NAME_DIGITS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run of a dataset."""

    name: str
    """Its folder under ``runs``."""
    run_id: str
    digest: str
    """The fixture's digest."""
    note: str = ""
    """Reason for choosing it, for example the signature of its failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A loaded manifest. Fixtures are read one by one."""

    directory: Path
    rows: tuple[Row, ...]
    chosen_by: str = ""
    """The SQL, or the names, that chose the runs."""

    def directory_of(self, row: Row) -> Path:
        """Return the row's fixture directory."""
        if (self.directory / MANIFEST).exists():
            return self.directory / "runs" / row.name
        return self.directory if (self.directory / FIXTURE).exists() else self.directory / row.name

    def load(self, row: Row) -> Fixture:
        """Return the row's fixture.

        Raises:
            FixtureError: damaged, or not the one that the manifest pins.
        """
        directory = self.directory_of(row)
        fixture = load_fixture(directory)
        found = _digest_of(directory)
        if found != row.digest:
            raise FixtureError(
                f"{directory}: digest {found[:16]}..., {MANIFEST} next to it pins {row.digest[:16]}...: a different recording",
                do="make the dataset again with `freezeframe experiment dataset`",
            )
        return fixture


def write_dataset(directory: Path, runs: Iterable[tuple[Fixture, str]], *, chosen_by: str, kept: Iterable[Row] = ()) -> Dataset:
    """Write fixtures, each with a note, and then the manifest that pins them. Existing fixtures stay on disk.

    `kept`: existing rows of the dataset, which stay.

    Raises:
        FixtureError: no runs, or the folder cannot be written.
    """
    rows = {row.name: row for row in kept}
    try:
        for fixture, note in runs:
            name = fixture.run_id[:_NAME_DIGITS]
            if name in rows and rows[name].run_id != fixture.run_id:  # ids of some senders begin with the time
                name = fixture.run_id
            folder = directory / "runs" / name
            write_fixture(fixture, folder)
            rows[name] = Row(name=name, run_id=fixture.run_id, digest=_digest_of(folder), note=note)
        if not rows:
            raise FixtureError(f"{directory}: no runs were chosen, so there is nothing to write")
        manifest = {"format": FORMAT, "version": VERSION, "chosen_by": chosen_by, "rows": [*map(asdict, rows.values())]}
        replace_file(directory / MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=1) + "\n")
    except OSError as error:
        raise FixtureError(f"{directory}: cannot be written: {error.strerror}", do="name another directory") from error
    return Dataset(directory=directory, rows=tuple(rows.values()), chosen_by=chosen_by)


def load_dataset(directory: Path) -> Dataset:
    """Return the dataset in a folder; a fixture's folder is a dataset of one, and a folder of such folders one of all of them.

    Raises:
        FixtureError: the folder is neither, or its version is unknown to this library.
    """
    path = directory / MANIFEST
    if not path.exists():
        folders = (
            [directory] if (directory / FIXTURE).exists() else sorted(found.parent for found in directory.glob(f"*/{FIXTURE}"))
        )
        if not folders:
            raise FixtureError(
                f"{directory}: holds no {MANIFEST}, no fixture, and no folders that are fixtures",
                do="make a dataset with `freezeframe experiment dataset`, or a fixture with `freezeframe fixture`",
            )
        made = [Row(name=one.resolve().name, run_id=load_fixture(one).run_id, digest=_digest_of(one)) for one in folders]
        return Dataset(directory=directory, rows=tuple(made), chosen_by=str(directory))
    try:
        manifest: Any = json.loads(path.read_bytes())
        if manifest["format"] != FORMAT:
            raise FixtureError(f"{path}: format {manifest['format']!r}, expected {FORMAT!r}")
        if manifest["version"] != VERSION:
            raise FixtureError(
                f"{path}: dataset version {manifest['version']}, this library reads version {VERSION}",
                do="install the version of freezeframe that wrote it, or make the dataset again",
            )
        rows = tuple(Row(**item) for item in manifest["rows"])
    except (ValueError, KeyError, TypeError) as error:
        raise FixtureError(f"{path}: not readable, {type(error).__name__}: {error}") from error
    _check_names(path, rows)
    return Dataset(directory=directory, rows=rows, chosen_by=str(manifest.get("chosen_by", "")))


def result_file(directory: Path, name: str) -> Path:
    """Return where a dataset keeps the result of the candidate with this name; raises as `check_name` does."""
    check_name(name)
    return directory / "results" / f"{name}.json"


def check_name(name: str) -> None:
    """Check the name of a dataset, or of a candidate.

    Raises:
        FixtureError: it is not one for a file.
    """
    if not re.fullmatch(r"[\w.+-]{1,60}", name) or name.startswith("."):
        raise FixtureError(f"{name!r}: expected a name of letters, digits, '.', '_', '+' and '-', at most 60 characters")


def _check_names(path: Path, rows: Sequence[Row]) -> None:
    """Keep a row's folder inside the dataset, regardless of the manifest."""
    for row in rows:
        if Path(row.name).name != row.name or row.name in ("", ".", ".."):
            raise FixtureError(f"{path}: row {row.name!r}: found a path, expected the name of a folder under runs")


def _digest_of(directory: Path) -> str:
    return str(json.loads((directory / FIXTURE).read_bytes())["digest"])
