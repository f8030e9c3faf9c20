"""The replay service: runs, comparisons and replays over HTTP on the loopback interface.

    GET  /healthz                     {"status": "ok"}
    GET  /api/runs?failed=1&limit=20  [{"trace_id": ...}, ...]; also service=, user=, since=1h, words=
    GET  /api/runs/ID                 the outline, bodies included
    GET  /api/runs/ID/fixture         the fixture as tar.gz
    GET  /   and   GET /runs/ID       the same as pages
    GET  /diff?before=ID&after=ID     two runs side by side
    POST /runs/ID/replay              the run re-enacted, offline, by the code next to the data directory
    POST /links                       {"link": "/enter?code=..."}, which opens the pages in a browser, once

All but the first require the reader's token, or the cookie of a browser that came by such a link (`web.door`).
It answers only to a Host of this machine, so no web page can reach it by DNS rebinding, and replays only for a form of its
own pages (their Origin, and a token that only they hold). It changes nothing in the store.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import datetime as dt
import io
import json
import os
import secrets
import signal
import sys
import tarfile
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from freezeframe_replay.cli.options import json_form, seconds
from freezeframe_replay.local.daemon import flush, replay_ports_file, store_url
from freezeframe_replay.local.home import Home, find_home, make_home
from freezeframe_replay.report.outline import outline_run
from freezeframe_replay.web import pages
from freezeframe_replay.web.comparison import comparison_body
from freezeframe_replay.web.door import Door
from freezeframe_replay.web.replay import replay_page
from freezeframe_schemas.data_directory import NAME
from freezeframe_schemas.errors import FreezeframeError, ReplayError, RunError
from freezeframe_schemas.lifecycle import NOT_OK
from freezeframe_schemas.local_tokens import READER, load_or_create_token
from freezeframe_schemas.same_origin import ANSWER_HEADERS, LOOPBACK_NAMES, why_foreign

if TYPE_CHECKING:
    from freezeframe_replay.report.align import Comparison
    from freezeframe_replay.sources.store import RunRow, RunStore
    from freezeframe_schemas.divergence import Report
    from freezeframe_schemas.run import Run

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LOOPBACK: Final = "127.0.0.1"
_MOST_RUNS: Final = 1000
_HOME: Final = web.AppKey("home", Home)
_TOKEN: Final = web.AppKey("token", str)
_DOOR: Final = web.AppKey("door", Door)
_REPLAYING: Final = web.AppKey("replaying", asyncio.Lock)
"""One replay at a time: each is a process that runs the agent's code."""

_OPEN: Final = frozenset({"/healthz", "/enter"})
"""Paths that are answered without token and cookie. A probe carries neither, and the link sets the cookie."""
_HEADERS: Final = {
    **ANSWER_HEADERS,
    "Referrer-Policy": "same-origin",  # with no-referrer a browser sends Origin: null with our own forms
    "Cache-Control": "no-store",
}


def make_app(home: Home) -> web.Application:
    """Return the application over the data directory's store. The store is opened for each request, so a restarted collector
    is found again."""
    app = web.Application(middlewares=[_guard])
    app[_HOME] = home
    app[_DOOR] = Door(load_or_create_token(home.directory, READER))
    app[_TOKEN] = secrets.token_urlsafe(24)
    app[_REPLAYING] = asyncio.Lock()
    app.add_routes(
        [
            web.get("/healthz", _healthz),
            web.get("/enter", _enter),
            web.post("/links", _link),
            web.get("/api/runs", _api_runs),
            web.get("/api/runs/{run}", _api_run),
            web.get("/api/runs/{run}/fixture", _api_fixture),
            web.get("/", _runs_page),
            web.get("/runs/{run}", _run_page),
            web.get("/diff", _diff_page),
            web.post("/runs/{run}/replay", _replay_page),
        ]
    )
    return app


async def serve(home: Home, port: int) -> None:
    """Serve until SIGTERM or SIGINT; the port is written to the data directory once it listens."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(make_app(home), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, LOOPBACK, port)
    await site.start()
    bound: int = runner.addresses[0][1]
    _announce(replay_ports_file(home), bound)
    print(f"replay service listens on http://{LOOPBACK}:{bound}", flush=True)
    try:
        await stop.wait()
    finally:
        await runner.cleanup()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service as a process: ``python -m freezeframe_replay.service --data DIR --port N``."""
    parser = argparse.ArgumentParser(prog="freezeframe-replay-service", description="Serve runs and fixtures on loopback.")
    parser.add_argument("--data", type=Path, metavar="DIR", help="data directory")
    parser.add_argument("--port", type=int, default=4320, metavar="N", help="port (0: any free one; default: 4320)")
    arguments = parser.parse_args(argv)
    home = find_home(arguments.data)
    try:
        make_home(home)
        asyncio.run(serve(home, arguments.port))
    except (FreezeframeError, OSError) as error:
        print(f"freezeframe replay service: {error}", file=sys.stderr)
        return 1
    return 0


