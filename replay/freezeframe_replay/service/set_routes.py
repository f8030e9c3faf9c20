"""The pages of datasets, which are folders of `sets` next to the data directory. A form of the list adds runs to one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.experiments.dataset import MANIFEST, Dataset, Row, check_name, load_dataset, write_dataset
from freezeframe_replay.experiments.results import read_kept, result_files
from freezeframe_replay.report.answered_rows import csv_text
from freezeframe_replay.report.outline import outline_fixture
from freezeframe_replay.report.spent import spent_by
from freezeframe_replay.service.replay_routes import folder_of, own_form
from freezeframe_replay.service.state import HOME, STORE, download, html
from freezeframe_replay.sources.passing_on import is_bare
from freezeframe_replay.web.redirects import see
from freezeframe_replay.web.sets import SetInList, SetRow, grid_values, set_page, sets_page
from freezeframe_schemas.errors import FixtureError

ROUTES: Final = web.RouteTableDef()

_SETS: Final = "sets"
_BY_HAND: Final = "hand, in the list of runs"
_MAX_SETS: Final = 200


@ROUTES.get("/sets")
async def show_sets(request: web.Request) -> web.Response:
    """List the datasets."""
    found = await asyncio.to_thread(list_sets, request.app)
    return html(sets_page(found, folder=str(folder_of(request.app[HOME]) / _SETS)))


@ROUTES.post("/sets")
async def add_to_set(request: web.Request) -> web.Response:
    """Write the runs that were chosen in our own page's form into a dataset, a new one if none has the name; lead to it.

    Raises:
        web.HTTPBadRequest: no run was chosen, or the name is not one for a folder.
    """
    form = await own_form(request)
    name, chosen = str(form.get("name", "")).strip(), [str(run) for run in (await request.post()).getall("run", [])]
    if not chosen:
        raise web.HTTPBadRequest(text="no run was chosen; tick runs in the list first")
    try:
        check_name(name)
    except FixtureError as error:
        raise web.HTTPBadRequest(text=f"name of the set: {error.message}") from None
    await asyncio.to_thread(_add, request.app, name, dict.fromkeys(chosen))
    return see(f"/sets/{quote(name)}")


def _add(app: web.Application, name: str, chosen: Iterable[str]) -> None:
    """Add runs to a dataset; those that it has are written anew.

    Raises:
        RunError: one is not stored, or cannot be a fixture. Nothing was changed.
        FixtureError: the folder is not a readable dataset, or cannot be written.
    """
    directory = folder_of(app[HOME]) / _SETS / name
    fixtures = [freeze(app[STORE].load(run)) for run in chosen]
    dataset = load_dataset(directory) if (directory / MANIFEST).is_file() else Dataset(directory=directory, rows=())
    chosen_by = ", ".join(dict.fromkeys(filter(None, (dataset.chosen_by, _BY_HAND))))
    noted = [(fixture, "not redacted" if is_bare(fixture) else "") for fixture in fixtures]
    write_dataset(directory, noted, chosen_by=chosen_by, kept=dataset.rows)


@ROUTES.get("/sets/{name}")
async def show_set(request: web.Request) -> web.Response:
    """Show a dataset's runs by the candidates that were tried; with as=csv or as=json, as values."""
    grid = await asyncio.to_thread(read_grid, request)
    only_changed, form = bool(request.query.get("changed")), request.query.get("as", "")
    if form in ("csv", "json"):
        values = grid.values(only_changed=only_changed)
        if form == "json":
            return download(json.dumps(values, ensure_ascii=False), "set.json", "application/json")
        rows = [list(value.values()) for value in values]
        return download(csv_text(list(values[0]) if values else ["run"], rows), "set.csv", "text/csv")
    page = set_page(grid.name, grid.rows, grid.results, only_changed=only_changed, chosen_by=grid.chosen_by)
    return html(page)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A dataset's runs, and the result of each with the tried candidates."""

    name: str
    rows: Sequence[SetRow]
    results: Mapping[str, Mapping[str, Any]]
    """Name of a candidate -> its result."""
    chosen_by: str

    def values(self, *, only_changed: bool) -> list[dict[str, Any]]:
        """Return it as plain values, one for each run and candidate."""
        return grid_values(self.rows, self.results, only_changed=only_changed)


def read_grid(request: web.Request) -> Grid:
    """Return the grid of the set that the address names.

    Raises:
        web.HTTPNotFound: there is no such set.
        FixtureError: it is not readable.
    """
    directory = _directory(request)
    dataset = load_dataset(directory)
    rows = [_row(dataset, row) for row in dataset.rows]
    return Grid(
        name=directory.name,
        rows=rows,
        results={path.stem: read_kept(path) for path in result_files(directory)},
        chosen_by=dataset.chosen_by,
    )


def _directory(request: web.Request) -> Path:
    """Return the folder of the set that the address names.

    Raises:
        web.HTTPNotFound: there is no such set.
    """
    name = request.match_info["name"]
    directory = folder_of(request.app[HOME]) / _SETS / name
    if Path(name).name != name or name.startswith(".") or not (directory / MANIFEST).is_file():
        raise web.HTTPNotFound(text=f"set {name!r:.80}: not found; /sets lists those that there are")
    return directory


def set_names(app: web.Application) -> list[str]:
    """Return the names of the datasets."""
    folder = folder_of(app[HOME]) / _SETS
    found = sorted(folder.iterdir())[:_MAX_SETS] if folder.is_dir() else ()
    return [directory.name for directory in found if (directory / MANIFEST).is_file()]


def list_sets(app: web.Application) -> list[SetInList]:
    """Return the datasets, each with the names of its results; for an unreadable one, the fault."""
    folder = folder_of(app[HOME]) / _SETS
    found: list[SetInList] = []
    for name in set_names(app):
        directory = folder / name
        try:
            dataset = load_dataset(directory)
        except FixtureError as error:
            found.append(SetInList(name=name, runs=0, chosen_by=error.message, candidates=()))
            continue
        candidates = [path.stem for path in result_files(directory)]
        found.append(SetInList(name=name, runs=len(dataset.rows), chosen_by=dataset.chosen_by, candidates=candidates))
    return found


def _row(dataset: Dataset, row: Row) -> SetRow:
    """Return a row with its fixture's facts; without them if the fixture is damaged, which an experiment reports."""
    try:
        fixture = dataset.load(row)
    except FixtureError as error:
        return SetRow(name=row.name, run_id=row.run_id, note=error.message)
    return SetRow(
        name=row.name,
        run_id=row.run_id,
        note=row.note,
        entry=outline_fixture(fixture).called_with,
        recorded=spent_by(fixture),
    )
