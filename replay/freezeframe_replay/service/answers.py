"""Handlers of the replay service's HTTP API: one for each route of `api`, whose docstring describes it there.

Running the agent's code, SQL and writing labels require the token, a browser's cookie is not enough. A request
can name a run, a step and texts, never a command, a folder or a policy. Only labels are written.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import io
import json
from typing import Any, Final

from aiohttp import web

from freezeframe._version import __version__
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.experiments.fork import Edit, Target, fork
from freezeframe_replay.local.collector import store_url
from freezeframe_replay.operations.diff import DIFF, DiffParameters
from freezeframe_replay.operations.export import PACK, ExportParameters, exported_bytes
from freezeframe_replay.operations.failures import FAILURES, FailuresParameters
from freezeframe_replay.operations.operation import Operation, P
from freezeframe_replay.operations.pack import CODES
from freezeframe_replay.operations.runs import RUNS, RunsParameters
from freezeframe_replay.operations.show import SHOW, ShowParameters
from freezeframe_replay.operations.sql import SQL, SqlParameters
from freezeframe_replay.service.job import NO_TOOLS, RunTools
from freezeframe_replay.service.label_routes import keep_label
from freezeframe_replay.service.replay_routes import folder_of
from freezeframe_replay.service.set_routes import list_sets, read_grid
from freezeframe_replay.service.state import DOOR, HOME, JOBS, LABELS, SOURCE, download, load
from freezeframe_replay.sources.exports.kinds import EXPORTS
from freezeframe_replay.sources.fixture_archive import PACK_SUFFIX
from freezeframe_replay.sources.store import json_form
from freezeframe_replay.web.asked import number_of, run_query
from freezeframe_replay.web.downloads import fixture_archive
from freezeframe_replay.web.openapi import JSON
from freezeframe_schemas.errors import ConfigError, ReplayError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import Run
from freezeframe_schemas.verdict import judged_to_json

BASE: Final = "/api/v1"
GZIP: Final = "application/gzip"
_MAX_BODY: Final = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Versions of the service."""

    version: str
    """Of freezeframe."""
    store: str
    """Address for direct SQL, over ClickHouse's HTTP interface, with the same token."""
    description: str
    """Path of the OpenAPI description."""


# -- reading --------------------------------------------------------------------------------------------------------------


async def get_about(request: web.Request) -> web.Response:
    """Versions of the service."""
    store = await asyncio.to_thread(store_url, request.app[HOME])
    return _json(About(version=__version__, store=store, description=f"{BASE}/openapi.json"))


async def get_runs(request: web.Request) -> web.Response:
    """The recorded runs, newest first (freezeframe runs)."""
    return await _done(request, RUNS, RunsParameters(query=run_query(request.query)))


async def get_run(request: web.Request) -> web.Response:
    """One run with its bodies (freezeframe show --full --json). The run: an id, its first digits, or last."""
    return await _done(request, SHOW, ShowParameters(run=request.match_info["run"], full=True))


async def get_fixture(request: web.Request) -> web.Response:
    """Its fixture as tar.gz (freezeframe fixture)."""
    run = await asyncio.to_thread(load, request)
    return download(await asyncio.to_thread(fixture_archive, run), f"fixture-{run.trace_id}.tar.gz", GZIP)


async def get_labels(request: web.Request) -> web.Response:
    """Labels of the run (under the empty name) and of its spans."""
    run = await asyncio.to_thread(load, request)
    return _json(await asyncio.to_thread(request.app[LABELS].of_run, run.trace_id))


async def post_labels(request: web.Request) -> web.Response:
    """Label the run or a step. An earlier label is replaced; the answer is that of GET."""
    _program_only(request)
    trace_id, _ = await keep_label(request, await _body(request))
    return _json(await asyncio.to_thread(request.app[LABELS].of_run, trace_id))


async def get_sets(request: web.Request) -> web.Response:
    """The datasets next to the data directory, each with the candidates that were tried on it."""
    return _json(await asyncio.to_thread(list_sets, request.app))


async def get_set(request: web.Request) -> web.Response:
    """Result of each run of a dataset with each candidate."""
    return _json((await asyncio.to_thread(read_grid, request)).values(only_changed=bool(request.query.get("changed"))))


async def get_failures(request: web.Request) -> web.Response:
    """Similar failures in groups, each with its newest run (freezeframe failures)."""
    limit = number_of(request.query, "limit", FailuresParameters().limit)
    since = run_query({"since": request.query.get("since", "")}).since
    return await _done(request, FAILURES, FailuresParameters(limit=limit, since=since))


async def get_diff(request: web.Request) -> web.Response:
    """Two runs side by side (freezeframe diff --json)."""
    before, after = (request.query.get(name, "").strip() for name in ("before", "after"))
    if not before or not after:
        raise web.HTTPBadRequest(text=f"diff: expected the ids of two runs, {BASE}/diff?before=ID&after=ID")

    return await _done(request, DIFF, DiffParameters(before=before, after=after))


async def post_sql(request: web.Request) -> web.Response:
    """The rows of a read-only query (freezeframe sql)."""
    _program_only(request)
    body = await _body(request)
    query, parameters = body.get("query"), body.get("parameters", {})
    if not isinstance(query, str) or not isinstance(parameters, dict):
        raise web.HTTPBadRequest(text='sql: expected {"query": "SELECT ...", "parameters": {...}}')

    return await _done(request, SQL, SqlParameters(query=query, values=parameters))