# -- handlers -----------------------------------------------------------------------------------------------------------


async def _healthz(request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def _link(request: web.Request) -> web.Response:
    if not request.app[_DOOR].is_program(request.headers.get("Authorization")):
        raise web.HTTPUnauthorized(text="links: expected the token in the file reader-token of the data directory")
    return web.json_response({"link": request.app[_DOOR].make_link()})


async def _enter(request: web.Request) -> web.Response:
    if not request.app[_DOOR].enter(request.query.get("code", "")):
        return _closed(request)
    answer = web.Response(status=303, headers={"Location": "/"})
    answer.set_cookie(_cookie_name(request), request.app[_DOOR].cookie, httponly=True, samesite="Strict", path="/")
    return answer


async def _api_runs(request: web.Request) -> web.Response:
    runs = await asyncio.to_thread(_list, request)
    return _json([dataclasses.asdict(run) for run in runs])


async def _api_run(request: web.Request) -> web.Response:
    run = await asyncio.to_thread(_load, request)
    return _json(dataclasses.asdict(outline_run(run, full=True)))


async def _api_fixture(request: web.Request) -> web.Response:
    run = await asyncio.to_thread(_load, request)
    body = await asyncio.to_thread(fixture_archive, run)
    return web.Response(
        body=body,
        content_type="application/gzip",
        headers={"Content-Disposition": f'attachment; filename="fixture-{run.trace_id}.tar.gz"'},
    )


async def _runs_page(request: web.Request) -> web.Response:
    runs = await asyncio.to_thread(_list, request)
    return _html(pages.runs_page(runs, request.query))


async def _run_page(request: web.Request) -> web.Response:
    run = await asyncio.to_thread(_load, request)
    return _html(pages.run_page(outline_run(run, full=True), token=request.app[_TOKEN]))


async def _diff_page(request: web.Request) -> web.Response:
    before, after = (request.query.get(name, "").strip() for name in ("before", "after"))
    if not before or not after:
        raise web.HTTPBadRequest(text="diff: expected the ids of two runs, /diff?before=ID&after=ID")
    found = await asyncio.to_thread(_compare, request, before, after)
    return _html(pages.page("diff", f'<nav><a href="/">all runs</a></nav>{comparison_body(found)}'))


async def _replay_page(request: web.Request) -> web.Response:
    """Replay the run for a form of our own page: run the same code as the command line, in the same folder."""
    form = await request.post()
    own = f"http://{request.headers.get('Host', '')}"
    given = str(form.get("token", "")).encode()
    if request.headers.get("Origin") != own or not secrets.compare_digest(given, request.app[_TOKEN].encode()):
        raise web.HTTPForbidden(text="replay: expected a form from this service's own page")
    run = await asyncio.to_thread(_load, request)
    folder = _folder(request.app[_HOME])
    async with request.app[_REPLAYING]:
        report = await asyncio.to_thread(_reenact, run, folder)
    return _html(replay_page(report, folder))


def _reenact(run: Run, folder: Path) -> Report:
    from freezeframe_replay.engine.freeze import freeze
    from freezeframe_replay.process.reenact import reenact

    return reenact(freeze(run), cwd=folder)


def _folder(home: Home) -> Path:
    """Return where the agent is started: next to ``.freezeframe``, or where the service was started."""
    return home.directory.parent if home.directory.name == NAME else Path.cwd()


def _compare(request: web.Request, before: str, after: str) -> Comparison:
    from freezeframe_replay.engine.freeze import freeze
    from freezeframe_replay.report.align import compare_runs
    from freezeframe_schemas.run import build_run

    with contextlib.closing(_open(request)) as store:
        one, other = (freeze(build_run(store.load_spans(run))) for run in (before, after))
    return compare_runs(one, other)


def fixture_archive(run: Run) -> bytes:
    """Return the run's fixture as a tar.gz with one folder, ``fixture-<run id>/``; equal runs give equal bytes."""
    from freezeframe_replay.engine.freeze import freeze
    from freezeframe_schemas.fixture import write_fixture

    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        write_fixture(freeze(run), Path(scratch))
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path in sorted(Path(scratch).rglob("*")):
                archive.add(path, f"fixture-{run.trace_id}/{path.relative_to(scratch)}", recursive=False, filter=_anonymous)
    import gzip

    return gzip.compress(packed.getvalue(), mtime=0)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove owner and time from an archive entry."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() else 0o644
    return member


def _open(request: web.Request) -> RunStore:
    from freezeframe_replay.sources.store import open_runs

    home = request.app[_HOME]
    url = store_url(home)
    flush(home)
    return open_runs(url)


def _load(request: web.Request) -> Run:
    from freezeframe_schemas.run import build_run

    with contextlib.closing(_open(request)) as store:
        return build_run(store.load_spans(request.match_info["run"]))


def _list(request: web.Request) -> Sequence[RunRow]:
    limit = request.query.get("limit", "100")
    if not limit.isdecimal():
        raise web.HTTPBadRequest(text=f"limit: found {limit!r}, expected a whole number")
    with contextlib.closing(_open(request)) as store:
        return store.list_runs(min(int(limit), _MOST_RUNS), **_filters(request.query))


def _filters(query: Mapping[str, str]) -> dict[str, Any]:
    """Return the filters of a list for `RunStore.list_runs`; an empty field of the form filters nothing."""
    filters: dict[str, Any] = {name: query[name] for name in ("service", "user") if query.get(name)}
    if query.get("failed", "") in ("1", "true"):
        filters["statuses"] = NOT_OK
    if query.get("since"):
        try:
            age = dt.timedelta(seconds=seconds(query["since"]))
        except argparse.ArgumentTypeError as error:
            raise web.HTTPBadRequest(text=f"since: {error}") from None
        filters["since"] = dt.datetime.now(dt.UTC) - age
    if query.get("words"):
        fields = ("name", "input", "output", "first_error", "run_id", "trace_id")
        condition = " OR ".join(f"positionCaseInsensitiveUTF8({field}, {{words:String}}) > 0" for field in fields)
        filters |= {"where": condition, "parameters": {"words": query["words"]}}
    return filters


# -- answers ------------------------------------------------------------------------------------------------------------


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer only to this machine's own names, turn our errors into answers, and set the headers of every answer."""
    why = why_foreign(request.headers, names=LOOPBACK_NAMES, links=True)
    if why is not None:
        answer: web.StreamResponse = web.json_response({"error": f"refused: {why}"}, status=403)
    elif request.path not in _OPEN and not request.app[_DOOR].admits(
        request.headers.get("Authorization"), request.cookies, _cookie_name(request)
    ):
        answer = _closed(request)
    else:
        try:
            answer = await handler(request)
        except web.HTTPException as error:
            answer = web.json_response({"error": error.text or error.reason}, status=error.status)
        except FreezeframeError as error:
            answer = _error(request, error)
    answer.headers.update(_HEADERS)
    answer.headers["Content-Security-Policy"] = pages.content_security_policy()
    return answer


def _closed(request: web.Request) -> web.Response:
    """Explain how to get in to a client with neither token nor cookie."""
    if request.path.startswith("/api/"):
        text = "expected `authorization: Bearer TOKEN`; the token is in the file reader-token of the data directory"
        answer = web.json_response({"error": text}, status=401)
    else:
        # a browser does not send the cookie if another site's page leads here, and does if this page does
        answer = _html(pages.closed_page("/" if request.path == "/enter" else f"/{request.path_qs.lstrip('/')}"), status=401)
    answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def _cookie_name(request: web.Request) -> str:
    """Return the name of this service's cookie: the ports of a machine share their cookies."""
    port = request.transport.get_extra_info("sockname")[1] if request.transport is not None else 0
    return f"freezeframe-{port}"


def _error(request: web.Request, error: FreezeframeError) -> web.Response:
    status = 404 if isinstance(error, RunError) else 422 if isinstance(error, ReplayError) else 503
    if request.path.startswith("/api/"):
        return web.json_response({"error": error.message, "do": error.do}, status=status)
    return _html(pages.error_page(error.message, error.do), status=status)


def _json(value: object) -> web.Response:
    return web.json_response(value, dumps=lambda item: json.dumps(item, ensure_ascii=False, default=json_form))


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, content_type="text/html", status=status)


def _announce(path: Path, port: int) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps({"http": port}) + "\n")
    os.replace(partial, path)


if __name__ == "__main__":
    sys.exit(main())
