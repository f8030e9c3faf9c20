"""The life of an HTTP call, in every HTTP seam. A seam has the parts that are specific to its library:

1. In a replay it requests an answer (`ask`), which waits for its turn and is served, or raised (`failure`,
`Schedule`, `end_of_stream`).
2. Else the call is recorded (`record`), made (`recording.while_sending`, which ends it if it raises) and answered.
3. The seam puts a watcher in front of the response, which notes the bytes that the application reads and how the reading ends.

A call is a model call if a wire dialect matches; other HTTP is recorded inside a recorded tool and for the
hosts in `record_hosts`.
"""

from __future__ import annotations

import asyncio
import functools
import http.client
import io
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from freezeframe._guard import guard
from freezeframe.context.current import current_place
from freezeframe.context.silence import is_suppressed
from freezeframe.seams.recorder import credentials, switch
from freezeframe.seams.recorder.body import Body
from freezeframe.seams.recorder.recording import EXCHANGE_SEQUENCE, Recorder, Recording, lane_of_call
from freezeframe.seams.recorder.responder import Call, Responder
from freezeframe.seams.unmarked.accesses import note_import
from freezeframe_schemas import values
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Headers, Kind, Request, Response
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.wire import find_dialect
from freezeframe_schemas.wire.registry import dialect_named


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Kind of an HTTP call."""

    kind: Kind
    dialect: str | None = None
    provider: str | None = None
    carries_mcp: bool = False
    """Sent by an MCP transport: the MCP seam has recorded it, and in a replay nothing is sent."""


def subject_of(request: Request, body: bytes | None) -> Subject:
    """Return whether this is a model call, and in which dialect. `body` is None if it is yet to be read, piece by piece."""
    match = find_dialect(request.method, request.url, request.headers, body or b"")
    if match is None:
        return Subject(kind=Kind.HTTP, carries_mcp=_carries_mcp(request.url, request.headers))
    return Subject(kind=Kind.MODEL, dialect=match.dialect.name, provider=match.provider)


def _carries_mcp(url: str, headers: Headers) -> bool:
    named = {name.lower(): value for name, value in headers}
    return (
        "mcp-protocol-version" in named
        or "mcp-session-id" in named
        or named.get("accept") in ("application/json, text/event-stream", "text/event-stream")
        or "/messages/?session_id=" in url  # its older transport, over SSE
    )


_TELEMETRY_PATHS: Final = ("/v1/traces/ingest", "/v1/traces", "/v1/metrics", "/v1/logs")
"""Paths to which SDKs send their own traces, from their own threads: the run does not depend on them."""


_OWN_CHECK: Final = "/v1/info"
"""Path at which logfire checks its token, with instrumentation suppressed."""


def is_telemetry(url: str) -> bool:
    """Return whether a call sends traces of an SDK, or checks for permission."""
    path = _place_of(url)[1]
    return path.endswith(_TELEMETRY_PATHS) or (path == _OWN_CHECK and _is_suppressed())


def is_recorded(subject: Subject, url: str, recorder: Recorder) -> bool:
    """Return whether to record a call. An unrecorded one that a replay will miss is counted on its run."""
    place = current_place()
    if (_is_suppressed() and not _is_watched(subject)) or is_telemetry(url) or credentials.is_look_up(url) or place.sending:
        return False
    note_import(GapKind.CONNECTION, "calls", host_of(url))
    if subject.kind is Kind.MODEL or place.inside_call:
        return True
    hosts, host = recorder.settings.record_hosts, host_of(url)
    if "*" in hosts or host in hosts:
        return True
    if not subject.carries_mcp:
        (recorder.root.unrecorded if place.run is None else place.run.unrecorded)[host] += 1
    return False


def record(seam: str, describe: Callable[[], tuple[Request, bytes | None]]) -> Recording | None:
    """Begin to record an HTTP call; None if it is not to be recorded.

    Args:
        seam: the seam's name.
        describe: returns the request without its body, and the body. None if it is sent piece by piece: the seam adds the
            pieces to ``request_body`` of the recording.
    """
    recorder = switch.recorder()
    if recorder is None:
        return None
    with guard(f"{seam}.request"):
        request, known = describe()
        subject = subject_of(request, known)
        if not is_recorded(subject, request.url, recorder):
            return None
        return recorder.start(
            kind=subject.kind,
            name=name_of(request.method, request.url),
            seam=seam,
            request=request,
            request_body=Body(recorder.settings.max_body_bytes, known),
            dialect=subject.dialect,
            provider=subject.provider,
        )
    return None


def _is_suppressed() -> bool:
    """Return whether the caller is an exporter or another instrumentation at work."""
    import opentelemetry.context as context

    return is_suppressed() or bool(context.get_value("suppress_http_instrumentation"))


def _is_watched(subject: Subject) -> bool:
    """Return whether this is a model call with its own logfire span: logfire suppresses all others meanwhile."""
    from opentelemetry import trace

    scope = getattr(trace.get_current_span(), "instrumentation_scope", None)
    return subject.kind is Kind.MODEL and scope is not None and scope.name.startswith("logfire.")


def url_of(scheme: str, host: str, port: int | None, target: str) -> str:
    """Return the URL that a connection requests, without the scheme's default port."""
    place = f"[{host}]" if ":" in host else host
    return f"{scheme}://{place}{'' if port in (None, {'http': 80, 'https': 443}.get(scheme)) else f':{port}'}{target}"


