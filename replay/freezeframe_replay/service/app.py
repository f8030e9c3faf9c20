"""The replay service: runs, comparisons and replays over HTTP on the loopback interface.

The pages are routes next to their handlers, in the modules named `*_routes`, and the API for programs, which is described at
/api/v1/openapi.json, in `api`.

All but /healthz require the reader's token, or the cookie of a browser that came by such a link (`web.door`).
It answers only to a Host of this machine, so no web page can reach it by DNS rebinding, and replays only for a form of its
own pages (their Origin, and a token that only they hold). It changes nothing in the store but labels.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from aiohttp import web

from freezeframe_replay.local.collector import store_url
from freezeframe_replay.local.daemon import replay_ports_file
from freezeframe_replay.local.home import Home, find_home, make_home
from freezeframe_replay.local.target import RunsPlace
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.report.reading import LastReading
from freezeframe_replay.service import api, label_routes, list_routes, replay_routes, run_routes, set_routes, store_routes
from freezeframe_replay.service.history import History
from freezeframe_replay.service.jobs import Jobs
from freezeframe_replay.service.state import COSTS, DOOR, HOME, JOBS, LABELS, LAST, LIVE, SOURCE, STORE, TOKEN, html
from freezeframe_replay.sources.costs import Costs
from freezeframe_replay.sources.labels import Labels
from freezeframe_replay.sources.store import KeptStore
from freezeframe_replay.web import pages, redirects, theme
from freezeframe_replay.web.door import Door
from freezeframe_replay.web.markup import THEME, content_security_policy
from freezeframe_schemas.errors import FreezeframeError, PermanentStoreError, ReplayError, RunError
from freezeframe_schemas.local_tokens import READER, load_or_create_token
from freezeframe_schemas.same_origin import ANSWER_HEADERS, LOOPBACK_NAMES, why_foreign
from freezeframe_schemas.whole_file import replace_file

ROUTES: Final = web.RouteTableDef()

_logger: Final = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LOOPBACK: Final = "127.0.0.1"
_OPEN: Final = frozenset({"/healthz", "/enter"})
"""Paths that are answered without token and cookie. A probe carries neither, and the link sets the cookie."""
_FOR_PROGRAMS: Final = ("/api/", "/links", "/healthz")
"""Prefixes of paths with errors in JSON; all others are pages, and so are their errors."""
_COMPRESSED_FROM: Final = 1000
"""Size from which answers are compressed."""
_SWEEP_S: Final = 3600.0
"""Interval at which the service removes kept replays of missing runs: that of the collector's sweeps."""
_HEADERS: Final = {
    **ANSWER_HEADERS,
    "Referrer-Policy": "same-origin",  # with no-referrer a browser sends Origin: null with our own forms
    "Cache-Control": "no-store",
}


def make_app(home: Home, *, allow_live: bool = False) -> web.Application:
    """Return the application over the data directory's store, which is opened by the first request."""
    app = web.Application(middlewares=[_guard])
    app[HOME] = home
    app[DOOR] = Door(load_or_create_token(home.directory, READER))
    app[TOKEN] = secrets.token_urlsafe(24)
    app[LIVE] = allow_live
    history = History(home.directory)
    app[JOBS] = Jobs(history)
    app[STORE] = KeptStore(lambda: store_url(home))
    app[SOURCE] = RunSource(RunsPlace(data=home.directory), app[STORE], only_stored=True)
    app[LAST] = LastReading()
    app[LABELS] = Labels(app[STORE].use)
    app[COSTS] = Costs()
    app.on_cleanup.append(_close)
    app.cleanup_ctx.append(lambda app: _sweeping(app, history))
    for module in (list_routes, run_routes, replay_routes, label_routes, set_routes, store_routes, redirects, theme):
        app.add_routes(module.ROUTES)
    app.add_routes(ROUTES)
    api.add_routes(app)
    return app


async def serve(home: Home, port: int, *, allow_live: bool = False) -> None:
    """Serve until SIGTERM or SIGINT; the port is written to the data directory once it listens."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(make_app(home, allow_live=allow_live), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, LOOPBACK, port)
    await site.start()
    bound: int = runner.addresses[0][1]
    replace_file(replay_ports_file(home), json.dumps({"http": bound}) + "\n")
    print(f"replay service listens on http://{LOOPBACK}:{bound}", flush=True)
    try:
        await stop.wait()
    finally:
        await runner.cleanup()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service as a process: ``python -m freezeframe_replay.service.app --data DIR --port N``."""
    parser = argparse.ArgumentParser(prog="freezeframe-replay-service", description="Serve runs and fixtures on loopback.")
    parser.add_argument("--data", type=Path, metavar="DIR", help="data directory")
    parser.add_argument("--port", type=int, default=4320, metavar="N", help="port (0: any free one; default: 4320)")
    parser.add_argument("--allow-live", action="store_true", help="let pages ask models for real")
    arguments = parser.parse_args(argv)
    home = find_home(arguments.data)
    try:
        make_home(home)
        asyncio.run(serve(home, arguments.port, allow_live=arguments.allow_live))
    except (FreezeframeError, OSError) as error:
        print(f"freezeframe replay service: {error}", file=sys.stderr)
        return 1
    return 0


