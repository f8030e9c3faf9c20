"""Exchange: one request and its response at one seam, byte-exact, and its form as span attributes.

An exchange span is an ordinary OTel span that carries `genai.EXCHANGE_KIND`. Writer (`exchange_attributes`) and reader
(`exchange_from_span`) are next to each other; a property test checks the round trip.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeVar

import orjson

from freezeframe_schemas import genai
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import AttributeValue, SpanRecord

_E = TypeVar("_E", bound=StrEnum)

Headers = tuple[tuple[str, str], ...]
Lane = tuple[int, ...]
"""Spawn ordinals from the entry point down to the task or thread; ``()`` is the entry point's lane."""


Timeouts = tuple[tuple[str, float | None], ...]
"""Times that a client waits to ``connect``, ``write``, ``read``, for a connection (``pool``), or in ``total``, in seconds; None
is for ever.
"""

SECRET_REMOVED: Final = "freezeframe-removed"  # noqa: S105 - a placeholder, not a secret
"""Replaces a secret: header values, keys in URLs, environment variables. Secrets are never recorded."""


RECONSTRUCTED: Final = "reconstructed"
"""Seam of a call that another instrumentation recorded: its bodies hold meaning, and a replay composes the bytes on demand."""


class Kind(StrEnum):
    """Peer on the other side of the seam."""

    MODEL = "model"
    TOOL = "tool"
    RETRIEVAL = "retrieval"
    MCP = "mcp"
    HTTP = "http"
    DATABASE = "database"
    FILE = "file"


