"""Redirects to another of our own pages."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from aiohttp import web

ROUTES: Final = web.RouteTableDef()


def see(path: str) -> web.Response:
    """Lead to the page at a path of this service."""
    return web.Response(status=303, headers={"Location": path})


def page_of(run: str) -> str:
    """Return the path of a run's page, or without a run that of the list."""
    return f"/runs/{quote(run, safe='')}" if run else "/"


@ROUTES.get("/runs")
async def to_the_list(request: web.Request) -> web.Response:
    """Redirect to the list of runs, with the parameters of the address."""
    query = request.rel_url.raw_query_string
    return see(f"/?{query}" if query else "/")


@ROUTES.get("/runs/{run}/replay")
async def to_the_run(request: web.Request) -> web.Response:
    """Redirect to the run: opening a replay's page by its address starts no replay."""
    return see(page_of(request.match_info["run"]))