# -- handlers -----------------------------------------------------------------------------------------------------------


@ROUTES.get("/healthz")
async def _healthz(request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


@ROUTES.post("/links")
async def _link(request: web.Request) -> web.Response:
    if not request.app[DOOR].is_program(request.headers.get("Authorization")):
        raise web.HTTPUnauthorized(text="links: expected the token in the file reader-token of the data directory")
    return web.json_response({"link": request.app[DOOR].make_link()})


@ROUTES.get("/enter")
async def _enter(request: web.Request) -> web.Response:
    if not request.app[DOOR].enter(request.query.get("code", "")):
        return _closed(request)
    answer = redirects.see(redirects.page_of(request.query.get("run", "")))
    answer.set_cookie(_cookie_name(request), request.app[DOOR].cookie, httponly=True, samesite="Strict", path="/")
    return answer


async def _sweeping(app: web.Application, history: History) -> AsyncIterator[None]:
    """Remove kept replays of runs that were deleted, now and then."""

    async def sweep() -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            try:
                await asyncio.to_thread(app[STORE].use, history.forget_gone)
            except FreezeframeError as error:
                _logger.warning("kept replays: not compared with the store: %s", error)

    sweeping = asyncio.create_task(sweep())
    yield
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)


async def _close(app: web.Application) -> None:
    await app[JOBS].close()
    app[STORE].close()


# -- answers ------------------------------------------------------------------------------------------------------------


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer only to this machine's own names, turn our errors into answers, and set the headers of every answer."""
    THEME.set(theme.theme_of(request))
    why = why_foreign(request.headers, names=LOOPBACK_NAMES, links=True)
    if why is not None:
        answer: web.StreamResponse = _error(request, f"refused: {why}", status=403)
    elif request.path not in _OPEN and not request.app[DOOR].admits(
        request.headers.get("Authorization"), request.cookies, _cookie_name(request)
    ):
        answer = _closed(request)
    else:
        try:
            answer = await handler(request)
        except web.HTTPException as error:
            answer = _error(request, error.text or error.reason, status=error.status)
        except FreezeframeError as error:
            status = (
                404 if isinstance(error, RunError) else 422 if isinstance(error, ReplayError | PermanentStoreError) else 503
            )
            answer = _error(request, error.message, error.do, status=status)
        except Exception:
            _logger.exception("%s %s: failed", request.method, request.path)
            answer = _error(request, "a fault of freezeframe; the log of the replay service has its stack", status=500)
    answer.headers.update(_HEADERS)
    answer.headers["Content-Security-Policy"] = content_security_policy()
    is_text = answer.content_type in ("text/html", "application/json")
    if is_text and (answer.content_length or 0) > _COMPRESSED_FROM and "gzip" in request.headers.get("Accept-Encoding", ""):
        answer.enable_compression(web.ContentCoding.gzip)
    return answer


def _closed(request: web.Request) -> web.Response:
    """Explain access to a client with neither token nor cookie."""
    if request.path.startswith("/api/"):
        text = "expected `authorization: Bearer TOKEN`; the token is in the file reader-token of the data directory"
        answer = web.json_response({"error": text}, status=401)
    else:
        # a browser does not send the cookie if another site's page leads here, and does if this page does
        here = "/" if request.path == "/enter" else f"/{request.path_qs.lstrip('/')}"
        answer = html(pages.closed_page(here), status=401)
    answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def _cookie_name(request: web.Request) -> str:
    """Return the name of this service's cookie: the ports of a machine share their cookies."""
    port = request.transport.get_extra_info("sockname")[1] if request.transport is not None else 0
    return f"freezeframe-{port}"


def _error(request: web.Request, message: str, do: str | None = None, *, status: int) -> web.Response:
    """Return an error in the form that the client reads: JSON for programs, a page for people."""
    if request.path.startswith(_FOR_PROGRAMS):
        return web.json_response({"error": message} | ({"do": do} if do else {}), status=status)
    return html(pages.error_page(message, do), status=status)


if __name__ == "__main__":
    sys.exit(main())
