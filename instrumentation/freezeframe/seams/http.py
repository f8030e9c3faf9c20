"""What the HTTP seams share: which calls are recorded, how a request is written down, and what a replay lets through.

A call is a model call where a wire dialect says so; other HTTP is recorded inside a recorded tool and for hosts that were
asked for. Secrets in headers and URLs are replaced before anything is kept.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from freezeframe._context import current_place
from freezeframe.seams import _port, credentials
from freezeframe.seams.recording import EXCHANGE_SEQUENCE, Body, Recorder, Recording, lane_of_call
from freezeframe_schemas import values
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import SECRET_REMOVED, Chunk, Completion, Exchange, Headers, Kind, Request, Response
from freezeframe_schemas.wire import find_dialect
from freezeframe_schemas.wire.registry import dialect_named

_SECRET_HEADER: Final = re.compile(
    r"^(?:(?:proxy-)?authorization|cookie2?|set-cookie2?|(?:.*[-_])?(?:api[-_]?key|key|token|secret|password|signature|auth))$",
    re.IGNORECASE,
)
_COOKIE_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_COOKIE_ATTRIBUTE: Final = re.compile(
    r"(?:path|domain|max-age|samesite)=[^=]{0,200}|expires=(?P<date>.{0,40})|secure|httponly|partitioned", re.IGNORECASE
)
_SECRET_QUERY: Final = re.compile(
    r"(?<![^?&])((?:[\w.-]*[-_.])?(?:api[-_]?key|key|token|sig|signature|secret|password|credential|code)=)[^&#]*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What an HTTP call is to us."""

    kind: Kind
    dialect: str | None = None
    provider: str | None = None
    carries_mcp: bool = False
    """What an MCP transport sends: the MCP seam has recorded it, and in a replay nothing is sent."""


def subject_of(request: Request, body: bytes | None) -> Subject:
    """Return whether this is a model call, and of which dialect. `body` is None if it is still to be read, piece by piece."""
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
"""Where SDKs send their own traces, from their own threads: no part of what the run depended on."""


_OWN_CHECK: Final = "/v1/info"
"""Where logfire asks whose token it was given, with instrumentation suppressed."""


def is_telemetry(url: str) -> bool:
    """Return whether a call sends traces of an SDK, or asks whether it may."""
    path = urlsplit(url).path
    return path.endswith(_TELEMETRY_PATHS) or (path == _OWN_CHECK and _is_suppressed())


def is_recorded(subject: Subject, url: str, recorder: Recorder) -> bool:
    """Return whether a call is one that we record. One that a replay will miss for lack of it is counted on its run."""
    place = current_place()
    if (_is_suppressed() and not _is_watched(subject)) or is_telemetry(url) or credentials.is_look_up(url) or place.sending:
        return False
    if subject.kind is Kind.MODEL or place.inside_call:
        return True
    hosts, host = recorder.settings.record_hosts, host_of(url)
    if "*" in hosts or host in hosts:
        return True
    if not subject.carries_mcp:
        (recorder.root.unrecorded if place.run is None else place.run.unrecorded)[host] += 1
    return False


def start(recorder: Recorder, seam: str, subject: Subject, request: Request, body: Body) -> Recording | None:
    """Open the recording of an HTTP call."""
    return recorder.start(
        kind=subject.kind,
        name=name_of(request.method, request.url),
        seam=seam,
        request=request,
        request_body=body,
        dialect=subject.dialect,
        provider=subject.provider,
    )


def _is_suppressed() -> bool:
    """Return whether the caller is an exporter or another instrumentation at work."""
    from opentelemetry import context

    return bool(context.get_value("suppress_instrumentation") or context.get_value("suppress_http_instrumentation"))


def _is_watched(subject: Subject) -> bool:
    """Return whether this is a model call that logfire has its own span for: it suppresses all others for as long."""
    from opentelemetry import trace

    scope = getattr(trace.get_current_span(), "instrumentation_scope", None)
    return subject.kind is Kind.MODEL and scope is not None and scope.name.startswith("logfire.")


def clean_headers(pairs: Iterable[tuple[bytes | str, bytes | str]]) -> Headers:
    """Return headers as text in wire order, secrets replaced. Cookies keep their names: programs look which they have."""
    cleaned: list[tuple[str, str]] = []
    for name, value in pairs:
        text, secret = _known_header(name)
        known = value.decode("latin-1") if isinstance(value, bytes) else value
        cleaned.append((text, known if secret is None else secret(known)))
    return tuple(cleaned)


def _clean_cookies(value: str) -> str:
    """Return ``session=...; theme=...`` of a request without the values."""
    return "; ".join(_clean_cookie(pair) for pair in value.split(";"))


def _clean_cookie(pair: str) -> str:
    name, equals, _ = pair.strip().partition("=")
    return f"{name}={SECRET_REMOVED}" if equals and _COOKIE_NAME.fullmatch(name) else SECRET_REMOVED


def _clean_set_cookie(value: str) -> str:
    """Return ``session=...; Path=/`` of an answer without the value.

    A date in the future is left out, too: it would have passed when the replay comes, and the cookie with it.
    """
    pair, *attributes = value.split(";")
    known = (found for attribute in attributes if (found := _COOKIE_ATTRIBUTE.fullmatch(attribute.strip())))
    return "; ".join([_clean_cookie(pair), *(found[0] for found in known if not found["date"] or _is_past(found["date"]))])


