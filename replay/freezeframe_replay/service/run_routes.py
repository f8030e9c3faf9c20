"""The pages of a run: as a whole, step by step, and next to another one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from aiohttp import web

from freezeframe_replay.operations.diff import DIFF, DiffParameters
from freezeframe_replay.report.reading import Reading
from freezeframe_replay.service.state import JOBS, SOURCE, STORE, TOKEN, download, html, load, read
from freezeframe_replay.sources.costs import costs_of_calls
from freezeframe_replay.sources.scores import RunScore
from freezeframe_replay.web import run_pages, step_pages
from freezeframe_replay.web.asked import number_of
from freezeframe_replay.web.comparison import comparison_page
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.run import Run

ROUTES: Final = web.RouteTableDef()

_T = TypeVar("_T")


@ROUTES.get("/runs/{run}")
async def show_run(request: web.Request) -> web.Response:
    """Show a run: its transcript, or another tab."""
    tab = request.query.get("tab", "transcript")
    if tab not in run_pages.TABS:
        raise web.HTTPBadRequest(text=f"tab: found {tab!r}, expected one of {', '.join(run_pages.TABS)}")
    part = number_of(request.query, "from")
    only, as_text = request.query.get("only", ""), request.query.get("as") == "text"

    def build() -> web.Response:
        reading = read(request)
        version = _version(reading.run)
        if version and request.headers.get("If-None-Match") == version:
            return web.Response(status=304, headers={"ETag": version})
        transcript = reading.transcript if tab == "transcript" else None
        page = run_pages.run_page(
            reading.run,
            reading.outline,
            version=version,
            tab=tab,
            part=part,
            only=only,
            as_text=as_text,
            token=request.app[TOKEN],
            replays=request.app[JOBS].of_run(reading.run.trace_id),
            scores=_scores(request, reading),
            transcript=transcript,
            costs=_costs(request, reading),
        )
        answer = html(page)
        if version:
            answer.headers["ETag"] = version
        return answer

    return await asyncio.to_thread(build)


@ROUTES.get("/runs/{run}/steps/{step}")
async def show_step(request: web.Request) -> web.Response:
    """Show one step, its bodies by pages."""
    shown = {name: text for name in ("request", "response", "find") if (text := request.query.get(name))}
    for name in shown.keys() - {"find"}:
        number_of({name: shown[name].partition("/")[0]}, name)

    def build() -> str:
        reading = read(request)
        step = _step(request, step_pages.find_step(reading.outline, request.match_info["step"]))
        costs = _costs(request, reading)
        return step_pages.step_page(
            reading.run,
            reading.outline,
            step,
            shown,
            costs=costs,
            scores=_scores(request, reading) if reading.scores is None else reading.scores,
            token=request.app[TOKEN],
        )

    return html(await asyncio.to_thread(build))


@ROUTES.get("/runs/{run}/steps/{step}/{part:request|response}")
async def show_step_body(request: web.Request) -> web.Response:
    """Return a body as recorded."""
    run = await asyncio.to_thread(load, request)
    step, part = request.match_info["step"], request.match_info["part"]
    numbered = enumerate(run.exchanges, 1)
    exchange = _step(request, next((item for number, item in numbered if step in (str(number), item.span_id)), None))
    body = exchange.request.body if part == "request" else exchange.response.body
    return download(body, f"{run.trace_id[:8]}-step-{step}-{part}")


@ROUTES.get("/diff")
async def show_diff(request: web.Request) -> web.Response:
    """Show two runs side by side."""
    before, after = (request.query.get(name, "").strip() for name in ("before", "after"))
    if not before or not after:
        raise web.HTTPBadRequest(text="diff: expected the ids of two runs, /diff?before=ID&after=ID")
    parameters = DiffParameters(before=before, after=after, whole=True)
    return html(comparison_page(await asyncio.to_thread(DIFF.execute, request.app[SOURCE], parameters)))


def _version(run: Run) -> str:
    """Return the state that changes while a run is in progress; empty once it has ended."""
    return f'"{len(run.spans)}"' if run.status is RunStatus.UNFINISHED else ""


def _step(request: web.Request, found: _T | None) -> _T:
    if found is None:
        raise web.HTTPNotFound(text=f"step {request.match_info['step']!r:.80}: not in run {request.match_info['run']!r:.80}")
    return found


def _scores(request: web.Request, reading: Reading) -> Sequence[RunScore]:
    """Return the scores that the run has now; the pages of its steps show them until the run's is opened again."""
    reading.scores = request.app[STORE].use(lambda store: store.scores(reading.run.trace_id))
    return reading.scores


def _costs(request: web.Request, reading: Reading) -> Mapping[str, float | None]:
    """Return span id -> cost of the call, None if unknown; the store is queried once for an open run."""
    if reading.costs is None:
        called = any(node.kind == Kind.MODEL for node in reading.outline.nodes)
        reading.costs = request.app[STORE].use(lambda store: costs_of_calls(store, reading.run.trace_id)) if called else {}
    return reading.costs
