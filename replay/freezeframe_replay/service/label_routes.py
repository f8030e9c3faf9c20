"""Labels and notes of readers on a run or a step: see `operations.labelling`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from aiohttp import web

from freezeframe_replay.local.collector import flush
from freezeframe_replay.local.home import STORE_VARIABLE
from freezeframe_replay.operations import labelling
from freezeframe_replay.service.replay_routes import own_form
from freezeframe_replay.service.state import HOME, LABELS, LAST, load
from freezeframe_replay.web.asked import number_of
from freezeframe_replay.web.redirects import see
from freezeframe_schemas.errors import ConfigError, RunError

ROUTES: Final = web.RouteTableDef()


@ROUTES.post("/runs/{run}/labels")
async def label_run(request: web.Request) -> web.Response:
    """Keep the label from our own page's form for a run or a step, and redirect back to it."""
    trace_id, step = await keep_label(request, await own_form(request))
    return see(f"/runs/{quote(trace_id)}{'' if step is None else f'/steps/{step}'}")


async def keep_label(request: web.Request, given: Mapping[str, object]) -> tuple[str, int | None]:
    """Keep a label from a form or a program for a run or a step; return the run's trace id, and the step.

    Raises:
        web.HTTPBadRequest: not a label, or too much of it.
        web.HTTPNotFound: no such step.
        PermanentStoreError: the store refuses it.
    """
    try:
        label, note = labelling.checked(*(str(given.get(name) or "") for name in ("label", "note")))
    except ConfigError as error:
        raise web.HTTPBadRequest(text=error.message) from None
    step = number_of({"step": str(given["step"])}, "step") if given.get("step") else None
    return await asyncio.to_thread(_keep, request, step, label, note), step


def _keep(request: web.Request, step: int | None, label: str, note: str) -> str:
    """Redact and store a label; return the trace id of its run; raises as `keep_label` does."""
    run, home = load(request), request.app[HOME]
    store = "" if flush(home) else os.environ.get(STORE_VARIABLE, "").strip()
    try:
        labelling.keep_label(run, step, label, note, home=home, store=store)
    except RunError as error:
        raise web.HTTPNotFound(text=error.message) from None
    request.app[LABELS].forget()
    request.app[LAST].of(run).scores = None
    return run.trace_id
