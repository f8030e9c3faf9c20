"""httpx and httpx2: every attempt of every client, whatever its transport.

Both halves sit on ``Client._send_single_request`` (class level, so clients made before `instrument()` are covered; each retry
is a separate call; bodies are seen before content-decoding). If a version lacks this private method, the default transports
are patched instead, and custom transports are not seen; `doctor` reports that.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from types import ModuleType, TracebackType
from typing import Any, Final

from freezeframe._cleaning import clean_headers, clean_request
from freezeframe._guard import guard, log_once
from freezeframe.seams.http import adapter
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.body import Body
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.recording import Recording, while_reading, while_sending
from freezeframe_schemas.exchange import Completion, Exchange, Request

_HTTP_VERSIONS: Final = {"HTTP/1.0": "1.0", "HTTP/2": "2", "HTTP/3": "3"}


def install(module: ModuleType, patches: Patches) -> None:
    """Patch `module`, which is httpx or httpx2."""
    seam = _Seam(module)
    if hasattr(module.Client, "_send_single_request") and hasattr(module.AsyncClient, "_send_single_request"):
        patches.around(module.Client, "_send_single_request", seam.send)
        patches.around(module.AsyncClient, "_send_single_request", seam.send_async)
        return
    log_once(
        f"{module.__name__}.fallback",
        "freezeframe: %s %s has no Client._send_single_request: custom transports are not captured",
        module.__name__,
        getattr(module, "__version__", "?"),
    )
    patches.around(module.HTTPTransport, "handle_request", seam.send)
    patches.around(module.AsyncHTTPTransport, "handle_async_request", seam.send_async)


class _Seam:
    """One of the two modules. httpx checks with ``isinstance``, so streams must be of the module's own classes."""

    def __init__(self, module: ModuleType) -> None:
        self.module: Any = module
        self.name = module.__name__
        self._bases: tuple[Any, Any] = (self.module.SyncByteStream, self.module.AsyncByteStream)

    @functools.cache  # noqa: B019 - there are two seams, for good
    def stream(self, kind: type, *, is_sync: bool, is_async: bool) -> Any:
        """Return the class of streams that is `kind` and the module's own. Multipart bodies are streams of both kinds."""
        bases = [base for base, holds in zip(self._bases, (is_sync, is_async), strict=True) if holds]
        return type(kind.__name__, (kind, *bases), {})

    def upload(self, stream: Any, body: Body) -> Any:
        """Return the request's stream, watched."""
        is_sync, is_async = (isinstance(stream, base) for base in self._bases)
        return self.stream(_Upload, is_sync=is_sync, is_async=is_async)(stream, body)

    def send(self, original: Callable[..., Any], client: Any, request: Any) -> Any:
        """Send one request, or serve its answer."""
        attempt = _Attempt(self, request, is_async=False)
        if attempt.responder is not None:
            with suppress(self.module.StreamConsumed):  # by the previous hop: how that ended is recorded
                request.read()
            answer = attempt.ask()
            if answer is not None:
                attempt.responder.turn_in_thread(answer)
                return attempt.served(client, answer)
        with _Sending(attempt):
            response = original(client, attempt.request)
        with guard(f"{self.name}.response"):
            if attempt.is_whole(response):
                for _ in response.stream:
                    """The tee sees it go by."""
        return response

    async def send_async(self, original: Callable[..., Awaitable[Any]], client: Any, request: Any) -> Any:
        """Like `send`, for an asynchronous client."""
        attempt = _Attempt(self, request, is_async=True)
        if attempt.responder is not None:
            with suppress(self.module.StreamConsumed):
                await request.aread()
            answer = attempt.ask()
            if answer is not None:
                await switch.take_turn(attempt.responder, answer)
                return attempt.served(client, answer)
        with _Sending(attempt):
            response = await original(client, attempt.request)
        with guard(f"{self.name}.response"):
            if attempt.is_whole(response):
                async for _ in response.stream:
                    """The tee sees it go by."""
        return response

    def known_body(self, request: Any) -> bytes | None:
        """Return the body, None for one that is streamed. The later hops of a redirect stream the bytes of the first."""
        if isinstance(request.stream, self.module.ByteStream):
            return b"".join(request.stream)
        try:
            return request.content
        except self.module.RequestNotRead:
            return None


