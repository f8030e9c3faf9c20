"""Actions of the replay service on a run: re-enact it as recorded, or with one thing changed.

Both equal `freezeframe replay` and `freezeframe experiment fork` next to the data directory. A request names a stored
run and, for a fork, a step and a text; never a command, a folder or a policy. The model is asked for real only if the
service was started with `--allow-live`, and the form says so. The project is not changed: files to keep are
downloaded. A replay runs while its page waits for it, and the service keeps the findings (`jobs`).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.experiments.fork import Edit, Target, fork
from freezeframe_replay.local.home import Home
from freezeframe_replay.report.regression import Expect
from freezeframe_replay.service.history import MAX_KEPT
from freezeframe_replay.service.job import Job, RunTools
from freezeframe_replay.service.state import HOME, JOBS, LIVE, STORE, TOKEN, download, html, load, read
from freezeframe_replay.web.asked import number_of
from freezeframe_replay.web.downloads import archive_with_test
from freezeframe_replay.web.edit_page import Editable, EditedPart, edit_page, find_editable
from freezeframe_replay.web.pages import error_page
from freezeframe_replay.web.redirects import see
from freezeframe_replay.web.replay import call_page, likely_cost, replay_page, running_page
from freezeframe_schemas.data_directory import NAME
from freezeframe_schemas.errors import FixtureError
from freezeframe_schemas.local_tokens import is_same
from freezeframe_schemas.run import Run

ROUTES: Final = web.RouteTableDef()

_FIRST_WAIT_S: Final = 2.0
"""Time that a form waits for its replay, so that a short one is not shown as running."""
_MAX_WAIT_S: Final = 20.0
"""Maximum time that a page waits for the next answered step."""


@ROUTES.post("/runs/{run}/replay")
async def replay_run(request: web.Request) -> web.Response:
    """Start a replay of the run for a form of our own page, and lead to its page."""
    await own_form(request)
    fixture = await asyncio.to_thread(lambda: freeze(load(request)))
    return await _started(request, request.app[JOBS].start(fixture, folder_of(request.app[HOME])))


@ROUTES.get("/runs/{run}/fork")
async def edit_run(request: web.Request) -> web.Response:
    """Show the form in which the answer of a step, or the run's input, is changed."""
    run, editable = await asyncio.to_thread(_editable, request, request.query)
    return html(await asyncio.to_thread(_edit_page, request, run, editable, editable.text))


@ROUTES.post("/runs/{run}/fork")
async def fork_run(request: web.Request) -> web.Response:
    """Start a replay of the run with the change of our own page's form, and lead to its page."""
    form = await own_form(request)
    live = _asks_live(request, form)
    run, editable = await asyncio.to_thread(_editable, request, form)
    text = str(form.get("text", "")).replace("\r\n", "\n")  # as browsers send lines
    try:
        origin = await asyncio.to_thread(freeze, run)
        edit = _edit(editable, text)
        fixture = await asyncio.to_thread(fork, origin, [edit])
    except FixtureError as error:
        wrong = f"{error.message}; {error.do}" if error.do else error.message
        return html(await asyncio.to_thread(_edit_page, request, run, editable, text, wrong), status=422)
    folder = folder_of(request.app[HOME])
    return await _started(request, request.app[JOBS].start(fixture, folder, origin=origin, edit=edit, live=live))


@ROUTES.post("/replays/{number}/live")
async def go_on_live(request: web.Request) -> web.Response:
    """Replay once more, for a form of our own page, and make model calls without a recorded answer for real."""
    _asks_live(request, {**await own_form(request), "live": "1"})
    job = await _job(request)
    again = request.app[JOBS].start(
        job.fixture, job.folder, origin=job.origin, edit=job.edit, live=True, runs_tools=job.runs_tools
    )
    return await _started(request, again)


@ROUTES.post("/replays/{number}/run-tools")
async def run_changed_tools(request: web.Request) -> web.Response:
    """Replay once more, for a form of our own page, and run the new code of tools that changed since the recording."""
    await own_form(request)
    job = await _job(request)
    changed = RunTools(changed=True)
    again = request.app[JOBS].start(job.fixture, job.folder, origin=job.origin, edit=job.edit, runs_tools=changed)
    return await _started(request, again)


@ROUTES.get("/replays/{number}")
async def show_replay(request: web.Request) -> web.Response:
    """Show the findings or the progress of a replay; with `after`, once it is further than that."""
    job = await _job(request)
    if "after" in request.query:
        seen = number_of(request.query, "after")
        if not job.has_ended and job.served <= seen:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(job.moved.wait(), _MAX_WAIT_S)
        if job.has_ended:
            return see(f"/replays/{job.number}")
    token = request.app[TOKEN]
    if job.error is not None:
        heading = "The replay was cancelled" if job.cancelled.is_set() else "The run could not be replayed"
        return html(error_page(job.error.message, job.error.do, heading=heading), status=422)
    if job.report is None:
        return html(running_page(job, now=dt.datetime.now(dt.UTC), token=token))
    return html(await asyncio.to_thread(replay_page, job, job.report, token=token, may_go_live=request.app[LIVE]))


