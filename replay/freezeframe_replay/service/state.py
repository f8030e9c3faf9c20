"""Shared by the handlers of the replay service: the application's state, reading a run and writing a page."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from freezeframe_replay.local.collector import flush
from freezeframe_replay.local.home import Home
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.report.reading import LastReading, Reading
from freezeframe_replay.service.jobs import Jobs
from freezeframe_replay.sources.costs import Costs
from freezeframe_replay.sources.labels import Labels
from freezeframe_replay.sources.store import KeptStore
from freezeframe_replay.web.door import Door
from freezeframe_schemas.run import Run

HOME: Final = web.AppKey("home", Home)
STORE: Final = web.AppKey("store", KeptStore)
SOURCE: Final = web.AppKey("source", RunSource)
LAST: Final = web.AppKey("last", LastReading)
COSTS: Final = web.AppKey("costs", Costs)
TOKEN: Final = web.AppKey("token", str)
DOOR: Final = web.AppKey("door", Door)
LABELS: Final = web.AppKey("labels", Labels)
JOBS: Final = web.AppKey("jobs", Jobs)
LIVE: Final = web.AppKey("live", bool)
"""True if a page may ask a model for real."""


def load(request: web.Request) -> Run:
    """Return the run that the address names.

    Raises:
        RunError: no such run, or several.
        StoreError: the store does not answer.
    """
    flush(request.app[HOME])
    return request.app[STORE].load(request.match_info["run"])


def read(request: web.Request) -> Reading:
    """Return the reading of the run that the address names; raises as `load` does."""
    return request.app[LAST].of(load(request))


def download(content: bytes | str, name: str, media: str = "application/octet-stream") -> web.Response:
    """Return a file as an answer."""
    body, charset = (content.encode(), "utf-8") if isinstance(content, str) else (content, None)
    sent_as = {"Content-Disposition": f'attachment; filename="{name}"'}
    return web.Response(body=body, content_type=media, charset=charset, headers=sent_as)


def html(text: str, status: int = 200) -> web.Response:
    """Return a page as an answer."""
    # half a character in a recording must not hide the rest
    return web.Response(body=text.encode(errors="replace"), content_type="text/html", charset="utf-8", status=status)