@lru_cache(maxsize=512)
def _place_of(url: str) -> tuple[str, str]:
    """Return host and path of a URL. Cached, because each call needs them several times."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.path


def host_of(url: str) -> str:
    """Return the host of a URL, without the port."""
    return _place_of(url)[0]


def name_of(method: str, url: str) -> str:
    """Return ``POST /v1/chat/completions``."""
    return f"{method} {_place_of(url)[1] or '/'}"


def shortest(*limits: float | None) -> float | None:
    """Return the shortest of several timeouts, None without any."""
    return min((limit for limit in limits if limit is not None), default=None)


def ask(responder: Responder, seam: str, request: Request, known: bytes | None) -> Exchange | None:
    """Return the recorded answer to an HTTP request with its body, None if it must be made for real.

    Args:
        responder: the responder that answers.
        seam: the seam's name.
        request: the request.
        known: the body as it was when the call was made: None if it is sent piece by piece, as in `record`.

    Raises:
        ReplayMiss: the recording has no answer.
    """
    if current_place().sending:
        return None
    if is_telemetry(request.url):
        return Exchange(kind=Kind.HTTP, name="telemetry", seam=seam, request=request, response=Response(status=204))
    look_up = credentials.answer_of(request)
    if look_up is not None:
        content_type, body = look_up
        response = Response(status=200, headers=(("content-type", content_type),), chunks=(Chunk(data=body),))
        return Exchange(kind=Kind.HTTP, name="credentials", seam=seam, request=request, response=response)
    subject = subject_of(request, known)
    call = Call(
        kind=subject.kind,
        name=name_of(request.method, request.url),
        seam=seam,
        request=request,
        dialect=subject.dialect,
        provider=subject.provider,
        lane=lane_of_call(),
        sequence=next(EXCHANGE_SEQUENCE),
    )
    return switch.respond(responder, call)


def take_chunk(answer: Exchange, chunk: Chunk) -> bytes:
    """Return a piece of a served body that the program reads now. The replay's clock moves to its arrival."""
    responder = switch.serving()
    if responder is not None:
        responder.reach(answer.start_time_unix_nano + chunk.offset_ns)
    return chunk.data


class Schedule:
    """The chunks of a served response, one after another; if the replay keeps the recorded times, each at its recorded time."""

    __slots__ = ("_answer", "_chunks", "_started_ns")

    def __init__(self, answer: Exchange) -> None:
        self._answer = answer
        self._chunks = answer.response.chunks
        self._started_ns = time.perf_counter_ns() if switch.is_real_time() else 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            if self._started_ns:
                time.sleep(self._left_s(chunk))
            yield take_chunk(self._answer, chunk)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            if self._started_ns:
                await asyncio.sleep(self._left_s(chunk))
            yield take_chunk(self._answer, chunk)

    async def stay_open(self) -> None:
        """Wait until the reader abandons the stream."""
        responder = switch.serving()
        if responder is not None:
            await responder.stay_open(self._answer)

    def _left_s(self, chunk: Chunk) -> float:
        return max(self._started_ns + chunk.offset_ns - time.perf_counter_ns(), 0) / 1e9


class ServedChunks:
    """The recorded chunks; then the end, or the recorded error."""

    def __init__(self, schedule: Schedule, end: BaseException | None) -> None:
        self._schedule = schedule
        self._end = end

    def __iter__(self) -> Iterator[bytes]:
        yield from self._schedule
        if self._end is not None:
            raise self._end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._schedule:
            yield chunk
        if isinstance(self._end, asyncio.CancelledError):
            await self._schedule.stay_open()
        if self._end is not None:
            raise self._end


_TRIED_AGAIN: Final = frozenset({408, 409, 429})
"""Statuses below 500 after which SDKs retry."""


def served_headers(answer: Exchange) -> list[tuple[bytes, bytes]]:
    """Return the recorded response headers that apply to a response built here.

    If a model's SDKs wait as long as the headers demand, those headers change so that a retry follows at once.
    Other SDKs put headers into the text of their errors.
    """
    headers = _recorded_headers(answer)
    status = answer.response.status or 200
    refused = status in _TRIED_AGAIN or status >= 500
    dialect = dialect_named(answer.dialect)
    if refused and dialect is not None and dialect.honours_retry_after and not switch.is_real_time():
        headers = [pair for pair in headers if pair[0].lower() != b"retry-after-ms"] + [(b"retry-after-ms", b"1")]
    return headers