async def get_export(request: web.Request) -> web.Response:
    """The run in the form of another tool (freezeframe export)."""
    kind = EXPORTS.get(request.match_info["kind"])
    if kind is None:
        raise web.HTTPNotFound(text=f"export: found {request.match_info['kind']!r:.80}, expected one of {', '.join(EXPORTS)}")
    trace_id, content = await _exported(request, kind.name, each_call=request.query.get("each") == "call")
    return download(content, f"{trace_id}-{kind.name}.{kind.forms[0]}")


async def get_pack(request: web.Request) -> web.Response:
    """The run as one file (freezeframe export --as pack)."""
    code = request.query.get("code", "none")
    if code not in CODES:
        raise web.HTTPBadRequest(text=f"code: found {code!r:.80}, expected one of {', '.join(CODES)}")
    trace_id, content = await _exported(request, PACK, code=code)
    return download(content, f"{trace_id[:8]}{PACK_SUFFIX}", GZIP)


async def _exported(request: web.Request, form: str, **options: Any) -> tuple[str, bytes]:
    """Return the id of the run that the address names, and the file of its export."""
    run = await asyncio.to_thread(load, request)
    parameters = ExportParameters(
        format=form,
        output=io.BytesIO(),
        runs=[run.trace_id],
        unredacted=request.query.get("unredacted") == "1",
        folder=folder_of(request.app[HOME]),
        **options,
    )
    try:
        return run.trace_id, await asyncio.to_thread(exported_bytes, request.app[SOURCE], parameters)
    except ConfigError as error:
        raise web.HTTPUnprocessableEntity(text=error.message) from None


# -- what runs the agent's code -------------------------------------------------------------------------------------------


async def post_replay(request: web.Request) -> web.Response:
    """Re-enact the run offline with the code next to the data directory (freezeframe replay --json)."""
    _program_only(request)
    tools = (await _body(request)).get("run_tools", []) if request.can_read_body else []
    if tools is not True and not (isinstance(tools, list) and all(isinstance(name, str) for name in tools)):  # pyright: ignore[reportUnknownVariableType]
        raise web.HTTPBadRequest(text='replay: expected {"run_tools": names of tools, or true for those whose code changed}')
    run = await asyncio.to_thread(load, request)
    runs_tools = RunTools(changed=True) if tools is True else RunTools(names=frozenset(map(str, tools)))
    return await _replayed(request, await asyncio.to_thread(freeze, run), runs_tools=runs_tools)


async def post_fork(request: web.Request) -> web.Response:
    """Re-enact the run with one thing changed (freezeframe experiment fork, then replay)."""
    _program_only(request)
    body = await _body(request)
    step, target = body.get("step"), body.get("target")
    if target not in set(Target) or "value" not in body or not (step is None or type(step) is int):
        raise web.HTTPBadRequest(
            text=f'fork: expected {{"step": N, "target": one of {", ".join(Target)}, "value": what is there instead}}'
        )
    run: Run = await asyncio.to_thread(load, request)
    origin = freeze(run)
    edit = Edit(target=Target(target), step=step, path=str(body.get("path", "")), value=body["value"])
    return await _replayed(request, fork(origin, [edit]), origin=origin, edit=edit)


async def _replayed(
    request: web.Request,
    fixture: Fixture,
    *,
    origin: Fixture | None = None,
    edit: Edit | None = None,
    runs_tools: RunTools = NO_TOOLS,
) -> web.Response:
    """Re-enact a fixture, after a running replay; the pages list it, too.

    Raises:
        FreezeframeError: the replay could not be made.
    """
    job = request.app[JOBS].start(fixture, folder_of(request.app[HOME]), origin=origin, edit=edit, runs_tools=runs_tools)
    while not job.has_ended:
        await job.moved.wait()
    if job.report is None:
        raise job.error or ReplayError("the replay was cancelled")
    return web.Response(text=judged_to_json(job.report), content_type=JSON)


def _program_only(request: web.Request) -> None:
    """Refuse a browser: a page of another origin on this machine could have its cookie sent.

    Raises:
        web.HTTPUnauthorized: the request does not show the token.
    """
    if not request.app[DOOR].is_program(request.headers.get("Authorization")):
        raise web.HTTPUnauthorized(text="expected the token in the file reader-token of the data directory")


async def _body(request: web.Request) -> dict[str, Any]:
    """Return the JSON object of a request.

    Raises:
        web.HTTPBadRequest: it is not one, or too long.
    """
    data = await request.content.read(_MAX_BODY)
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise web.HTTPBadRequest(text=f"expected a JSON object of less than {_MAX_BODY:,} bytes")
    return found  # pyright: ignore[reportUnknownVariableType]  # each field is checked where it is used


async def _done(request: web.Request, operation: Operation[P, Any], parameters: P) -> web.Response:
    """Return the JSON of an operation's result."""
    found = await asyncio.to_thread(operation.execute, request.app[SOURCE], parameters)
    return _json(operation.to_json(found))


def _json(value: object) -> web.Response:
    def form(item: object) -> Any:
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            return dataclasses.asdict(item)
        if isinstance(item, dt.timedelta):
            return item.total_seconds()
        return json_form(item)

    return web.json_response(value, dumps=lambda item: json.dumps(item, ensure_ascii=False, default=form))
