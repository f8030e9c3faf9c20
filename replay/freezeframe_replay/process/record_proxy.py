"""The reverse proxy of `freezeframe run --proxy`: it sends each request on, returns the answer as it arrives, and records both.

ANY  /-/at/PROVIDER/..  a call of this provider; base URLs point here
ANY  /-/to/URL          any other server's; also for a client that uses us as its proxy
POST /-/mcp-calls       what a wrapped MCP server was asked and answered
POST /v1/traces         OTLP: the program's own spans; its logs and metrics are accepted and dropped

All paths are below the token of the server (`loopback_http`), so that no other program can write into the recording.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from freezeframe._cleaning import clean_headers, clean_request
from freezeframe.seams.http import adapter as http_seam
from freezeframe.seams.recorder.body import Body
from freezeframe_replay.process.loopback_http import (
    OF_THE_CONNECTION,
    TO_PREFIX,
    LoopbackHandler,
    LoopbackServer,
    listening,
    proxy_variables,
)
from freezeframe_replay.process.mcp_stdio import CALLS_VARIABLE
from freezeframe_replay.process.program_recorder import PROXIED, SEAM, ProgramRecorder
from freezeframe_replay.process.served_run import AT_PREFIX, HTTP_VARIABLE
from freezeframe_replay.process.session_authority import SessionAuthority
from freezeframe_replay.process.wire_server import LANE_HEADER, answer_with, not_the_programs_own
from freezeframe_schemas import values
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Kind, Request, Response, parse_lane
from freezeframe_schemas.otlp.decode import NO_LIMITS, decode_traces
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.wire.document import as_integer, as_object, as_text, dump, parse
from freezeframe_schemas.wire.encoding import decode_body
from freezeframe_schemas.wire.registry import NEEDS_ITS_HOST, PROVIDERS, find_dialect, find_provider

_PIECE_BYTES: Final = 64 * 1024
_TIMEOUT_S: Final = 600.0
_STALE: Final = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)


class Forwarder:
    """Sends requests on. It belongs to one thread, that of a client's connection."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[http.client.HTTPConnection, http.client.HTTPResponse]] = {}
        """By origin: the connection, and the last response over it."""

    def send(self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes) -> http.client.HTTPResponse:
        """Return the response, whose body is yet to be read.

        Raises:
            OSError: the server cannot be reached.
            http.client.HTTPException: it does not speak HTTP.
        """
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        connection, last = self._kept.pop(origin, None) or (_connect(url), None)
        if last is not None and not last.isclosed():  # what is left of its body would be read as the next response
            connection.close()
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            response = _ask(connection, method, target, parts.netloc, headers, body)
        except _STALE:
            connection.close()
            if last is None:
                raise
            connection = _connect(url)  # the server had closed the connection that we kept
            response = _ask(connection, method, target, parts.netloc, headers, body)
        self._kept[origin] = (connection, response)
        return response

    def close(self) -> None:
        for connection, _ in self._kept.values():
            connection.close()