@ROUTES.post("/replays/{number}/cancel")
async def cancel_replay(request: web.Request) -> web.Response:
    """End a replay that runs, for a form of our own page."""
    await own_form(request)
    job = await _job(request)
    job.cancelled.set()
    return see(f"/replays/{job.number}?after={job.served}")


@ROUTES.get("/replays/{number}/calls")
async def show_call(request: web.Request) -> web.Response:
    """Show one call of a replay: the program's place and variables, and the answer that it got."""
    job = await _job(request)
    if job.report is None:
        return see(f"/replays/{job.number}")
    at = number_of(request.query, "at")
    return html(await asyncio.to_thread(call_page, job, job.report, at))


@ROUTES.get("/replays/{number}/fixture")
async def keep_replay(request: web.Request) -> web.Response:
    """Return the replayed run as a download: its fixture, with a test. Of one with live answers, the run that it became."""
    job = await _job(request)
    if job.report is None:
        raise web.HTTPNotFound(text=f"replay {job.number}: not finished")
    if job.report.live and job.kept is None:
        raise web.HTTPNotFound(text=f"replay {job.number}: {job.not_kept}")
    expectation = request.query.get("expect", Expect.CHANGED.value)
    if expectation not in set(Expect):
        raise web.HTTPBadRequest(text=f"expect: found {expectation!r:.80}, expected one of {', '.join(Expect)}")
    name = f"fork-{job.fixture.run_id[:12]}" if job.is_fork else f"fixture-{job.run_id}"
    body = await asyncio.to_thread(archive_with_test, job.kept or job.fixture, name, Expect(expectation))
    return download(body, f"{name}.tar.gz", "application/gzip")


async def own_form(request: web.Request) -> Mapping[str, object]:
    """Return the form of the request.

    Raises:
        web.HTTPForbidden: it is not from a page of this service.
    """
    form = await request.post()
    own = f"http://{request.headers.get('Host', '')}"
    if request.headers.get("Origin") != own or not is_same(str(form.get("token", "")), request.app[TOKEN]):
        raise web.HTTPForbidden(text="replay: expected a form from this service's own page")
    return form


def _editable(request: web.Request, given: Any) -> tuple[Run, Editable]:
    """Return the run, and the part of it to change."""
    query = {"step": str(given.get("step", ""))} if given.get("step") else {}
    reading = read(request)
    step = number_of(query, "step") if query else None
    return reading.run, find_editable(reading.run, reading.outline, reading.transcript, step)


def _edit_page(request: web.Request, run: Run, editable: Editable, text: str, wrong: str = "") -> str:
    folder = str(folder_of(request.app[HOME]))
    likely = likely_cost(freeze(run), after=editable.step or 0) if request.app[LIVE] else None
    return edit_page(run, editable, text=text, wrong=wrong, folder=folder, token=request.app[TOKEN], likely=likely)


def _asks_live(request: web.Request, form: Mapping[str, object]) -> bool:
    """Return whether the form asks for live calls of the model.

    Raises:
        web.HTTPForbidden: it does, and the service was not started to allow it.
    """
    is_live = bool(form.get("live"))
    if is_live and not request.app[LIVE]:
        raise web.HTTPForbidden(text="live: the service was started without --allow-live, so no page may ask a model for real")
    return is_live


def _edit(editable: Editable, text: str) -> Edit:
    """Return the change that replaces the recorded value with the text.

    Raises:
        FixtureError: the text is not JSON although JSON is expected.
    """
    targets = {EditedPart.INPUT: Target.INPUT, EditedPart.RESULT: Target.RESULT, EditedPart.TEXT: Target.RESPONSE}
    value: Any = text
    if editable.answer is not EditedPart.TEXT:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise FixtureError(f"not valid JSON: {error}", do="texts go in double quotes") from None
    return Edit(target=targets[editable.answer], step=editable.step, value=value)


async def _started(request: web.Request, job: Job) -> web.Response:
    """Redirect to a replay's page, or for a short one to its findings."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(job.moved.wait(), _FIRST_WAIT_S)
    return see(f"/replays/{job.number}")


async def _job(request: web.Request) -> Job:
    number = number_of(request.match_info, "number")
    job = await request.app[JOBS].find(number, request.app[STORE].load)
    if job is None:
        raise web.HTTPNotFound(text=f"replay {number}: not kept; the newest {MAX_KEPT} are, as long as their runs are stored")
    return job


def folder_of(home: Home) -> Path:
    """Return the folder in which the agent is started: next to ``.freezeframe``, or that of the service."""
    return home.directory.parent if home.directory.name == NAME else Path.cwd()