def served_reason(answer: Exchange) -> str:
    """Return the words after the status: the recorded ones, or else the usual ones."""
    reason = answer.response.reason
    return http.client.responses.get(answer.response.status or 200, "") if reason is None else reason


def version_of(number: int | None) -> str | None:
    """Return the HTTP version in recorded form, from the libraries' form: None for 1.1, which is 11."""
    return {9: "0.9", 10: "1.0", 20: "2", 30: "3"}.get(number or 11)


def served_version(answer: Exchange) -> int:
    """Return the HTTP version in the libraries' form: 11 for 1.1."""
    return int(float(answer.response.version or "1.1") * 10)


def _recorded_headers(answer: Exchange) -> list[tuple[bytes, bytes]]:
    """Return all headers, because SDKs put them into the text of their errors, except a length that redaction made wrong."""
    length = str(len(answer.response.body))
    return [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in answer.response.headers
        if name.lower() != "content-length" or value == length
    ]


def recorded_error(answer: Exchange) -> BaseException | None:
    """Return the exception that the application saw, rebuilt."""
    return None if answer.error is None else values.decode_exception(answer.error)


def failure(answer: Exchange, otherwise: type[Exception]) -> BaseException | None:
    """Return the exception that the application saw of a call without a response; None if it was answered.

    Args:
        answer: the recorded exchange.
        otherwise: the replacement for an error that was not recorded.
    """
    if answer.response.completion is not Completion.NONE:
        return None
    return recorded_error(answer) or otherwise("recorded without a response and without its error")


def end_of_stream(answer: Exchange) -> BaseException | None:
    """Return the end of a stream after the last recorded chunk: nothing, the recorded error, or a miss."""
    match answer.response.completion:
        case Completion.BROKEN:
            return recorded_error(answer)  # None if the answer was cut and the client did not notice
        case Completion.CLOSED_EARLY:
            return ReplayMiss(
                f"{answer.name} (span {answer.span_id}): the application keeps reading; in the recording it closed the stream "
                f"after {len(answer.response.chunks)} chunks, so what follows was never received"
            )
        case _:
            return None


# -- Request bodies that are sent piece by piece, watched during sending -----------------------------------------------


def known_bytes(body: Any) -> bytes | None:
    """Return the body as bytes if it is already known; None if it is read piece by piece."""
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    return None


def read_whole(body: Any) -> bytes | None:
    """Return the body as bytes. A streamed one is read; if the call is sent after all, these bytes are sent."""
    if body is None or isinstance(body, str | bytes | bytearray | memoryview):
        return None if body is None else known_bytes(body)
    pieces = iter(functools.partial(body.read, 65536), None) if hasattr(body, "read") else iter(body)
    read: list[bytes] = []
    for piece in pieces:
        if not piece and hasattr(body, "read"):
            break
        read.append(piece.encode() if isinstance(piece, str) else bytes(piece))
    return b"".join(read)


class Upload:
    """An upload that is read piece by piece, watched. Everything except reading is the original's."""

    def __init__(self, inner: Any, body: Body, encoding: str = "utf-8") -> None:
        self._inner = inner
        self._body = body
        self._encoding = encoding
        self._encodes = isinstance(inner, io.TextIOBase)  # urllib3 makes the same check
        if hasattr(inner, "read"):
            self.read = self._read  # only if the original has it: urllib3 decides by it

    def __iter__(self) -> Generator[Any]:
        for piece in self._inner:
            self._see(piece)
            yield piece

    def _read(self, *args: Any) -> Any:
        piece = self._inner.read(*args)
        if self._encodes:
            piece = piece.encode(self._encoding)
        self._see(piece)
        return piece

    def _see(self, piece: Any) -> None:
        with guard("urllib3.upload"):
            self._body.add(piece.encode(self._encoding) if isinstance(piece, str) else bytes(piece))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


# -- aiohttp: a payload writes itself ------------------------------------------------------------------------------------


_UPLOAD: Final = "_freezeframe_upload"


def watch_payload(payload: Any, body: Body) -> None:
    """Make the payload also write into `body`. A redirect sends the same payload again."""
    if not hasattr(payload, _UPLOAD):
        for name in ("write", "write_with_length"):
            if hasattr(payload, name):
                setattr(payload, name, functools.partial(_write_watched, payload, getattr(payload, name)))
    setattr(payload, _UPLOAD, body)


async def _write_watched(payload: Any, write: Callable[..., Awaitable[None]], writer: Any, *args: Any) -> None:
    if not isinstance(writer, _WatchedWriter):  # one of the two calls the other
        writer = _WatchedWriter(writer, getattr(payload, _UPLOAD))
    await write(writer, *args)


class _WatchedWriter:
    """The writer of a request, watched. Everything else is the original's."""

    def __init__(self, inner: Any, body: Body) -> None:
        self._inner = inner
        self._body = body

    async def write(self, chunk: Any, *args: Any, **kwargs: Any) -> None:
        with guard("aiohttp.upload"):
            self._body.add(bytes(chunk))
        await self._inner.write(chunk, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
