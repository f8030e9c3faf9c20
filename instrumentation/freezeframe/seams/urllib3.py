"""urllib3, and what stands on it (requests, botocore): every attempt, at ``HTTPConnectionPool._make_request``.

A redirect or a retry of urllib3's own is its own call. The body is seen at urllib3's raw reads, before content-decoding,
and served by a urllib3 response over the recorded bytes, so that each library makes its exceptions out of urllib3's.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard, say_once
from freezeframe.seams import _port
from freezeframe.seams import http as shared
from freezeframe.seams.patching import Patches
from freezeframe.seams.recording import Body, Recording, unrecorded, while_sending
from freezeframe.seams.uploads import Upload, known_bytes, read_whole
from freezeframe.seams.urllib3_response import served_response, undelivered
from freezeframe_schemas.exchange import Completion, Exchange, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Who asks urllib3."""

    seam: str
    edits: bool = True
    """An edit of a replay goes into the request here; not, if the library signs its requests and has put it in before."""


_LIBRARY: Final[ContextVar[Library]] = ContextVar("freezeframe_urllib3", default=Library(seam="urllib3"))  # noqa: B039 - it is frozen
_PROXY_WAITS: Final = "_freezeframe_proxy_waits"


@contextmanager
def asked_by(library: Library) -> Generator[None]:
    """Name the library whose requests the block makes."""
    token = _LIBRARY.set(library)
    try:
        yield
    finally:
        _LIBRARY.reset(token)


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``urllib3.connectionpool``."""
    from urllib3.util.retry import Retry

    pool: Any = module.HTTPConnectionPool
    if "preload_content" not in inspect.signature(pool._make_request).parameters:
        say_once(
            "urllib3.old",
            "freezeframe: urllib3 before version 2 is not captured, nor are calls that requests and botocore make through it",
        )
        return
    patches.replace(pool, "_make_request", _wrap)
    for cls in (pool, module.HTTPSConnectionPool):
        if "_prepare_proxy" in vars(cls):
            patches.replace(cls, "_prepare_proxy", _wrap_proxy)
    patches.replace(Retry, "sleep", functools.partial(_wrap_wait, instead=None))
    patches.replace(Retry, "sleep_for_retry", functools.partial(_wrap_wait, instead=False))


def _wrap(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def make_request(pool: Any, conn: Any, method: str, url: str, body: Any = None, headers: Any = None, **options: Any) -> Any:
        responder = _port.serving()
        written = _write(pool, method, url, headers)
        if responder is not None:
            known = known_bytes(body)
            body = read_whole(body)
            edited = _port.edited(replace(written, body=body or b"")) if _LIBRARY.get().edits else None
            if edited is not None:
                body, headers, options["chunked"] = edited, _with_length(headers, len(edited)), False
                written = _write(pool, method, url, headers)
            answer = _ask(responder, replace(written, body=body or b""), known)
            if answer is not None:
                responder.turn_in_thread(answer)
                return _serve(pool, method, answer, options)
            _open_tunnel(pool, conn)
        recording, body = _start(written, body)
        if recording is None:
            with unrecorded():
                return original(pool, conn, method, url, body=body, headers=headers, **options)
        preload = options.pop("preload_content", True)
        try:
            with while_sending():
                response = original(pool, conn, method, url, body=body, headers=headers, preload_content=False, **options)
        except BaseException as error:
            recording.finish(Completion.NONE, error)
            raise
        with guard("urllib3.response"):
            recording.answered(
                response.status,
                shared.clean_headers(response.headers.items()),
                response.reason,
                shared.version_of(response.version),
            )
            Watch(response, recording)
        if preload:  # as the response does it when it is made
            response._body = response.read(decode_content=options.get("decode_content", True))
        return response

    return make_request


def _wrap_proxy(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the opening of a tunnel: in a replay, only for a call that is made for real."""

    @functools.wraps(original)
    def prepare_proxy(pool: Any, conn: Any) -> Any:
        if _port.serving() is None:
            return original(pool, conn)
        return setattr(conn, _PROXY_WAITS, functools.partial(original, pool, conn))

    return prepare_proxy


def _open_tunnel(pool: Any, conn: Any) -> None:
    del pool
    waits: Callable[[], Any] | None = vars(conn).pop(_PROXY_WAITS, None)
    if waits is not None:
        with unrecorded():
            waits()


def _wrap_wait(original: Callable[..., Any], *, instead: bool | None) -> Callable[..., Any]:
    """Wrap the wait between two attempts: a replay does without, unless it keeps the recorded times."""

    @functools.wraps(original)
    def wait(retry: Any, *args: Any, **kwargs: Any) -> Any:
        if _port.serving() is None or _port.is_real_time():
            return original(retry, *args, **kwargs)
        return instead

    return wait