class _Attempt:
    """One request and its result."""

    __slots__ = ("_is_async", "_known", "_recording", "_seam", "_streamed", "request", "responder")

    def __init__(self, seam: _Seam, request: Any, *, is_async: bool) -> None:
        self._seam = seam
        self._is_async = is_async
        self.request = request
        self.responder = switch.serving()
        if self.responder is not None:
            self._streamed, self._known = request.stream, seam.known_body(request)
        self._recording: Recording | None = None

    # -- serve ----------------------------------------------------------------------------------------------------------

    def ask(self) -> Exchange | None:
        """Return the recorded answer to the request, which has been read; None if it (or its edited form) is sent."""
        assert self.responder is not None
        body = getattr(self.request, "_content", b"")  # None for a body that was sent and cannot be sent again
        edited = switch.edited(replace(self._write(), body=body))
        if edited is not None:
            request, body = self.request, edited
            headers = [pair for pair in request.headers.raw if pair[0].lower() not in (b"content-length", b"transfer-encoding")]
            self.request = self._seam.module.Request(
                request.method, request.url, headers=headers, content=body, extensions=request.extensions
            )
        answer = adapter.ask(self.responder, self._seam.name, replace(self._write(), body=body), self._known)
        if answer is not None:
            self.request.stream = self._streamed
        return answer

    def served(self, client: Any, answer: Exchange) -> Any:
        """Return the recorded response, or raise the recorded error."""
        module = self._seam.module
        failure = adapter.failure(answer, module.ConnectError)
        if failure is not None:
            raise self._with_request(failure)
        end, reason = adapter.end_of_stream(answer), answer.response.reason
        stream = self._stream(adapter.ServedChunks)
        extensions = {"http_version": f"HTTP/{answer.response.version or '1.1'}".encode()}
        response = module.Response(
            answer.response.status or 200,
            headers=adapter.served_headers(answer),
            stream=stream(adapter.Schedule(answer), end and self._with_request(end)),
            request=self.request,
            extensions=extensions if reason is None else {**extensions, "reason_phrase": reason.encode("latin-1", "replace")},
        )
        response.elapsed = dt.timedelta(microseconds=(answer.end_time_unix_nano - answer.start_time_unix_nano) // 1000)
        if isinstance(client, module.Client | module.AsyncClient):
            client.cookies.extract_cookies(response)
            response.default_encoding = client._default_encoding
        return response

    def _with_request(self, error: BaseException) -> BaseException:
        """Return the rebuilt error as this library raises it: with its request."""
        rebuilt: Any = error
        if isinstance(error, self._seam.module.RequestError):
            rebuilt.request = self.request
        return rebuilt

    # -- record ---------------------------------------------------------------------------------------------------------

    def begin_recording(self) -> Recording | None:
        """Record the request, which is about to be sent; None if it is not to be recorded."""
        self._recording = adapter.record(self._seam.name, lambda: (self._write(), self._seam.known_body(self.request)))
        if self._recording is not None and self._recording.request_body.comes_in_pieces:
            self.request.stream = self._seam.upload(self.request.stream, self._recording.request_body)
        return self._recording

    def is_whole(self, response: Any) -> bool:
        """Watch the response. Return whether its transport returned the whole body, so that the stream is not read again."""
        recording = self._recording
        if recording is None:
            return False
        reason = response.extensions.get("reason_phrase")  # not in HTTP/2
        recording.answered(
            response.status_code,
            clean_headers(response.headers.raw),
            None if reason is None else reason.decode("latin-1"),
            _HTTP_VERSIONS.get(response.http_version),
        )
        response.stream = self._stream(_Tee)(response.stream, recording)
        return hasattr(response, "_content")

    def _write(self) -> Request:
        sent = self.request
        limits = sent.extensions.get("timeout")
        timeouts = tuple(limits.items()) if isinstance(limits, dict) else None
        return clean_request(sent.method, str(sent.url), sent.headers.raw, timeouts=timeouts)

    def _stream(self, kind: type) -> Any:
        return self._seam.stream(kind, is_sync=not self._is_async, is_async=self._is_async)


class _Sending(while_sending):
    """Record the request that the block sends."""

    __slots__ = ("_request", "_streamed")

    def __init__(self, attempt: _Attempt) -> None:
        self._request, self._streamed = attempt.request, attempt.request.stream
        super().__init__(attempt.begin_recording())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        if self._recording is not None:
            self._request.stream = self._streamed  # which the next hop of a redirect sends again


# -- streams: each has both ways to iterate, and its subclass has the base of the right one -------------------------


class _Tee:
    """A response's stream, watched."""

    def __init__(self, inner: Any, recording: Recording) -> None:
        self._inner = inner
        self._recording = recording

    @property
    def elapsed(self) -> Any:
        """httpx2 reads the time from the stream."""
        return getattr(self._inner, "elapsed", None)

    def __iter__(self) -> Iterator[bytes]:
        with while_reading(self._recording):
            for chunk in self._inner:
                self._recording.chunk(chunk)
                yield chunk

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with while_reading(self._recording):
            async for chunk in self._inner:
                self._recording.chunk(chunk)
                yield chunk

    def close(self) -> None:
        try:
            self._inner.close()
        finally:
            self._recording.finish(Completion.CLOSED_EARLY)

    async def aclose(self) -> None:
        try:
            await self._inner.aclose()
        finally:
            self._recording.finish(Completion.CLOSED_EARLY)

    def __del__(self) -> None:
        self._recording.finish(Completion.CLOSED_EARLY)


class _Upload:
    """A request's stream, watched."""

    def __init__(self, inner: Any, body: Body) -> None:
        self._inner = inner
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._inner:
            self._body.add(chunk)
            yield chunk

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._body.add(chunk)
            yield chunk
