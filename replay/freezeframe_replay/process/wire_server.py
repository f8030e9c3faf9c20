"""WireServer: recorded runs as a real HTTP server, for programs in any language. Serves, never forwards.

A base URL points an SDK here. Model calls are answered with the recorded bytes, chunk borders and ends. The
calling task cannot be seen from outside, so equal requests are answered in the order of their arrival; a client
can name its task in the header ``x-freezeframe-lane``. A miss is answered with status 424 and ``x-should-retry:
false``: SDKs retry after 409, 429, 5xx.

All paths are below the token of the server (`loopback_http`). One of several runs is chosen by the header
``x-freezeframe-run`` or the beginning of the path, ``/-/run/ID``. The server's own paths, below those:

    POST /-/mcp            the run's tools as an MCP server (streamable HTTP)
    GET  /-/tools          their names, descriptions and schemas
    POST /-/tools/NAME     arguments by name -> {"result": ...} or {"error": ...}
    ANY  /-/at/PROVIDER/.. a call of this provider, if its path does not show it
    ANY  /-/to/URL         the recorded call of a tool to this URL; also for a client that uses us as its proxy
    GET  /-/report         the requests so far, as a page; /-/report.json for programs
"""

from __future__ import annotations

import html
import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote, urlsplit

from freezeframe._cleaning import clean_headers, clean_url
from freezeframe.seams import Call
from freezeframe.seams.http import adapter
from freezeframe.seams.recorder import credentials
from freezeframe_replay.process.loopback_http import TO_PREFIX, LoopbackHandler, LoopbackServer, listening
from freezeframe_replay.process.served_run import AT_PREFIX, MCP_PATH, TOOLS_PATH, ServedRun
from freezeframe_replay.process.served_tools import SEAM, ToolFailure
from freezeframe_replay.process.session_authority import SessionAuthority
from freezeframe_replay.report.report_text import report_text
from freezeframe_schemas.errors import ReplayMiss, WireError
from freezeframe_schemas.exchange import Completion, Exchange, Lane, Request, parse_lane
from freezeframe_schemas.verdict import judged_to_json
from freezeframe_schemas.wire.answer import error_object
from freezeframe_schemas.wire.document import as_object, parse
from freezeframe_schemas.wire.registry import MODEL_LISTS, dialect_named

LANE_HEADER: Final = "x-freezeframe-lane"
RUN_HEADER: Final = "x-freezeframe-run"
RUN_PREFIX: Final = "/-/run/"
MISS_STATUS: Final = 424
_REPORT_PATH: Final = "/-/report"
_NO_RETRY: Final = ("x-should-retry", "false")


@contextmanager
def serve_wire(
    runs: Sequence[ServedRun], port: int = 0, *, is_open: bool = False, authority: SessionAuthority | None = None
) -> Generator[str]:
    """Serve the runs on loopback while the block runs; yields the server's URL.

    Args:
        runs: the runs that answer.
        port: the port; 0 for any free one.
        is_open: answer anyone on this machine, without a token.
        authority: certifies the servers that a client calls over https, if it uses us as its proxy.

    Raises:
        OSError: the port is taken.
    """
    server = _Server(port, _Handler, is_open=is_open, authority=authority)
    server.runs = tuple(runs)
    with listening(server, "freezeframe-wire") as url:
        yield url


class _Server(LoopbackServer):
    runs: tuple[ServedRun, ...]

    def run_named(self, name: str) -> ServedRun:
        """Return the run whose id begins with the name; without a name the only one.

        Raises:
            WireError: it is missing, or there are several.
        """
        named = [run for run in self.runs if run.fixture.run_id.startswith(name.lower())]
        if len(named) == 1:
            return named[0]
        known = ", ".join(run.fixture.run_id[:12] for run in self.runs)
        raise WireError(f"expected one of the runs {known} in the header {RUN_HEADER} or as {RUN_PREFIX}ID, found {name!r:.80}")