# -- record -------------------------------------------------------------------------------------------------------------


def _start(written: Request, body: Any) -> tuple[Recording | None, Any]:
    """Return the recording, None if there is none, and the body to send: one that is streamed is watched."""
    recorder = _port.recorder()
    if recorder is None:
        return None, body
    recording: Recording | None = None
    with guard("urllib3.request"):
        known = known_bytes(body)
        subject = shared.subject_of(written, known)
        if not shared.is_recorded(subject, written.url, recorder):
            return None, body
        seen = Body(recorder.settings.max_body_bytes, known)
        recording = shared.start(recorder, _LIBRARY.get().seam, subject, written, seen)
        if known is None and recording is not None:
            body = Upload(body, seen)
    return recording, body


def _write(pool: Any, method: str, url: str, headers: Mapping[Any, Any] | None) -> Request:
    if not url.startswith(("http://", "https://")):  # else it is for a proxy
        host = f"[{pool.host}]" if ":" in pool.host else pool.host
        port = "" if pool.port in (None, {"http": 80, "https": 443}.get(pool.scheme)) else f":{pool.port}"
        url = f"{pool.scheme}://{host}{port}{url}"
    pairs: Iterable[tuple[Any, Any]] = () if headers is None else headers.items()
    return Request(method=str(method), url=shared.clean_url(url), headers=shared.clean_headers(pairs))


class Watch:
    """Watches the raw reads of one urllib3 response: instance attributes in front of the class's methods."""

    def __init__(self, raw: Any, recording: Recording) -> None:
        self._recording = recording
        self._reading = False
        self._read, self._read_chunked, self._handle_chunk, self._close = (
            raw._raw_read,
            raw.read_chunked,
            raw._handle_chunk,
            raw.close,
        )
        self._connection = raw._original_response
        raw._raw_read, raw._handle_chunk = self.read, self.handle_chunk
        raw.read_chunked, raw.close = self.read_chunked, self.close
        weakref.finalize(raw, recording.finish, Completion.CLOSED_EARLY)

    def read(self, *args: Any, **kwargs: Any) -> bytes:
        """A read of a body with a length."""
        data = self._step(functools.partial(self._read, *args, **kwargs))
        if data:
            self._recording.chunk(data)
        if self._connection is None or self._connection.isclosed():
            self._recording.finish(Completion.COMPLETE)
        return data

    def handle_chunk(self, *args: Any, **kwargs: Any) -> bytes:
        """A piece of a chunked body."""
        data = self._handle_chunk(*args, **kwargs)
        if data:
            self._recording.chunk(data)
        return data

    def read_chunked(self, *args: Any, **kwargs: Any) -> Generator[bytes]:
        """All of a chunked body."""
        source = self._read_chunked(*args, **kwargs)
        while True:
            try:
                data = self._step(functools.partial(next, source))
            except StopIteration:
                self._recording.finish(Completion.COMPLETE)
                return
            yield data

    def close(self) -> None:
        """The application closes, or urllib3 does before it raises: then the error tells how it ended."""
        try:
            self._close()
        finally:
            if not self._reading:
                self._recording.finish(Completion.CLOSED_EARLY)

    def _step(self, read: Callable[[], bytes]) -> bytes:
        self._reading = True
        try:
            return read()
        except StopIteration:
            raise
        except BaseException as error:
            if partial := undelivered(error):
                self._recording.chunk(partial)
            self._recording.finish(Completion.BROKEN, error)
            raise
        finally:
            self._reading = False


# -- serve --------------------------------------------------------------------------------------------------------------


def _with_length(headers: Any, size: int) -> dict[str, Any]:
    kept = {
        name: value
        for name, value in dict(headers or {}).items()
        if str(name).lower() not in ("content-length", "transfer-encoding")
    }
    return {**kept, "Content-Length": str(size)}


def _ask(responder: _port.Responder, written: Request, known: bytes | None) -> Exchange | None:
    return shared.ask(responder, seam=_LIBRARY.get().seam, subject=shared.subject_of(written, known), request=written)


def _serve(pool: Any, method: str, answer: Exchange, options: Mapping[str, Any]) -> Any:
    from urllib3.exceptions import ProtocolError

    if answer.response.completion is Completion.NONE:
        raise shared.recorded_error(answer) or ProtocolError("recorded without a response and without its error")
    response = served_response(answer, method)
    response.retries = options.get("retries")
    response._pool = pool
    if options.get("preload_content", True):
        response._body = response.read(decode_content=options.get("decode_content", True))
    return response
