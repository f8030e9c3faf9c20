"""What the replay service does with a run: re-enact it as recorded, or with one thing changed.

Both are what `freezeframe replay` and `freezeframe fork` do beside the data directory. A request names a stored run and, for a
fork, a step and a text; never a command, a folder or a policy. Nothing is written: a fork that is kept is downloaded.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from freezeframe_replay.experiments.fork import Edit, Target, fork
from freezeframe_replay.local.home import Home
from freezeframe_replay.report.regression import Expect
from freezeframe_replay.service_state import HOME, REPLAYING, TOKEN, html, load, read
from freezeframe_replay.web.asked import asked_number
from freezeframe_replay.web.downloads import fork_archive
from freezeframe_replay.web.edit_page import Answer, Editable, edit_page, find_editable
from freezeframe_replay.web.replay import replay_page
from freezeframe_replay.web.theme import theme_of
from freezeframe_schemas.data_directory import NAME
from freezeframe_schemas.errors import FixtureError

if TYPE_CHECKING:
    from freezeframe_schemas.divergence import Report
    from freezeframe_schemas.fixture import Fixture
    from freezeframe_schemas.run import Run


async def replay_run(request: web.Request) -> web.Response:
    """Replay the run for a form of our own page."""
    await _own_form(request)
    run = await asyncio.to_thread(load, request)
    fixture, report = await _replayed(request, run, None)
    return html(replay_page(report, fixture, _folder(request.app[HOME]), theme=theme_of(request)))


async def edit_run(request: web.Request) -> web.Response:
    """Show the form in which the answer of a step, or the run's input, is changed."""
    run, editable = await asyncio.to_thread(_editable, request, request.query)
    return html(_edit_page(request, run, editable, editable.text))


async def fork_run(request: web.Request) -> web.Response:
    """Replay the run with the change of our own page's form, or give it as a download with a test."""
    form = await _own_form(request)
    run, editable = await asyncio.to_thread(_editable, request, form)
    text = _text(form)
    try:
        fixture = _forked(run, editable, text)
    except FixtureError as error:
        return html(
            _edit_page(request, run, editable, text, wrong=f"{error.message}; {error.do}" if error.do else error.message),
            status=422,
        )
    if form.get("keep"):
        kept = Expect.IDENTICAL if form["keep"] == Expect.IDENTICAL.value else Expect.CHANGED
        name = f"fork-{fixture.run_id[:12]}"
        body = await asyncio.to_thread(fork_archive, fixture, name, kept)
        sent_as = {"Content-Disposition": f'attachment; filename="{name}.tar.gz"'}
        return web.Response(body=body, content_type="application/gzip", headers=sent_as)
    _, report = await _replayed(request, run, fixture)
    folder = _folder(request.app[HOME])
    step = {} if editable.step is None else {"step": str(editable.step)}
    kept_as = {"token": request.app[TOKEN], **step, "as_json": json.dumps(text)}
    return html(
        replay_page(
            report, fixture, folder, kept_as=kept_as, origin=run.trace_id, changed=editable.step, theme=theme_of(request)
        )
    )


async def _own_form(request: web.Request) -> Mapping[str, object]:
    """Return the form of the request.

    Raises:
        web.HTTPForbidden: it is not from a page of this service.
    """
    form = await request.post()
    own = f"http://{request.headers.get('Host', '')}"
    given = str(form.get("token", "")).encode()
    if request.headers.get("Origin") != own or not secrets.compare_digest(given, request.app[TOKEN].encode()):
        raise web.HTTPForbidden(text="replay: expected a form from this service's own page")
    return form


def _text(form: Mapping[str, object]) -> str:
    """Return the text of a form: what was typed, or what the page of its replay holds in ASCII, so that nothing changes it.

    Raises:
        web.HTTPBadRequest: the page's own field was changed.
    """
    if "as_json" not in form:
        return str(form.get("text", "")).replace("\r\n", "\n")  # as browsers send lines
    try:
        return str(json.loads(str(form["as_json"])))
    except ValueError:
        raise web.HTTPBadRequest(text="as_json: expected a JSON text") from None


def _editable(request: web.Request, given: Any) -> tuple[Run, Editable]:
    """Return the run, and what of it is to be changed."""
    asked = {"step": str(given.get("step", ""))} if given.get("step") else {}
    reading = read(request)
    step = asked_number(asked, "step") if asked else None
    return reading.run, find_editable(reading.run, reading.outline, reading.transcript, step)


def _edit_page(request: web.Request, run: Run, editable: Editable, text: str, *, wrong: str = "") -> str:
    folder = str(_folder(request.app[HOME]))
    token = request.app[TOKEN]
    return edit_page(run, editable, text=text, wrong=wrong, folder=folder, token=token, theme=theme_of(request))


def _forked(run: Run, editable: Editable, text: str) -> Fixture:
    """Return the run with the text in place of what was recorded.

    Raises:
        FixtureError: the text does not fit there.
    """
    from freezeframe_replay.engine.freeze import freeze

    targets = {Answer.INPUT: Target.INPUT, Answer.RESULT: Target.RESULT, Answer.TEXT: Target.RESPONSE}
    value: Any = text
    if editable.answer is not Answer.TEXT:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise FixtureError(f"not valid JSON: {error}", do="texts go in double quotes") from None
    return fork(freeze(run), [Edit(target=targets[editable.answer], step=editable.step, value=value)])


async def _replayed(request: web.Request, run: Run, forked: Fixture | None) -> tuple[Fixture, Report]:
    folder = _folder(request.app[HOME])
    async with request.app[REPLAYING]:
        return await asyncio.to_thread(_reenact, run, forked, folder)


def _reenact(run: Run, forked: Fixture | None, folder: Path) -> tuple[Fixture, Report]:
    from freezeframe_replay.engine.freeze import freeze
    from freezeframe_replay.process.reenact import reenact

    fixture = forked or freeze(run)
    return fixture, reenact(fixture, cwd=folder)


def _folder(home: Home) -> Path:
    """Return where the agent is started: next to ``.freezeframe``, or where the service was started."""
    return home.directory.parent if home.directory.name == NAME else Path.cwd()
