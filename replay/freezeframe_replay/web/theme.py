"""The colours of the pages, which each browser keeps in a cookie: a page has them from its first byte."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from freezeframe_replay.web.markup import SYSTEM, THEMES
from freezeframe_replay.web.redirects import see

ROUTES: Final = web.RouteTableDef()

_COOKIE: Final = "freezeframe-theme"
_YEAR_S: Final = 365 * 86400


def theme_of(request: web.Request) -> str:
    """Return the colours chosen in this browser."""
    chosen = request.cookies.get(_COOKIE, SYSTEM)
    return chosen if chosen in THEMES else SYSTEM


@ROUTES.post("/theme")
async def choose_theme(request: web.Request) -> web.Response:
    """Keep the colours of the form in a cookie, and lead back to the page that the form is on.

    Raises:
        web.HTTPBadRequest: the form names unknown colours.
    """
    chosen = str((await request.post()).get("theme", ""))
    if chosen not in THEMES:
        raise web.HTTPBadRequest(text=f"theme: found {chosen!r:.80}, expected one of {', '.join(THEMES)}")
    answer = see(_page_before(request))
    if chosen == SYSTEM:
        answer.del_cookie(_COOKIE)
    else:
        answer.set_cookie(_COOKIE, chosen, max_age=_YEAR_S, httponly=True, samesite="Lax", path="/")
    return answer


def _page_before(request: web.Request) -> str:
    """Return the path of our own page that sent the form; of the list if another page or none is named."""
    try:
        came = urlsplit(request.headers.get("Referer", ""))
    except ValueError:
        return "/"
    if not came.netloc or came.netloc != request.headers.get("Host"):
        return "/"
    path = "/" + came.path.lstrip("/\\")  # two of these at the beginning would name another server
    return f"{path}?{came.query}" if came.query else path