class _Handler(LoopbackHandler):
    def handle_request(self, body: bytes) -> None:
        """Answer from the chosen run."""
        server = self.server
        assert isinstance(server, _Server)
        target, name = self.target, self.headers.get(RUN_HEADER, "")
        if target.startswith(RUN_PREFIX):
            name, slash, rest = target.removeprefix(RUN_PREFIX).partition("/")
            target = slash + rest or "/"
        try:
            run, lane = server.run_named(name), parse_lane(self.headers.get(LANE_HEADER, ""))
        except WireError as error:
            return self._refuse(str(error))
        if target.startswith("/-/") and not target.startswith((TO_PREFIX, AT_PREFIX)):
            return self._answer_own(run, urlsplit(target).path, body, lane)
        return self._answer_call(run, target, body, lane)

    def _answer_call(self, run: ServedRun, target: str, body: bytes, lane: Lane) -> None:
        call = self._call(run.url_of(self.command, target) or self.url_of(target), body, lane)
        if self.command == "GET" and _is_model_list(run, call.request.url):
            run.made_up.add(call.name)
            return self.send_json(200, run.models_document())
        known = credentials.answer_of(call.request) if self.is_proxied else None
        if known is not None:  # with what no server takes for credentials
            return self.send_whole(200, known[1], (("content-type", known[0]),))
        if self.is_proxied and adapter.is_telemetry(call.request.url):
            return self._refuse("an SDK's own telemetry is not recorded, and nothing is let through")
        try:
            exchange = run.session.respond(call)
        except (ReplayMiss, WireError) as miss:
            return self._refuse(str(miss), call.dialect)
        if exchange is None:  # a policy that lets calls go out is not offered here
            return self._refuse("the replay would make this call for real, which a server does not do", call.dialect)
        return answer_with(self, exchange)

    def _call(self, asked_url: str, body: bytes, lane: Lane) -> Call:
        url = clean_url(asked_url)
        request = Request(method=self.command, url=url, headers=clean_headers(self.headers.items()), body=body)
        return call_of(request, body, lane)

    # -- tools and the report -------------------------------------------------------------------------------------------

    def _answer_own(self, run: ServedRun, path: str, body: bytes, lane: Lane) -> None:
        request = (self.command, path)
        if path.startswith(f"{TOOLS_PATH}/") and self.command == "POST":
            return self._call_tool(run, unquote(path.removeprefix(f"{TOOLS_PATH}/")), body, lane)
        match request:
            case ("POST", p) if p == MCP_PATH:
                answer = run.tools.answer(parse(body), lane)
                return self.send_whole(202, b"", ()) if answer is None else self.send_json(200, answer)
            case (_, p) if p == MCP_PATH:  # no stream of the server's own, and no session to end
                return self.send_whole(405, b"", (("allow", "POST"),))
            case ("GET", p) if p == TOOLS_PATH:
                tools = run.tools.tools.values()
                rows = [{"name": tool.name, "description": tool.description, "parameters": tool.schema} for tool in tools]
                return self.send_json(200, {"tools": rows})
            case ("GET", p) if p == f"{_REPORT_PATH}.json":
                return self.send_json(200, json.loads(judged_to_json(run.report())))
            case ("GET", p) if p == _REPORT_PATH:
                page = _page(report_text(run.report()))
                return self.send_whole(200, page.encode(), (("content-type", "text/html; charset=utf-8"),))
            case _:
                return self.send_json(404, {"error": {"message": f"{self.command} {path}: the server has no such path"}})

    def _call_tool(self, run: ServedRun, name: str, body: bytes, lane: Lane) -> None:
        arguments = parse(body or b"{}")
        if not isinstance(arguments, dict):
            return self.send_json(400, {"error": {"message": "expected the arguments as a JSON object"}})
        try:
            return self.send_json(200, {"result": run.tools.call(name, as_object(arguments), lane)})
        except ToolFailure as error:
            return self.send_json(200, {"error": {"message": str(error)}})
        except (ReplayMiss, WireError) as miss:
            return self._refuse(str(miss))

    # -- answers --------------------------------------------------------------------------------------------------------

    def _refuse(self, message: str, dialect: str | None = None) -> None:
        """Refuse in the form that the client's provider gives its errors, else in the common one."""
        form = dialect_named(dialect)
        write = error_object if form is None else form.error_body
        self.send_json(MISS_STATUS, write(MISS_STATUS, message), _NO_RETRY)


def not_the_programs_own(url: str) -> bool:
    """Return whether SDKs send a request to this URL on their own; our seams do not record it either."""
    return adapter.is_telemetry(url) or credentials.is_look_up(url)


def call_of(request: Request, body: bytes, lane: Lane = ()) -> Call:
    """Return a request from outside as the call that a session answers."""
    subject = adapter.subject_of(request, body)
    return Call(
        kind=subject.kind,
        name=adapter.name_of(request.method, request.url),
        seam=SEAM,
        request=request,
        dialect=subject.dialect,
        provider=subject.provider,
        lane=lane,
    )


def answer_with(handler: LoopbackHandler, exchange: Exchange) -> None:
    """Write a recorded answer as it came, with its chunks and its end."""
    response = exchange.response
    if response.completion is Completion.NONE:  # the run got no answer: neither does this client
        return handler.hang_up()
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in adapter.served_headers(exchange)]
    status, reason = response.status or 200, adapter.served_reason(exchange)
    ended = adapter.end_of_stream(exchange) is None  # the HTTP body did, whatever happened to the answer in it
    if ended and len(response.chunks) <= 1:
        return handler.send_whole(status, response.body, headers, reason)
    handler.send_head(status, reason, headers)
    handler.begin_chunks()
    for chunk in response.chunks:
        handler.send_chunk(chunk.data)
    return handler.end_chunks() if ended else handler.hang_up()


def _is_model_list(run: ServedRun, url: str) -> bool:
    """Return whether a GET asks for the models, and the recording holds no answer to that."""
    path = urlsplit(url).path
    if not path.endswith(MODEL_LISTS):
        return False
    calls = (step.exchange.request for step in run.fixture.steps)
    return not any(call.method == "GET" and urlsplit(call.url).path == path for call in calls)


def _page(text: str) -> str:
    """Return the report as a page that loads itself again every two seconds."""
    return (
        "<!doctype html><meta charset=utf-8><meta name=color-scheme content='light dark'><meta http-equiv=refresh content=2>"
        f"<title>freezeframe replay serve</title><pre style='white-space:pre-wrap'>{html.escape(text)}</pre>"
    )
