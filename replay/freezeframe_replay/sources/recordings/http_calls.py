"""HTTP calls that another tool recorded -> the spans of a run; with their bytes, as our own seams write them. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

from freezeframe._cleaning import clean_headers, clean_request
from freezeframe.seams.http.adapter import is_telemetry, name_of, subject_of
from freezeframe.seams.recorder.credentials import is_look_up
from freezeframe.seams.recorder.enrich import describe_exchange, genai_attributes, span_name
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Headers, Response
from freezeframe_schemas.gaps import Gap, GapKind, gaps_to_json
from freezeframe_schemas.span import Resource, Scope, SpanKind, SpanRecord, StatusCode
from freezeframe_schemas.wire.document import as_object, dump, parse

SCOPE: Final = Scope(name=f"{genai.SCOPE}.import")
UNDATED: Final = 946_684_800_000_000_000
"""2000-01-01: the time if the recording has none. It is the same for every file, so that a copied file is stored once."""
_FIRST_ERROR_STATUS: Final = 400
_YEAR_2286_S: Final = 1e10
_OF_THE_TRANSFER: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """One recorded request and its response."""

    method: str
    url: str
    headers: Headers = ()
    body: bytes = b""
    body_omitted: str | None = None
    """Reason for a body that the recording left out."""
    status: int | None = None
    """None: no response was recorded."""
    reason: str | None = None
    version: str | None = None
    """``1.0``, ``2``; None for 1.1."""
    response_headers: Headers = ()
    response_body: bytes = b""
    response_omitted: str | None = None
    start_time_unix_nano: int = 0
    """0: not recorded."""
    took_ns: int = 0
    is_exact: bool = True
    """True if the bodies are the bytes that were sent. Of others only the content is kept, and no replay compares bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Properties shared by the spans of a file."""

    kind: str
    """The kind of the recording, ``vcr``."""
    name: str
    """The file's name without its suffix: the name of the run."""
    digest: str
    """SHA-256 of the file, in hex: the same file gives the same ids."""

    def id_of(self, *parts: object, digits: int) -> str:
        """Return an id made of the file and `parts`."""
        text = ":".join(map(str, (self.kind, self.digest, *parts)))
        return hashlib.sha256(text.encode()).hexdigest()[:digits]

    @property
    def resource(self) -> Resource:
        return Resource(attributes={genai.SERVICE_NAME: f"import-{self.kind}"})


def spans_of_calls(calls: Iterable[HttpCall], origin: Origin, *, lacks: str) -> Iterator[SpanRecord]:
    """Yield a span for each call, and finally the one around them: a file is one run. Nothing without calls.

    Left out, as our seams do: requests for credentials, and the SDKs' own telemetry.

    Args:
        calls: in the order in which they were made.
        origin: the file.
        lacks: parts that recordings of this kind do not have; a gap of the run.
    """
    trace_id, root_id = origin.id_of(digits=32), origin.id_of("run", digits=16)
    first = last = 0
    for number, call in enumerate(calls):
        if is_look_up(call.url) or is_telemetry(call.url):
            continue
        start = call.start_time_unix_nano or _date_of(call.response_headers) or last or UNDATED
        if not call.is_exact:
            start += number  # only their times give the spans' order, and these may be to the second
        end = start + max(call.took_ns, 0)
        first, last = min(first or start, start), max(last, end)
        exchange, provider = _exchange_of(call, number, origin.kind)
        if call.is_exact:
            name, attributes = describe_exchange({}, exchange, provider)
        else:
            attributes = genai_attributes(exchange, provider)
            name = span_name(exchange, attributes)
        failed = (call.status or _FIRST_ERROR_STATUS) >= _FIRST_ERROR_STATUS
        yield SpanRecord(
            trace_id=trace_id,
            span_id=origin.id_of(number, digits=16),
            parent_span_id=root_id,
            name=name,
            kind=SpanKind.CLIENT,
            start_time_unix_nano=start,
            end_time_unix_nano=end,
            attributes=attributes,
            status_code=StatusCode.ERROR if failed else StatusCode.UNSET,
            status_message=_failure(call) if failed and not call.is_exact else "",
            resource=origin.resource,
            scope=SCOPE,
        )
    if not last:
        return
    gap = Gap(kind=GapKind.UNSEEN, text=lacks)
    yield SpanRecord(
        trace_id=trace_id,
        span_id=root_id,
        name=origin.name,
        start_time_unix_nano=first,
        end_time_unix_nano=last,
        attributes={genai.ENTRY_GAPS: gaps_to_json([gap])},
        resource=origin.resource,
        scope=SCOPE,
    )