def _is_past(date: str) -> bool:
    try:
        return parsedate_to_datetime(date).timestamp() < time.time()
    except (ValueError, OverflowError):
        return False


def _removed(value: str) -> str:
    del value
    return SECRET_REMOVED


@lru_cache(maxsize=1024)
def _known_header(name: bytes | str) -> tuple[str, Callable[[str], str] | None]:
    """Return a header's name as text, and what takes the secret out of its value, if it is one."""
    text = name.decode("latin-1") if isinstance(name, bytes) else name
    if _SECRET_HEADER.match(text) is None:
        return text, None
    return text, _COOKIE_HEADERS.get(text.lower(), _removed)


_COOKIE_HEADERS: Final = {"cookie": _clean_cookies, "set-cookie": _clean_set_cookie}


def clean_url(url: str) -> str:
    """Return the URL without passwords and keys."""
    if "@" in url:
        parts = urlsplit(url)
        url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    head, mark, query = url.partition("?")
    return head + mark + _SECRET_QUERY.sub(rf"\g<1>{SECRET_REMOVED}", query) if mark else url


def host_of(url: str) -> str:
    """Return the host of a URL, without the port."""
    return urlsplit(url).hostname or ""


def name_of(method: str, url: str) -> str:
    """Return ``POST /v1/chat/completions``."""
    return f"{method} {urlsplit(url).path or '/'}"


def ask(responder: _port.Responder, *, seam: str, subject: Subject, request: Request) -> Exchange | None:
    """Return the recorded answer to an HTTP request, None if it is to be made for real.

    Raises:
        ReplayMiss: there is none.
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
    return _port.respond(
        responder,
        _port.Call(
            kind=subject.kind,
            name=name_of(request.method, request.url),
            seam=seam,
            request=request,
            dialect=subject.dialect,
            provider=subject.provider,
            lane=lane_of_call(),
            sequence=next(EXCHANGE_SEQUENCE),
        ),
    )


class Schedule:
    """The chunks of a served response, one after another; if the replay keeps the recorded times, each when it came."""

    __slots__ = ("_answer", "_chunks", "_started_ns")

    def __init__(self, answer: Exchange) -> None:
        self._answer = answer
        self._chunks = answer.response.chunks
        self._started_ns = time.perf_counter_ns() if _port.is_real_time() else 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            if self._started_ns:
                time.sleep(self._left_s(chunk))
            yield chunk.data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            if self._started_ns:
                await asyncio.sleep(self._left_s(chunk))
            yield chunk.data

    async def stay_open(self) -> None:
        """Wait until the reader gives the stream up."""
        responder = _port.serving()
        if responder is not None:
            await responder.stay_open(self._answer)

    def _left_s(self, chunk: Chunk) -> float:
        return max(self._started_ns + chunk.offset_ns - time.perf_counter_ns(), 0) / 1e9


_TRIED_AGAIN: Final = frozenset({408, 409, 429})
"""Statuses below 500 after which SDKs try again."""


def served_headers(answer: Exchange) -> list[tuple[bytes, bytes]]:
    """Return the recorded response headers that hold for a response built here.

    A model that refused for the moment is asked again at once, if its SDKs wait as they are told. Others put headers into the
    text of their errors.
    """
    headers = _recorded_headers(answer)
    status = answer.response.status or 200
    refused = status in _TRIED_AGAIN or status >= 500
    dialect = dialect_named(answer.dialect)
    if refused and dialect is not None and dialect.waits_as_told and not _port.is_real_time():
        headers = [pair for pair in headers if pair[0].lower() != b"retry-after-ms"] + [(b"retry-after-ms", b"1")]
    return headers


def served_reason(answer: Exchange) -> str:
    """Return the words after the status: the recorded ones, or else the usual ones."""
    reason = answer.response.reason
    return http.client.responses.get(answer.response.status or 200, "") if reason is None else reason


def version_of(number: int | None) -> str | None:
    """Return the HTTP version as it is recorded, given as the libraries have it: None for 1.1, which is 11."""
    return {9: "0.9", 10: "1.0", 20: "2", 30: "3"}.get(number or 11)


def served_version(answer: Exchange) -> int:
    """Return the HTTP version as the libraries have it: 11 for 1.1."""
    return int(float(answer.response.version or "1.1") * 10)


def _recorded_headers(answer: Exchange) -> list[tuple[bytes, bytes]]:
    """Return all of them: SDKs put them into the text of their errors. But a length that redaction has made wrong."""
    length = str(len(answer.response.body))
    return [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in answer.response.headers
        if name.lower() != "content-length" or value == length
    ]


def recorded_error(answer: Exchange) -> BaseException | None:
    """Return the exception that the application saw, rebuilt."""
    return None if answer.error is None else values.decode_exception(answer.error)


def end_of_stream(answer: Exchange) -> BaseException | None:
    """Return what a reader meets after the last recorded chunk: nothing, the recorded error, or a miss."""
    match answer.response.completion:
        case Completion.BROKEN:
            return recorded_error(answer)  # none if the answer was cut, and the client noticed nothing
        case Completion.CLOSED_EARLY:
            return ReplayMiss(
                f"{answer.name} (span {answer.span_id}): the application reads on; in the recording it closed the stream "
                f"after {len(answer.response.chunks)} chunks, so what follows was never received"
            )
        case _:
            return None
