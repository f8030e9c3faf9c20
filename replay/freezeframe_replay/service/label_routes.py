"""Labels and notes of readers on a run or a step. Redacted like the run, before they leave this process."""

from __future__ import annotations

import asyncio
import getpass
import os
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from aiohttp import web

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.local.administration import administration
from freezeframe_replay.local.collector import flush
from freezeframe_replay.local.home import STORE_VARIABLE, Home
from freezeframe_replay.process.kept import redactor_like
from freezeframe_replay.service.replay_routes import own_form
from freezeframe_replay.service.state import HOME, LABELS, read
from freezeframe_replay.web.asked import number_of
from freezeframe_replay.web.redirects import see
from freezeframe_schemas.data_directory import KEYS
from freezeframe_schemas.run import Run

ROUTES: Final = web.RouteTableDef()

_LABEL: Final = re.compile(r"[\w.+/-]{0,40}")
_MAX_NOTE_LENGTH: Final = 10_000


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
    label, note = (str(given.get(name) or "").strip().replace("\r\n", "\n") for name in ("label", "note"))
    if not _LABEL.fullmatch(label):
        raise web.HTTPBadRequest(text=f"label: found {label!r:.80}, expected one word of up to 40 letters, digits and ._+/-")
    if len(note) > _MAX_NOTE_LENGTH:
        raise web.HTTPBadRequest(text=f"note: {len(note):,} characters, expected at most {_MAX_NOTE_LENGTH:,}")
    step = number_of({"step": str(given["step"])}, "step") if given.get("step") else None
    return await asyncio.to_thread(_keep, request, step, label, note), step


def _keep(request: web.Request, step: int | None, label: str, note: str) -> str:
    """Redact and store a label; return the trace id of its run; raises as `keep_label` does."""
    reading, home = read(request), request.app[HOME]
    node = next((node for node in reading.outline.nodes if node.step == step), None) if step is not None else None
    if step is not None and node is None:
        raise web.HTTPNotFound(text=f"step {step}: not in run {reading.run.trace_id}")
    texts = {"label": _redacted(label, reading.run, home), "note": _redacted(note, reading.run, home)}
    give = administration(home, "" if flush(home) else os.environ.get(STORE_VARIABLE, "").strip())
    span_id = "" if node is None else node.span_id
    give({"action": "label", "run": reading.run.trace_id, "span_id": span_id, "author": _author(), **texts})
    request.app[LABELS].forget()
    return reading.run.trace_id


def _redacted(text: str, run: Run, home: Home) -> str:
    """Return a text redacted like the run: with its policy, and its key if available."""
    redaction = freeze(run).redaction
    if not text or not redaction.policy:
        return text
    redactor, _, _ = redactor_like(redaction, home.directory / KEYS)
    return str(redactor.redact(text).value)


def _author() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in some containers
        return ""
