"""The request as ClickHouse clients send it: statement, parameters, settings, user; and the codecs of both directions."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from freezeframe_collector.facade.blocks import BlockEncoder, decode_blocks
from freezeframe_collector.readers.errors import ClickHouseError
from freezeframe_collector.receivers.compression import decompress
from freezeframe_schemas.decompression import UnpacksTooFarError
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.local_tokens import is_same, shown_token

DEFAULT_FORMAT: Final = "TabSeparated"
_SESSION_SECONDS: Final = 60.0

# Parameters of the transport; every other one is a setting of the statement.
_TRANSPORT: Final = frozenset(
    {
        *("query", "database", "default_format", "query_id", "session_id", "session_timeout", "session_check", "user"),
        *("password", "compress", "decompress", "wait_end_of_query", "buffer_size", "send_progress_in_http_headers"),
        *("http_headers_progress_interval_ms", "enable_http_compression", "http_zlib_compression_level", "role"),
        *("quota_key", "stacktrace", "client_protocol_version", "add_http_cors_header", "close_session"),
        *("http_native_compression_disable_checksumming_on_decompress", "cancel_http_readonly_queries_on_client_close"),
        *("http_write_exception_in_output_format", "http_response_buffer_size", "output_format_headers"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Credentials of a reader."""

    name: str
    password: str = field(default="", repr=False)
    may_insert: bool = False
    """True if the user may add to `execute.TABLES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRequest:
    """One statement with everything that is sent along with it."""

    sql: bytes
    query_id: str
    database: str | None = None
    default_format: str = DEFAULT_FORMAT
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    session_id: str | None = None
    session_seconds: float = _SESSION_SECONDS
    session_must_exist: bool = False
    wait: bool = False
    """Answer only when the statement has ended, so that an error has its own status."""
    encoding: str | None = None
    """Content-Encoding of the answer."""
    blocks: bool = False
    """Answer in ClickHouse's compressed blocks, ``compress=1``."""


def parse_request(
    query: Mapping[str, str], headers: Mapping[str, str], body: bytes, query_id: str, fields: Mapping[str, str]
) -> QueryRequest:
    """Return the request; `fields` are those of a multipart form, which add to the URL's.

    Raises:
        ClickHouseError: a parameter makes no sense.
    """
    parameters = {**query, **fields}
    text = parameters.get("query", "").encode()
    settings = {name: value for name, value in parameters.items() if name not in _TRANSPORT and not name.startswith("param_")}
    try:
        seconds = float(parameters.get("session_timeout") or _SESSION_SECONDS)
    except ValueError:
        raise ClickHouseError(36, "BAD_ARGUMENTS", "session_timeout: expected seconds") from None
    blocks, http_compression = is_on(parameters.get("compress")), is_on(parameters.get("enable_http_compression"))
    return QueryRequest(
        sql=text + b"\n" + body if text and body else text or body,
        query_id=query_id,
        database=parameters.get("database") or headers.get("X-ClickHouse-Database") or None,
        default_format=parameters.get("default_format") or headers.get("X-ClickHouse-Format") or DEFAULT_FORMAT,
        settings=settings,
        parameters={name[6:]: value for name, value in parameters.items() if name.startswith("param_")},
        session_id=parameters.get("session_id") or None,
        session_seconds=min(seconds, 3600.0),
        session_must_exist=is_on(parameters.get("session_check")),
        wait=is_on(parameters.get("wait_end_of_query")),
        encoding=_pick_encoding(headers.get("Accept-Encoding", "")) if http_compression and not blocks else None,
        blocks=blocks,
    )