def checked_url(url: object) -> str:
    """Return an http URL.

    Raises:
        ValueError: it is not one.
    """
    if isinstance(url, str) and url.startswith(("http://", "https://")):
        urlsplit(url).port  # noqa: B018 - raises on what is not a URL
        return url
    raise ValueError("request: expected an http URL")


def iso_time(text: object, name: str) -> int:
    """Return a time in ISO 8601 in nanoseconds since 1970.

    Raises:
        ValueError: it is not one; the message begins with `name`.
    """
    try:
        found = datetime.fromisoformat(text if isinstance(text, str) else "")
    except ValueError:
        raise ValueError(f"{name}: expected a time in ISO 8601") from None
    moment = found if found.tzinfo else found.replace(tzinfo=UTC)
    return max((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000, 0)


def moment(value: object, name: str) -> int:
    """Return a time, which is seconds since 1970 or in ISO 8601, in nanoseconds since 1970; raises as `iso_time`."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _YEAR_2286_S:
        return int(value * 1e6) * 1000
    return iso_time(value, name)


def stored_headers(headers: Headers, body: bytes, *, decoded: bool | None = None) -> Headers:
    """Return the headers that fit a body as it is stored.

    Args:
        headers: as recorded.
        body: as stored.
        decoded: whether its content-encoding was undone; None to decide by the bytes, since compressed ones are not UTF-8.
    """
    is_decoded = _is_text(body) if decoded is None else decoded
    names = {name.lower() for name, _ in headers}
    drop = _OF_THE_TRANSFER if is_decoded and "content-encoding" in names else frozenset({"transfer-encoding"})
    length = str(len(body))
    return tuple(
        (name, value)
        for name, value in headers
        if name.lower() not in drop and (name.lower() != "content-length" or value == length)
    )


def _exchange_of(call: HttpCall, number: int, seam: str) -> tuple[Exchange, str | None]:
    request = replace(clean_request(call.method, call.url, call.headers, call.body), omitted=call.body_omitted)
    subject = subject_of(request, call.body)
    exchange = Exchange(
        kind=subject.kind,
        name=name_of(call.method, request.url),
        seam=seam,
        dialect=subject.dialect,
        sequence=number,
        request=request,
        response=Response(
            status=call.status,
            reason=None if (call.status, call.reason) == (200, "OK") else call.reason or None,
            version=call.version,
            headers=clean_headers(call.response_headers),
            chunks=(Chunk(data=call.response_body),) if call.response_body else (),
            completion=Completion.NONE if call.status is None else Completion.COMPLETE,
            omitted=call.response_omitted,
        ),
    )
    return exchange, subject.provider


def _failure(call: HttpCall) -> str:
    """Return the provider's error text of a failed call, with which a reconstruction answers."""
    body = parse(call.response_body)
    error = as_object(body).get("error") or body
    message = as_object(error).get("message") or (dump(error) if error else "no answer")
    return f"{call.status or ''} {message}".strip()


def _date_of(headers: Headers) -> int:
    """Return the time of the server's answer, in nanoseconds; 0 if unknown."""
    text = next((value for name, value in headers if name.lower() == "date"), "")
    try:
        return max(int(parsedate_to_datetime(text).timestamp()), 0) * 1_000_000_000
    except (ValueError, TypeError, OverflowError):
        return 0


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
