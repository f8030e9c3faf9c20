"""The query in the address of a page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Final

from aiohttp import web

from freezeframe_replay.sources.ages import age_s
from freezeframe_replay.sources.run_list import RunQuery
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.tables.run_list import FACETS, NEWEST, NOT_OK, SORTS, STATUSES

_MAX_RUNS: Final = 1000
_PAGE_RUNS: Final = 100
_TEXTS: Final = ("words", "after", "before")


def run_query(given: Mapping[str, str]) -> RunQuery:
    """Return the query of the list in the address; an empty field of the form filters nothing.

    Raises:
        HTTPBadRequest: a field is invalid; the text names it, and the expected values.
    """
    limit, status, sort = number_of(given, "limit", _PAGE_RUNS), given.get("status", ""), given.get("sort") or NEWEST
    if given.get("failed", "") in ("1", "true"):
        status = NOT_OK
    if status not in STATUSES:
        raise web.HTTPBadRequest(text=f"status: found {status!r:.80}, expected one of {', '.join(filter(None, STATUSES))}")
    if sort.removeprefix("-") not in SORTS:
        raise web.HTTPBadRequest(
            text=f"sort: found {sort!r:.80}, expected one of {', '.join(SORTS)}, with - for the largest first"
        )
    since = None
    if given.get("since"):
        try:
            since = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age_s(given["since"]))
        except ConfigError as error:
            raise web.HTTPBadRequest(text=f"since: {error.message}") from None
    chosen = {name: given.get(name, "").strip() for name in FACETS}
    for name, form, like in (("day", "%Y-%m-%d", "2026-11-24"), ("hour", "%Y-%m-%d %H:00", "2026-11-24 09:00")):
        if chosen[name]:
            try:
                chosen[name] = dt.datetime.strptime(chosen[name], form).strftime(form)
            except ValueError:
                raise web.HTTPBadRequest(text=f"{name}: found {given[name]!r:.80}, expected {like}") from None
    texts = {name: given.get(name, "").strip() for name in _TEXTS}
    return RunQuery(**texts, chosen=chosen, since=since, status=status, sort=sort, size=min(limit, _MAX_RUNS))


def number_of(given: Mapping[str, str], name: str, default: int = 1) -> int:
    """Return a number of the address, `default` if it has none.

    Raises:
        HTTPBadRequest: it is not a whole number of up to nine digits.
    """
    text = given.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise web.HTTPBadRequest(text=f"{name}: found {text!r:.80}, expected a whole number")
    return int(text)
