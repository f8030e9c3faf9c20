"""What the replay service does with a run: re-enact it, by the code that `freezeframe replay` runs beside the data directory.

A request names a stored run and nothing else: neither a command, nor a folder, nor a policy.
"""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from freezeframe_replay.local.home import Home
from freezeframe_replay.service_state import HOME, REPLAYING, TOKEN, html, load
from freezeframe_replay.web.replay import replay_page
from freezeframe_replay.web.theme import theme_of
from freezeframe_schemas.data_directory import NAME

if TYPE_CHECKING:
    from freezeframe_schemas.divergence import Report
    from freezeframe_schemas.run import Run


async def replay_run(request: web.Request) -> web.Response:
    """Replay the run for a form of our own page.

    Raises:
        web.HTTPForbidden: the form is not from a page of this service.
    """
    form = await request.post()
    own = f"http://{request.headers.get('Host', '')}"
    given = str(form.get("token", "")).encode()
    if request.headers.get("Origin") != own or not secrets.compare_digest(given, request.app[TOKEN].encode()):
        raise web.HTTPForbidden(text="replay: expected a form from this service's own page")
    run = await asyncio.to_thread(load, request)
    folder = _folder(request.app[HOME])
    async with request.app[REPLAYING]:
        report = await asyncio.to_thread(_reenact, run, folder)
    return html(replay_page(report, folder, theme=theme_of(request)))


def _reenact(run: Run, folder: Path) -> Report:
    from freezeframe_replay.engine.freeze import freeze
    from freezeframe_replay.process.reenact import reenact

    return reenact(freeze(run), cwd=folder)


def _folder(home: Home) -> Path:
    """Return where the agent is started: next to ``.freezeframe``, or where the service was started."""
    return home.directory.parent if home.directory.name == NAME else Path.cwd()
