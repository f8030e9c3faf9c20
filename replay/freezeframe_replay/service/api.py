"""The replay service's HTTP API for programs, version 1: a row for each route, from which its OpenAPI description is made.

It does what the pages and the command line do: `runs`, `show`, `failures`, `diff`, `sql`, `replay`, `fork`, `fixture`, `pack`,
`export`, labels and sets. `answers` has the handlers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import getdoc
from typing import Any, Final

from aiohttp import web

from freezeframe_replay.experiments.fork import Target
from freezeframe_replay.operations.sql import QueryRows
from freezeframe_replay.report.align import Comparison
from freezeframe_replay.report.outline import Outline
from freezeframe_replay.service import answers
from freezeframe_replay.service.answers import BASE, GZIP
from freezeframe_replay.sources.failures import FailureGroup
from freezeframe_replay.sources.labels import Label
from freezeframe_replay.sources.store import RunRow
from freezeframe_replay.web.openapi import Described, description
from freezeframe_replay.web.sets import SetInList

_UNREDACTED: Final = "1: even if the run was never redacted"
_FILTERS: Final = {
    "limit": "how many at most (100)",
    "status": "failed, partly, unfinished or ok",
    "failed": "1: only runs that failed or never finished",
    "since": "started within 15m, 1h, 7d, ...",
    "day": "started on this day, 2026-11-24",
    "hour": "started in this hour, 2026-11-24 09:00",
    "words": "in the input, the outcome or an error",
    "sort": "a column, with - for the largest first",
    "service": "",
    "entry": "name of the entry point",
    "agent": "",
    "model": "one that the run asked for",
    "tool": "one that the run called",
    "user": "",
    "tenant": "",
    "commit": "",
    "flag": "with its value as the run saw it: new_prompt = true",
    "level": "how far it can be re-enacted: L4",
    "label": "what a reader called the run",
    "after": "id of the run after which the list goes on",
}


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ApiRoute(Described):
    """One row."""

    handler: Handler


async def _openapi(request: web.Request) -> web.Response:
    """This description."""
    del request
    return web.json_response(openapi())


# -- the rows -------------------------------------------------------------------------------------------------------------

_RUN: Final = f"{BASE}/runs/{{run}}"


def _get(path: str, handler: Handler, answer: Any = None, **more: Any) -> ApiRoute:
    return ApiRoute(method="GET", path=path, handler=handler, answer=answer, summary=getdoc(handler) or "", **more)


def _post(path: str, handler: Handler, answer: Any, **more: Any) -> ApiRoute:
    return dataclasses.replace(_get(path, handler, answer, **more), method="POST")


ROUTES: Final = (
    _get(BASE, answers.get_about, answers.About, faults=(401, 503)),
    _get(f"{BASE}/openapi.json", _openapi, Any, faults=(401,)),
    _get(f"{BASE}/runs", answers.get_runs, Sequence[RunRow], query=_FILTERS),
    _get(_RUN, answers.get_run, Outline),
    _get(f"{_RUN}/fixture", answers.get_fixture, media=GZIP),
    _get(
        f"{_RUN}/pack",
        answers.get_pack,
        media=GZIP,
        query={"code": "none (default), commit or now: files of the agent's folder", "unredacted": _UNREDACTED},
    ),
    _get(
        f"{_RUN}/export/{{kind}}",
        answers.get_export,
        media="application/octet-stream",
        query={"each": "call: a row of a dataset for each model call", "unredacted": _UNREDACTED},
    ),
    _post(
        f"{_RUN}/replay",
        answers.post_replay,
        Any,
        body={"run_tools": "names of the tools whose own code runs, or true for those whose code changed"},
        faults=(400, 401, 404, 422, 503),
    ),
    _post(
        f"{_RUN}/fork",
        answers.post_fork,
        Any,
        body={
            "step": "number of a step; left out for the input, a flag and the clock",
            "target": "what is changed: " + ", ".join(Target),
            "path": "where in it",
            "value": "what is there instead",
        },
        faults=(400, 401, 404, 422, 503),
    ),
    _get(f"{_RUN}/labels", answers.get_labels, Mapping[str, Label]),
    _post(
        f"{_RUN}/labels",
        answers.post_labels,
        Mapping[str, Label],
        body={
            "label": "good, bad or another word; may be empty",
            "note": "a text",
            "step": "number of a step; left out for the run",
        },
    ),
    _get(f"{BASE}/sets", answers.get_sets, Sequence[SetInList]),
    _get(
        f"{BASE}/sets/{{name}}",
        answers.get_set,
        Sequence[Mapping[str, Any]],
        query={"changed": "1: only runs of which a candidate changed something"},
    ),
    _get(
        f"{BASE}/failures",
        answers.get_failures,
        Sequence[FailureGroup],
        query={"limit": "how many at most (20)", "since": _FILTERS["since"]},
    ),
    _get(f"{BASE}/diff", answers.get_diff, Comparison, query={"before": "id of a run", "after": "id of a run"}),
    _post(
        f"{BASE}/sql",
        answers.post_sql,
        QueryRows,
        body={"query": "one SELECT statement", "parameters": "values of {name:Type} in the query, an object"},
    ),
)


def add_routes(app: web.Application) -> None:
    """Answer the API's routes."""
    app.add_routes([web.route(route.method, route.path, route.handler) for route in ROUTES])


def openapi() -> dict[str, Any]:
    """Return the OpenAPI description."""
    about = "Runs, comparisons and replays on this machine. The token is in the file reader-token of the data directory."
    return description(ROUTES, title="freezeframe replay service", version="1", about=about)
