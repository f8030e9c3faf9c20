"""The list of runs, and the named views of it: filters, sort order and columns, kept in the data directory."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import parse_qsl, urlencode

from aiohttp import web

from freezeframe_replay.local.collector import flush
from freezeframe_replay.service.replay_routes import own_form
from freezeframe_replay.service.set_routes import set_names
from freezeframe_replay.service.state import COSTS, HOME, LABELS, STORE, TOKEN, html
from freezeframe_replay.sources.labels import Label
from freezeframe_replay.sources.run_list import RunPage, RunQuery, find_runs
from freezeframe_replay.web import pages
from freezeframe_replay.web.asked import run_query
from freezeframe_replay.web.pages import session_page
from freezeframe_replay.web.redirects import see
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.whole_file import replace_file

ROUTES: Final = web.RouteTableDef()

_VIEWS: Final = "views.json"
_FORMAT: Final = "freezeframe-views/1"
_MAX_VIEWS: Final = 50
_MAX_NAME_LENGTH: Final = 60


@ROUTES.get("/")
async def show_runs(request: web.Request) -> web.Response:
    """Show a page of the list."""
    now = dt.datetime.now(dt.UTC)
    try:
        page, labels = await asyncio.to_thread(_list, request)
    except web.HTTPBadRequest as error:
        return html(pages.runs_page(RunPage(), request.query, now=now, wrong=error.text or ""), status=400)
    version = _version(page, labels) if request.query.get("live") and pages.may_follow(request.query) else ""
    if version and request.headers.get("If-None-Match") == version:
        return web.Response(status=304, headers={"ETag": version})
    views, wrong = dict[str, str](), ""
    try:
        views = await asyncio.to_thread(_read_views, _file(request))
    except ConfigError as error:
        wrong = f"{error.message}; {error.do}"
    answer = html(
        pages.runs_page(
            page,
            request.query,
            now=now,
            labels=labels,
            version=version,
            views=views,
            wrong_views=wrong,
            token=request.app[TOKEN],
            sets=await asyncio.to_thread(set_names, request.app),
            data=shlex.quote(str(request.app[HOME].directory)),
        )
    )
    if version:
        answer.headers["ETag"] = version
    return answer


@ROUTES.get("/sessions/{session:.+}")
async def show_session(request: web.Request) -> web.Response:
    """Show the runs of a conversation in their order."""
    session = request.match_info["session"]
    query = RunQuery(session=session, sort="started", after=request.query.get("after", ""))

    def build() -> tuple[RunPage, Mapping[str, Label]]:
        flush(request.app[HOME])
        labels = request.app[LABELS].of_runs()
        return request.app[STORE].use(lambda store: find_runs(store, query, request.app[COSTS])), labels

    page, labels = await asyncio.to_thread(build)
    version = "" if page.last < page.total else _version(page, labels)
    if version and request.headers.get("If-None-Match") == version:
        return web.Response(status=304, headers={"ETag": version})
    return html(session_page(session, page, labels, version=version), status=200 if page.rows else 404)


@ROUTES.post("/views")
async def change_views(request: web.Request) -> web.Response:
    """Keep the list of our own page's form under a name, or forget one, and redirect to the list.

    Raises:
        web.HTTPBadRequest: the name is empty or too long, or there are too many.
    """
    form = await own_form(request)
    views = await asyncio.to_thread(_read_views, _file(request))
    if gone := str(form.get("remove", "")):
        views.pop(gone, None)
        query = ""
    else:
        name, pairs = str(form.get("name", "")).strip(), parse_qsl(str(form.get("query", "")))
        if not 0 < len(name) <= _MAX_NAME_LENGTH:
            raise web.HTTPBadRequest(text=f"name: {len(name)} characters, expected 1 to {_MAX_NAME_LENGTH}")
        query = urlencode([(key, value) for key, value in pairs if key in pages.FILTERS])
        views[name] = query
        if len(views) > _MAX_VIEWS:
            raise web.HTTPBadRequest(text=f"views: there are {_MAX_VIEWS}; remove one first")
    await asyncio.to_thread(_write_views, _file(request), views)
    return see(f"/?{query}" if query else "/")


def _list(request: web.Request) -> tuple[RunPage, Mapping[str, Label]]:
    flush(request.app[HOME])
    query, labels = run_query(request.query), request.app[LABELS].of_runs()
    has_labels = any(found.label for found in labels.values())
    return request.app[STORE].use(lambda store: find_runs(store, query, request.app[COSTS], has_labels=has_labels)), labels


def _version(page: RunPage, labels: Mapping[str, Label]) -> str:
    """Return a value that changes with the list."""
    shown = [labels.get(row.trace_id) for row in page.rows]
    return f'"{hashlib.sha256(repr((page, shown)).encode("utf-8", "surrogatepass")).hexdigest()[:32]}"'


def _file(request: web.Request) -> Path:
    return request.app[HOME].directory / _VIEWS


def _read_views(path: Path) -> dict[str, str]:
    """Return name -> query of the list's address, in the order in which they were kept.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        kept: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", do="let this user read the file, or remove it") from None
    except (ValueError, RecursionError):
        kept = None
    views: Any = kept.get("views") if isinstance(kept, dict) and kept.get("format") == _FORMAT else None
    if not isinstance(views, dict):
        raise ConfigError(f"{path}: not in the format {_FORMAT}", do="fix the file, or remove it and save your views again")
    return {str(name): str(query) for name, query in cast("dict[str, str]", views).items()}


def _write_views(path: Path, views: Mapping[str, str]) -> None:
    text = json.dumps({"format": _FORMAT, "views": views}, ensure_ascii=False, indent=1)
    replace_file(path, text, is_private=True)  # what was searched for may be personal
