"""The replay service's HTTP API for programs, version 1: a row for each route, from which its OpenAPI description is made.

It does what the pages and the command line do: `runs`, `show`, `failures`, `diff`, `sql`, `replay`, `fork`, `fixture`, `pack`,
`export`, labels, trends and sets. `answers` has the handlers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from freezeframe_replay.experiments.failures import Group
from freezeframe_replay.experiments.fork import Target
from freezeframe_replay.report.align import Comparison
from freezeframe_replay.report.outline import Outline
from freezeframe_replay.service import answers
from freezeframe_replay.service.answers import BASE, GZIP
from freezeframe_replay.sources.labels import Label
from freezeframe_replay.sources.store import RunRow
from freezeframe_replay.sources.trend import Moment
from freezeframe_replay.web.openapi import Described, description
from freezeframe_replay.web.sets import SetInList

_UNREDACTED: Final = "1: even if the run was never redacted"
_FILTERS: Final = {
    "limit": "how many at most (100)",
    "status": "failed, partly, unfinished or ok",
    "failed": "1: only runs that failed or never finished",
    "since": "started within 15m, 1h, 7d, ...",
    "day": "started on this day, 2026-11-24",
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
class Route(Described):
    """One row."""

    handler: Handler


async def _openapi(request: web.Request) -> web.Response:
    del request
    return web.json_response(openapi())


# -- the rows -------------------------------------------------------------------------------------------------------------

_RUN: Final = f"{BASE}/runs/{{run}}"
ROUTES: Final = (
    Route(
        method="GET",
        path=BASE,
        summary="What answers here.",
        answer=answers.About,
        handler=answers.get_about,
        faults=(401, 503),
    ),
    Route(method="GET", path=f"{BASE}/openapi.json", summary="This description.", answer=Any, handler=_openapi, faults=(401,)),
    Route(
        method="GET",
        path=f"{BASE}/runs",
        summary="The recorded runs, newest first (freezeframe runs).",
        answer=Sequence[RunRow],
        query=_FILTERS,
        handler=answers.get_runs,
    ),
    Route(
        method="GET",
        path=_RUN,
        summary="One run with its bodies (freezeframe show --full --json). The run: an id, its first digits, or last.",
        answer=Outline,
        handler=answers.get_run,
    ),
    Route(
        method="GET",
        path=f"{_RUN}/fixture",
        summary="Its fixture as tar.gz (freezeframe fixture).",
        media=GZIP,
        handler=answers.get_fixture,
    ),
    Route(
        method="GET",
        path=f"{_RUN}/pack",
        summary="The run as one file (freezeframe pack).",
        media=GZIP,
        query={"code": "none (default), commit or now: files of the agent's folder", "unredacted": _UNREDACTED},
        handler=answers.get_pack,
    ),
    Route(
        method="GET",
        path=f"{_RUN}/export/{{kind}}",
        summary="The run in the form of another tool (freezeframe export).",
        media="application/octet-stream",
        query={"each": "call: a row of a dataset for each model call", "unredacted": _UNREDACTED},
        handler=answers.get_export,
    ),
    Route(
        method="POST",
        path=f"{_RUN}/replay",
        summary="Re-enact the run offline with the code next to the data directory (freezeframe replay --json).",
        answer=Any,
        handler=answers.post_replay,
        faults=(401, 404, 422, 503),
    ),
    Route(
        method="POST",
        path=f"{_RUN}/fork",
        summary="Re-enact the run with one thing changed (freezeframe fork, then replay).",
        answer=Any,
        body={
            "step": "number of a step; left out for the input, a flag and the clock",
            "target": "what is changed: " + ", ".join(Target),
            "path": "where in it",
            "value": "what is there instead",
        },
        handler=answers.post_fork,
        faults=(400, 401, 404, 422, 503),
    ),
    Route(
        method="GET",
        path=f"{_RUN}/labels",
        summary="What readers said of the run, under the empty name, and of its spans.",
        answer=Mapping[str, Label],
        handler=answers.get_labels,
    ),
    Route(
        method="POST",
        path=f"{_RUN}/labels",
        summary="Say something of the run or of a step. What was said before is replaced; the answer is as that of GET.",
        answer=Mapping[str, Label],
        body={
            "label": "good, bad or another word; may be empty",
            "note": "a text",
            "step": "number of a step; left out for the run",
        },
        handler=answers.post_labels,
    ),
    Route(
        method="GET",
        path=f"{BASE}/trends",
        summary="Runs, failures, times and cost by hour or day (the last 7 days unless since is given).",
        answer=Sequence[Moment],
        query={name: about for name, about in _FILTERS.items() if name not in ("limit", "sort", "after")},
        handler=answers.get_trends,
    ),
    Route(
        method="GET",
        path=f"{BASE}/sets",
        summary="The datasets next to the data directory, each with the candidates that were tried on it.",
        answer=Sequence[SetInList],
        handler=answers.get_sets,
    ),
    Route(
        method="GET",
        path=f"{BASE}/sets/{{name}}",
        summary="What came of each run of a dataset with each candidate.",
        answer=Sequence[Mapping[str, Any]],
        query={"changed": "1: only runs of which a candidate changed something"},
        handler=answers.get_set,
    ),
    Route(
        method="GET",
        path=f"{BASE}/failures",
        summary="Similar failures in groups, each with its newest run (freezeframe failures).",
        answer=Sequence[Group],
        query={name: _FILTERS[name] for name in ("limit", "since")},
        handler=answers.get_failures,
    ),
    Route(
        method="GET",
        path=f"{BASE}/diff",
        summary="Two runs side by side (freezeframe diff --json).",
        answer=Comparison,
        query={"before": "id of a run", "after": "id of a run"},
        handler=answers.get_diff,
    ),
    Route(
        method="POST",
        path=f"{BASE}/sql",
        summary="The rows of a read-only query (freezeframe sql).",
        answer=answers.Rows,
        body={"query": "one SELECT statement", "parameters": "values of {name:Type} in the query, an object"},
        handler=answers.post_sql,
    ),
)


def add_routes(app: web.Application) -> None:
    """Answer the API's routes."""
    app.add_routes([web.route(route.method, route.path, route.handler) for route in ROUTES])


def openapi() -> dict[str, Any]:
    """Return the OpenAPI description."""
    about = "Runs, comparisons and replays on this machine. The token is in the file reader-token of the data directory."
    return description(ROUTES, title="freezeframe replay service", version="1", about=about)