def pieces_of(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the body as it arrives.

    Raises:
        OSError: the server closed the connection.
        http.client.HTTPException: it ended the body before its announced end.
    """
    while piece := response.read1(_PIECE_BYTES):
        yield piece
    if response.length:  # read1() takes the end of the connection for the end of the body
        raise http.client.IncompleteRead(b"", response.length)
    # read1() of CPython 3.11.7 and 3.12.1 leaves a response open at its length, so that no other could come
    response.close()


def _ask(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    host: str,
    headers: Iterable[tuple[str, str]],
    body: bytes,
) -> http.client.HTTPResponse:
    connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
    connection.putheader("Host", host.rpartition("@")[2])
    for name, value in headers:
        if name.lower() not in {*OF_THE_CONNECTION, "host"}:
            connection.putheader(name, value)
    if body or method in ("POST", "PUT", "PATCH"):
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body or None)
    return connection.getresponse()


def _connect(url: str) -> http.client.HTTPConnection:
    """Return a connection to a server, through the proxy that the environment names for it."""
    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    proxy = None if proxy_bypass(host) else getproxies().get(parts.scheme)
    context = ssl.create_default_context() if secure else None
    if proxy is None or not secure:  # a plain one would need the whole URL in each request
        return _open(host, parts.port, context)
    through = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    connection = _open(through.hostname or "", through.port, context)
    connection.set_tunnel(host, parts.port)
    return connection


def _open(host: str, port: int | None, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
    if context is None:
        return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=context)


MCP_CALLS_PATH: Final = "/-/mcp-calls"
_OTLP_PATHS: Final = ("/v1/logs", "/v1/metrics")

Known = Callable[[Request], "Exchange | None"]
"""Returns the answer of an earlier run to a request, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstreams:
    """Providers' addresses by name, and the variables that point a program to the proxy instead."""

    origins: Mapping[str, str]
    variables: Mapping[str, str]


def upstreams_of(environment: Mapping[str, str], url: str) -> Upstreams:
    """Return the destinations of a program's calls with this environment, and variables that point them to the proxy at `url`.

    A provider without a known address is left alone: AWS signs each request for its host.
    """
    origins: dict[str, str] = {}
    variables: dict[str, str] = {}
    for row in PROVIDERS:
        own = next((text for name, _ in row.bases if (text := environment.get(name))), "")
        parts = urlsplit(own if "://" in own or not own else f"http://{own}")
        if not (own or row.origin):
            continue
        origins[row.name] = f"{parts.scheme}://{parts.netloc}" if own else row.origin
        for name, path in row.bases:
            variables[name] = f"{url}{AT_PREFIX}{row.name}{parts.path.rstrip('/') if own else path}"
    return Upstreams(origins=origins, variables=variables)


@contextmanager
def recording_proxy(
    recorder: ProgramRecorder,
    environment: Mapping[str, str],
    *,
    limit_bytes: int,
    known: Known | None = None,
    authority: SessionAuthority | None = None,
) -> Generator[dict[str, str]]:
    """Run the proxy while the block runs; yields the variables that point a program with this environment to it.

    Args:
        recorder: records the calls.
        environment: the program's own variables.
        limit_bytes: size above which a body is not kept.
        known: answers a request without its server.
        authority: makes the program use us as its proxy, and certifies the servers that it calls over https.
    """
    server = _Server(0, _Handler, authority=authority)
    server.recorder, server.limit_bytes, server.known = recorder, limit_bytes, known
    with listening(server, "freezeframe-proxy") as url:
        upstreams = upstreams_of(environment, url)
        server.origins = upstreams.origins
        past_us = ",".join(filter(None, ["127.0.0.1,localhost", environment.get("NO_PROXY", "")]))
        yield {
            **upstreams.variables,
            **({} if authority is None else proxy_variables(url, authority)),
            "NO_PROXY": past_us,
            "no_proxy": past_us,
            "TRACEPARENT": f"00-{recorder.trace_id}-{recorder.entry_id}-01",
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            CALLS_VARIABLE: f"{url}{MCP_CALLS_PATH}",
            HTTP_VARIABLE: f"{url}{TO_PREFIX}",
        }


class _Server(LoopbackServer):
    recorder: ProgramRecorder
    origins: Mapping[str, str]
    limit_bytes: int
    known: Known | None


class _Handler(LoopbackHandler):
    @property
    def _proxy(self) -> _Server:
        assert isinstance(self.server, _Server)
        return self.server

    def setup(self) -> None:
        """Begin a connection."""
        super().setup()
        self._forwarder = Forwarder()
        self._slot: int | None = None

    def finish(self) -> None:
        """End a connection."""
        self._forwarder.close()
        super().finish()

    def handle_request(self, body: bytes) -> None:
        """Forward a request, or accept the program's reports."""
        path = "" if self.is_proxied else urlsplit(self.target).path
        try:
            if self.command == "POST" and path == "/v1/traces":
                return self._hear(body)
            if self.command == "POST" and path == MCP_CALLS_PATH:
                self._proxy.recorder.add(mcp_call_of(body))
                return self.send_json(200, {})
        except WireError as error:
            return self.send_json(400, {"error": {"message": str(error)}})
        if path in _OTLP_PATHS:
            return self.send_json(200, {})
        url = self._url()
        if url is None:
            return self.send_json(404, {"error": {"message": f"{self.command} {path}: names no provider and no URL"}})
        if self.is_proxied and not_the_programs_own(url):
            self._forward(url, body)
            return None
        self._slot = self._proxy.recorder.begin()
        try:
            return self._pass(url, body, self._slot)
        finally:
            self._free_slot()

    def _free_slot(self) -> None:
        """End the call: before the program can see its end and begin the next one, which would seem to overlap with it."""
        slot, self._slot = self._slot, None
        if slot is not None:
            self._proxy.recorder.end(slot)

    def hang_up(self) -> None:
        """Close the connection in the middle of an answer."""
        self._free_slot()
        super().hang_up()

    def _url(self) -> str | None:
        if self.target.startswith(AT_PREFIX):
            name, _, rest = self.target.removeprefix(AT_PREFIX).partition("/")
            origin = self._proxy.origins.get(name)
            return None if origin is None else f"{origin}/{rest}"
        url = self.url_of(self.target)
        return None if urlsplit(url).netloc == self.headers.get("host") and not self.target.startswith("http") else url

    def _meant(self, url: str) -> str:
        """Return the URL that is recorded: at the provider's own address, if its paths mean nothing at the one of `url`.

        A replay finds the call there, too.
        """
        name, _, rest = self.target.removeprefix(AT_PREFIX).partition("/")
        if not self.target.startswith(AT_PREFIX) or name not in NEEDS_ITS_HOST or find_dialect(self.command, url) is not None:
            return url
        own = f"{find_provider(name).origin}/{rest}"
        return url if find_dialect(self.command, own) is None else own

    def _hear(self, body: bytes) -> None:
        data = decode_body(body, tuple(self.headers.items()))
        if "json" in self.headers.get("content-type", ""):
            self._proxy.recorder.hear(spans_from_otlp_json(json.loads(data)))
            return self.send_json(200, {})
        self._proxy.recorder.hear(decode_traces(data, NO_LIMITS).spans)
        return self.send_whole(200, b"", (("content-type", "application/x-protobuf"),))

    def _pass(self, url: str, body: bytes, slot: int) -> None:
        """Send a request on; record it once its answer has ended in any way."""
        recorder = self._proxy.recorder
        headers = [pair for pair in self.headers.items() if pair[0].lower() != "proxy-authorization"]  # our token
        request = clean_request(self.command, self._meant(url), headers)
        subject = http_seam.subject_of(request, body)
        request_body = Body(self._proxy.limit_bytes, body)
        lane = self.headers.get(LANE_HEADER)
        call = Exchange(
            kind=subject.kind,
            name=http_seam.name_of(self.command, request.url),
            seam=PROXIED if self.is_proxied else SEAM,
            dialect=subject.dialect,
            lane=recorder.lane(slot) if lane is None else parse_lane(lane),
            request=replace(request, body=b"".join(request_body.pieces), omitted=request_body.omitted),
            start_time_unix_nano=time.time_ns(),
        )
        known = self._proxy.known if subject.kind is Kind.MODEL else None
        if known is not None and (answer := known(replace(call.request, body=body))) is not None:
            recorder.note_cached()
            return answer_with(self, answer)
        response, error = self._forward(url, body)
        ended = replace(call, response=response, end_time_unix_nano=time.time_ns())
        if error is not None:
            ended = replace(ended, error=values.encode_exception(error))
        return recorder.add(ended, subject.provider, parent=_parent_of(self.headers.get("traceparent", "")))

    def _forward(self, url: str, body: bytes) -> tuple[Response, Exception | None]:
        """Return the response as the program got it, and the error that cut it short, if any."""
        started_ns = time.perf_counter_ns()
        headers = [pair for pair in self.headers.items() if not pair[0].lower().startswith("x-freezeframe-")]
        try:
            answer = self._forwarder.send(self.command, url, headers, body)
        except (OSError, http.client.HTTPException) as error:
            self.hang_up()
            return Response(completion=Completion.NONE), error
        kept = Body(self._proxy.limit_bytes)
        completion, error = self._hand_back(answer, lambda piece: kept.add(piece, time.perf_counter_ns() - started_ns))
        chunks = zip(kept.pieces, kept.offsets_ns, strict=True)
        response = Response(
            status=answer.status,
            reason=None if (answer.status, answer.reason) == (200, "OK") else answer.reason,
            version=http_seam.version_of(answer.version),
            headers=clean_headers(answer.getheaders()),
            chunks=tuple(Chunk(data=data, offset_ns=offset_ns) for data, offset_ns in chunks),
            completion=completion,
            omitted=kept.omitted,
        )
        return response, error

    def _hand_back(
        self, answer: http.client.HTTPResponse, keep: Callable[[bytes], None]
    ) -> tuple[Completion, Exception | None]:
        """Write the answer to the program piece by piece; return its completion."""
        length, has_body = answer.getheader("content-length"), answer.length != 0
        self.send_head(answer.status, answer.reason, answer.getheaders())
        if length is not None or not has_body:
            self.send_header("content-length", length or "0")
            self.end_headers()
        else:
            self.begin_chunks()
        try:
            for piece in pieces_of(answer):
                keep(piece)
                if answer.length == 0:  # it was the last one
                    self._free_slot()
                try:
                    self.wfile.write(piece) if length is not None else self.send_chunk(piece)
                    self.wfile.flush()
                except OSError:  # the program stopped reading
                    self.close_connection = True
                    answer.close()
                    self._forwarder.close()
                    return Completion.CLOSED_EARLY, None
        except (OSError, http.client.HTTPException) as error:
            self.hang_up()
            return Completion.BROKEN, error
        if length is None and has_body:
            self.end_chunks()  # the program sees this end when the call is recorded
        return Completion.COMPLETE, None


def mcp_call_of(body: bytes) -> Exchange:
    """Return the recorded form of a wrapped MCP server's request and answer.

    Raises:
        WireError: the body does not hold these.
    """
    fields = as_object(parse(body))
    method, answer = as_text(fields.get("method")), as_object(fields.get("answer"))
    if not method or not answer:
        raise WireError("expected method and answer of an MCP call")
    params = {name: item for name, item in as_object(fields.get("params")).items() if name != "_meta"}
    failure = as_object(answer.get("error"))
    text = dump(answer.get("result")).encode()
    return Exchange(
        kind=Kind.MCP,
        name=method,
        seam="mcp",
        request=Request(body=dump({"args": [], "kwargs": params}).encode()),
        response=Response(completion=Completion.NONE) if failure else Response(chunks=(Chunk(data=text),)),
        error=values.encode_exception(RuntimeError(as_text(failure.get("message")) or "failed")) if failure else None,
        start_time_unix_nano=as_integer(fields.get("start")) or time.time_ns(),
        end_time_unix_nano=as_integer(fields.get("end")) or time.time_ns(),
    )


def _parent_of(traceparent: str) -> str:
    """Return the id of the program's own span that a request was made in; empty if it does not name one."""
    parts = traceparent.split("-")
    return parts[2] if len(parts) == 4 and len(parts[2]) == 16 else ""