def authenticate(users: Mapping[str, User], query: Mapping[str, str], headers: Mapping[str, str]) -> User:
    """Return the authenticated user, by header, Basic, URL, or a bearer token, which is the password of ``default``.

    Raises:
        ClickHouseError: the user is unknown, or the password is wrong.
    """
    name, password = "default", ""
    authorization = headers.get("Authorization", "")
    if authorization[:6].lower() == "basic ":
        try:
            name, _, password = base64.b64decode(authorization[6:], validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            raise ClickHouseError(516, "AUTHENTICATION_FAILED", "Invalid HTTP Basic credentials") from None
    else:
        password = shown_token(authorization)
    if "X-ClickHouse-User" in headers or "X-ClickHouse-Key" in headers:
        name, password = headers.get("X-ClickHouse-User", "default"), headers.get("X-ClickHouse-Key", "")
    if "user" in query or "password" in query:
        name, password = query.get("user", "default"), query.get("password", "")
    user = users.get(name or "default")
    # compared even if the user is unknown, so that the time reveals nothing
    matches = is_same(password, user.password if user else "\0")
    if user is None or not matches:
        raise ClickHouseError(
            516,
            "AUTHENTICATION_FAILED",
            f"{name}: Authentication failed: password is incorrect, or there is no user with such name. The password of default"
            " is in the file reader-token of the collector's data directory, where freezeframe's own commands find it.",
        )
    return user


# -- content codings ----------------------------------------------------------------------------------------------------


class Encoder(Protocol):
    """A streaming compressor."""

    def compress(self, data: bytes, /) -> bytes:
        """Return the compressed data that is ready."""
        ...

    def flush(self) -> bytes: ...


class _Lz4Encoder:
    def __init__(self) -> None:
        import lz4.frame

        self._compressor = lz4.frame.LZ4FrameCompressor()
        self._head = self._compressor.begin()

    def compress(self, data: bytes, /) -> bytes:
        head, self._head = self._head, b""
        return head + self._compressor.compress(data)

    def flush(self) -> bytes:
        head, self._head = self._head, b""
        return head + self._compressor.flush()


def make_encoder(request: QueryRequest) -> Encoder | None:
    """Return a compressor for the answer if requested: of blocks, or of a Content-Encoding."""
    if request.blocks:
        return BlockEncoder()
    match request.encoding:
        case None:
            return None
        case "zstd":
            import zstandard

            return zstandard.ZstdCompressor(level=1).compressobj()
        case "lz4":
            return _Lz4Encoder()
        case "gzip":
            return zlib.compressobj(1, zlib.DEFLATED, 31)
        case _:
            return zlib.compressobj(1)


def decode_body(body: bytes, encoding: str, *, limit_bytes: int, blocks: bool) -> bytes:
    """Return the body of a request without its Content-Encoding, and out of its blocks.

    Args:
        body: the body as received.
        encoding: the header.
        limit_bytes: maximum size of the decoded body.
        blocks: whether it is a sequence of ClickHouse's compressed blocks, ``decompress=1``.

    Raises:
        ClickHouseError: the coding is unknown, the bytes are not valid in it, or too many come out.
    """
    name = encoding.strip().lower()
    try:
        plain = _unpack_lz4(body, limit_bytes) if name == "lz4" else decompress(body, name, limit_bytes)
    except UnpacksTooFarError as error:
        raise ClickHouseError(307, "TOO_MANY_BYTES", error.message) from None
    except WireError as error:
        raise ClickHouseError(354, "ZLIB_INFLATE_FAILED", str(error)) from None
    return decode_blocks(plain, limit_bytes) if blocks else plain


def _unpack_lz4(body: bytes, limit_bytes: int) -> bytes:
    import lz4.frame

    engine = lz4.frame.LZ4FrameDecompressor()
    try:
        plain: bytes = engine.decompress(body, max_length=limit_bytes + 1)
    except (RuntimeError, EOFError):
        raise WireError("the body is not valid lz4") from None
    if len(plain) > limit_bytes:
        raise WireError(f"the body has {len(plain)} bytes or more, the limit is {limit_bytes}")
    if not engine.eof:
        raise WireError("the lz4 body is cut short")
    return plain


def _pick_encoding(accepted: str) -> str | None:
    names = {part.partition(";")[0].strip().lower() for part in accepted.split(",")}
    return next((name for name in ("zstd", "lz4", "gzip", "deflate") if name in names), None)


def is_on(value: str | None) -> bool:
    """Return whether a parameter of the URL is set."""
    return value in {"1", "true"}