class Completion(StrEnum):
    """End of the response, as the application saw it."""

    COMPLETE = "complete"
    """The answer reached the end that its protocol defines, or else the HTTP body reached its end."""
    CLOSED_EARLY = "closed_early"
    """The application stopped reading before the answer's end; the chunks are those it took."""
    BROKEN = "broken"
    """The other side stopped midway; `Exchange.error` holds what was raised after the last chunk.

    Without an error, the client noticed nothing: the HTTP body ended, but the answer in it did not.
    """
    NONE = "none"
    """No response at all: connect error, timeout, or a function that raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request of the application.

    For HTTP `method`, `url`, `headers` and the wire body; for functions (tool, retrieval, MCP) the method and URL are empty and
    the body is tagged JSON (`values`), ``{"args": [...], "kwargs": {...}}`` or the arguments by name. Defaults that the call
    left to the function are next to them, ``"defaults": {...}``, and so are the settings of a framework's
    retriever or tool, ``"settings": {...}``.
    """

    body: bytes = b""
    method: str = ""
    url: str = ""
    headers: Headers = ()
    omitted: str | None = None
    """Reason for a missing body."""
    timeouts: Timeouts | None = None
    """The client's, if it exposes them. Not part of the request key, and kept only for calls that raised."""

    def with_body(self, body: bytes, omitted: str | None) -> Request:
        """Return the request with its body. Built by hand: `dataclasses.replace` takes three times as long."""
        return Request(
            body=body, method=self.method, url=self.url, headers=self.headers, omitted=omitted, timeouts=self.timeouts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a response body as it arrived."""

    data: bytes
    offset_ns: int = 0
    """Nanoseconds from the start of the exchange."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """Response to the application. `status` is None for functions."""

    chunks: tuple[Chunk, ...] = ()
    status: int | None = None
    reason: str | None = None
    """Reason phrase after the status, which clients show in errors. None for ``200 OK``, and without a phrase (HTTP/2)."""
    version: str | None = None
    """For HTTP: ``1.0``, ``2``. None for 1.1, and for functions."""
    headers: Headers = ()
    completion: Completion = Completion.COMPLETE
    omitted: str | None = None

    @property
    def body(self) -> bytes:
        return b"".join(chunk.data for chunk in self.chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCode:
    """The application's code that answers a call of a function. A replay does not run it."""

    digest: str = ""
    """Digest of its source (``source:...``), else of its byte code, which depends on the Python version (``cpython-311:...``).

    Empty if the code could not be read.
    """
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """Return ``shop.py:17``."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One call at one seam."""

    kind: Kind
    name: str
    """Tool or retriever name, MCP method, or ``POST /v1/chat/completions``."""
    seam: str
    request: Request
    response: Response = field(default_factory=Response)
    error: str | None = None
    """Tagged JSON of the exception that the application saw."""
    dialect: str | None = None
    lane: Lane = ()
    sequence: int = 0
    span_id: str = ""
    parent_span_id: str = ""
    start_time_unix_nano: int = 0
    end_time_unix_nano: int = 0
    call_id: str | None = None
    """The model's id of the tool call that this answers, if known."""
    code: FunctionCode | None = None
    """For a call of the application's own function, that function."""


_LONG_TEXT: Final = 64 * 1024
BASE64: Final = "base64"
_ENCODINGS: Final = {
    genai.REQUEST_BODY: genai.REQUEST_BODY_ENCODING,
    genai.RESPONSE_BODY: genai.RESPONSE_BODY_ENCODING,
}


def without_bodies(span: SpanRecord, why: str) -> SpanRecord:
    """Return the span with its bodies left out and `why` in their place, and without other texts over 64 KiB.

    For a receiver that refuses a span as large as this one. A span without bodies or long texts is returned unchanged.
    """
    left_out: dict[str, AttributeValue] = {}
    for body_name, omitted_name in (
        (genai.REQUEST_BODY, genai.REQUEST_BODY_OMITTED),
        (genai.RESPONSE_BODY, genai.RESPONSE_BODY_OMITTED),
    ):
        if body := _body(span, body_name):
            digest = hashlib.sha256(body).hexdigest()
            left_out |= {body_name: "", omitted_name: f"{why}: {len(body)} bytes, sha256 {digest}"}
    if genai.RESPONSE_BODY in left_out:
        left_out |= {genai.RESPONSE_CHUNK_SIZES: (), genai.RESPONSE_CHUNK_OFFSETS_NS: ()}
    marks = {_ENCODINGS[name] for name in left_out if name in _ENCODINGS}
    lean = {name: value for name, value in {**span.attributes, **left_out}.items() if name not in marks}
    long = [name for name, value in lean.items() if isinstance(value, str | bytes) and len(value) > _LONG_TEXT]
    if not (left_out or long):
        return span
    kept = {name: value for name, value in lean.items() if name not in long}
    return replace(span, attributes=kept, dropped_attributes_count=span.dropped_attributes_count + len(long))


def format_lane(lane: Lane) -> str:
    """Return ``"0.2"`` for ``(0, 2)``, the empty string for ``()``."""
    return ".".join(map(str, lane))


def parse_lane(text: str) -> Lane:
    """Return ``(0, 2)`` for ``"0.2"``.

    Raises:
        WireError: the text is not a valid lane.
    """
    try:
        return tuple(int(part) for part in text.split(".")) if text else ()
    except ValueError:
        raise WireError(f"{genai.EXCHANGE_LANE}: found {text!r}, expected numbers joined by dots") from None


def body_attributes(name: str, body: bytes) -> dict[str, AttributeValue]:
    """Return the attributes that hold a body: as text if it is strict UTF-8, else in base64 with its encoding."""
    try:
        return {name: body.decode()}
    except UnicodeDecodeError:
        return {name: base64.b64encode(body).decode(), _ENCODINGS[name]: BASE64}


def with_plain_bodies(span: SpanRecord) -> SpanRecord:
    """Return the span with bodies that came in base64 as bytes. A span without any is returned unchanged.

    Raises:
        WireError: a body that is marked as base64 is not valid base64.
    """
    encoded = [name for name, encoding in _ENCODINGS.items() if span.attributes.get(encoding) == BASE64]
    if not encoded:
        return span
    marks = {_ENCODINGS[name] for name in encoded}
    kept = {name: value for name, value in span.attributes.items() if name not in marks}
    return replace(span, attributes={**kept, **{name: _body(span, name) for name in encoded}})


def exchange_attributes(exchange: Exchange) -> dict[str, AttributeValue]:
    """Return the attributes that hold the exchange on its span (times and ids are the span's own)."""
    request, response = exchange.request, exchange.response
    attributes: dict[str, AttributeValue] = {
        genai.EXCHANGE_KIND: exchange.kind.value,
        genai.EXCHANGE_SEAM: exchange.seam,
        genai.EXCHANGE_LANE: format_lane(exchange.lane),
        genai.EXCHANGE_SEQUENCE: exchange.sequence,
        **body_attributes(genai.REQUEST_BODY, request.body),
        genai.RESPONSE_COMPLETION: response.completion.value,
        **body_attributes(genai.RESPONSE_BODY, response.body),
        genai.RESPONSE_CHUNK_SIZES: tuple(len(chunk.data) for chunk in response.chunks),
        genai.RESPONSE_CHUNK_OFFSETS_NS: tuple(chunk.offset_ns for chunk in response.chunks),
    }
    optional: dict[str, AttributeValue] = {
        genai.EXCHANGE_DIALECT: exchange.dialect,
        genai.HTTP_REQUEST_METHOD: request.method or None,
        genai.URL_FULL: request.url or None,
        genai.REQUEST_HEADERS: _dump_headers(request.headers) if request.method else None,
        genai.REQUEST_BODY_OMITTED: request.omitted,
        genai.REQUEST_TIMEOUTS: None if exchange.error is None or request.timeouts is None else json.dumps(request.timeouts),
        genai.HTTP_RESPONSE_STATUS_CODE: response.status,
        genai.RESPONSE_REASON: response.reason,
        genai.NETWORK_PROTOCOL_VERSION: response.version,
        genai.RESPONSE_HEADERS: _dump_headers(response.headers) if response.status is not None else None,
        genai.RESPONSE_BODY_OMITTED: response.omitted,
        genai.ERROR_CHAIN: exchange.error,
        genai.TOOL_CALL_ID: exchange.call_id,
        **_code_attributes(exchange.code),
    }
    attributes.update({name: value for name, value in optional.items() if value is not None})
    if not request.method:
        attributes[_name_attribute(exchange.kind)] = exchange.name
    return attributes


def exchange_from_span(span: SpanRecord) -> Exchange | None:
    """Return the exchange that the span holds, or None if it holds none.

    Raises:
        WireError: the span records that it is an exchange, and its attributes contradict each other.
    """
    kind_text = span.text(genai.EXCHANGE_KIND)
    if kind_text is None:
        return None
    kind = _member(Kind, kind_text, genai.EXCHANGE_KIND, span)
    method, url = span.text(genai.HTTP_REQUEST_METHOD) or "", span.text(genai.URL_FULL) or ""
    return Exchange(
        kind=kind,
        name=f"{method} {_path_of(url)}" if method else span.text(_name_attribute(kind)) or span.name,
        seam=span.text(genai.EXCHANGE_SEAM) or "",
        dialect=span.text(genai.EXCHANGE_DIALECT),
        lane=parse_lane(span.text(genai.EXCHANGE_LANE) or ""),
        sequence=span.integer(genai.EXCHANGE_SEQUENCE) or 0,
        request=Request(
            method=method,
            url=url,
            headers=_load_headers(span, genai.REQUEST_HEADERS),
            body=_body(span, genai.REQUEST_BODY),
            omitted=span.text(genai.REQUEST_BODY_OMITTED),
            timeouts=_timeouts(span),
        ),
        response=Response(
            status=span.integer(genai.HTTP_RESPONSE_STATUS_CODE),
            reason=span.text(genai.RESPONSE_REASON),
            version=span.text(genai.NETWORK_PROTOCOL_VERSION),
            headers=_load_headers(span, genai.RESPONSE_HEADERS),
            chunks=_chunks(span),
            completion=_member(
                Completion,
                span.text(genai.RESPONSE_COMPLETION) or Completion.NONE.value,
                genai.RESPONSE_COMPLETION,
                span,
            ),
            omitted=span.text(genai.RESPONSE_BODY_OMITTED),
        ),
        error=span.text(genai.ERROR_CHAIN),
        call_id=span.text(genai.TOOL_CALL_ID),
        code=_code(span),
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        start_time_unix_nano=span.start_time_unix_nano,
        end_time_unix_nano=span.end_time_unix_nano,
    )


def _code_attributes(code: FunctionCode | None) -> dict[str, AttributeValue]:
    if code is None:
        return {}
    return {genai.CODE_DIGEST: code.digest, genai.CODE_FILE: code.file, genai.CODE_LINE: code.line}


def _code(span: SpanRecord) -> FunctionCode | None:
    digest = span.text(genai.CODE_DIGEST)
    if digest is None:
        return None
    return FunctionCode(digest=digest, file=span.text(genai.CODE_FILE) or "", line=span.integer(genai.CODE_LINE) or 0)


def _name_attribute(kind: Kind) -> str:
    match kind:
        case Kind.MCP:
            return genai.MCP_METHOD
        case Kind.RETRIEVAL:
            return genai.DATA_SOURCE_ID
        case Kind.DATABASE:
            return genai.DB_OPERATION_NAME
        case _:
            return genai.TOOL_NAME


def _path_of(url: str) -> str:
    _, _, rest = url.partition("://")
    slash = (rest or url).find("/")
    return (rest or url)[slash:].partition("?")[0] if slash >= 0 else "/"


def _member(cls: type[_E], text: str, name: str, span: SpanRecord) -> _E:
    try:
        return cls(text)
    except ValueError:
        expected = ", ".join(member.value for member in cls)
        raise WireError(f"span {span.span_id}: {name}: found {text!r}, expected one of {expected}") from None


def _body(span: SpanRecord, name: str) -> bytes:
    value = span.attributes.get(name)
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        return b""
    if span.attributes.get(_ENCODINGS[name]) != BASE64:
        return value.encode()
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise WireError(
            f"span {span.span_id}: {name}: {_ENCODINGS[name]} says {BASE64}, but the body does not decode: {error}"
        ) from None


def _chunks(span: SpanRecord) -> tuple[Chunk, ...]:
    body = _body(span, genai.RESPONSE_BODY)
    sizes = _integers(span.attributes.get(genai.RESPONSE_CHUNK_SIZES))
    offsets = _integers(span.attributes.get(genai.RESPONSE_CHUNK_OFFSETS_NS))
    if not sizes:
        return (Chunk(data=body),) if body else ()
    if sum(sizes) != len(body):
        raise WireError(
            f"span {span.span_id}: {genai.RESPONSE_CHUNK_SIZES}: chunks add up to {sum(sizes)} bytes, the body has {len(body)}"
        )
    chunks: list[Chunk] = []
    start = 0
    for index, size in enumerate(sizes):
        offset_ns = offsets[index] if index < len(offsets) else 0
        chunks.append(Chunk(data=body[start : start + size], offset_ns=offset_ns))
        start += size
    return tuple(chunks)


def _integers(value: AttributeValue) -> list[int]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return []
    return [item for item in value if isinstance(item, int)]


def _timeouts(span: SpanRecord) -> Timeouts | None:
    try:
        pairs = json.loads(span.text(genai.REQUEST_TIMEOUTS) or "null")
        return None if pairs is None else tuple((str(phase), None if limit is None else float(limit)) for phase, limit in pairs)
    except (ValueError, TypeError):
        raise WireError(f"span {span.span_id}: {genai.REQUEST_TIMEOUTS}: expected JSON [[phase, seconds], ...]") from None


def _dump_headers(headers: Headers) -> str:
    try:
        return orjson.dumps(headers).decode()
    except TypeError:  # a lone surrogate, which JSON can escape
        return json.dumps(headers, separators=(",", ":"))


def _load_headers(span: SpanRecord, name: str) -> Headers:
    text = span.text(name)
    if text is None:
        return ()
    try:
        return tuple((str(pair[0]), str(pair[1])) for pair in json.loads(text))
    except (ValueError, LookupError, TypeError):
        raise WireError(f"span {span.span_id}: {name}: expected JSON [[name, value], ...]") from None
