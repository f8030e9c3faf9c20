"""httpx and httpx2: every attempt of every client, whatever its transport.

Both halves sit on ``Client._send_single_request`` (class level, so that clients made before us are covered; a retry is a call
of its own; bodies are seen before content-decoding). Where a version lacks this private method, the default transports are
patched instead, and custom transports go unseen; `doctor` says so.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from types import ModuleType
from typing import Any

from freezeframe._guard import guard, say_once
from freezeframe.seams import _port, http
from freezeframe.seams.patching import Patches
from freezeframe.seams.recording import Body, Recording, unrecorded, while_sending
from freezeframe_schemas.exchange import Completion, Exchange, Request

Send = Callable[[Any, Any], Any]
AsyncSend = Callable[[Any, Any], Awaitable[Any]]


def install(module: ModuleType, patches: Patches) -> None:
    """Patch `module`, which is httpx or httpx2."""
    seam = _Seam(module)
    if hasattr(module.Client, "_send_single_request") and hasattr(module.AsyncClient, "_send_single_request"):
        patches.replace(module.Client, "_send_single_request", seam.wrap)
        patches.replace(module.AsyncClient, "_send_single_request", seam.wrap_async)
        return
    say_once(
        f"{module.__name__}.fallback",
        "freezeframe: %s %s has no Client._send_single_request: custom transports are not captured",
        module.__name__,
        getattr(module, "__version__", "?"),
    )
    patches.replace(module.HTTPTransport, "handle_request", seam.wrap)
    patches.replace(module.AsyncHTTPTransport, "handle_async_request", seam.wrap_async)


class _Seam:
    """Both halves for one of the two modules; streams must be of that module's own classes."""

    def __init__(self, module: ModuleType) -> None:
        self._module: Any = module
        self._name = module.__name__
        self._streams = _make_streams(module)

    def wrap(self, original: Send) -> Send:
        """Return the synchronous method with both halves in it."""

        @functools.wraps(original)
        def send(client: Any, request: Any) -> Any:
            responder = _port.serving()
            if responder is not None:
                streamed, known = request.stream, self._known_body(request)
                with suppress(self._module.StreamConsumed):  # by the hop before: it is recorded how that ended
                    request.read()
                request = self._edited(request)
                answer = self._ask(responder, request, known)
                if answer is not None:
                    request.stream = streamed
                    responder.turn_in_thread(answer)
                    return self._response(client, request, answer, self._streams.Served)
            streamed = request.stream
            recording = self._start(request)
            if recording is None:
                with unrecorded():
                    return original(client, request)
            try:
                with while_sending():
                    response = original(client, request)
            except BaseException as error:
                recording.finish(Completion.NONE, error)
                raise
            finally:
                request.stream = streamed  # which the next hop of a redirect sends again
            with guard(f"{self._name}.response"):
                self._head(response, recording)
                if not hasattr(response, "_content"):
                    response.stream = self._streams.Tee(response.stream, recording)
                else:  # a transport that gives the whole body at once: no one reads the stream any more
                    for chunk in response.stream:
                        recording.chunk(chunk)
                    recording.finish(Completion.COMPLETE)
            return response

        return send

    def wrap_async(self, original: AsyncSend) -> AsyncSend:
        """Return the asynchronous method with both halves in it."""

        @functools.wraps(original)
        async def send(client: Any, request: Any) -> Any:
            responder = _port.serving()
            if responder is not None:
                streamed, known = request.stream, self._known_body(request)
                with suppress(self._module.StreamConsumed):
                    await request.aread()
                request = self._edited(request)
                answer = self._ask(responder, request, known)
                if answer is not None:
                    request.stream = streamed
                    await _port.take_turn(responder, answer)
                    return self._response(client, request, answer, self._streams.AsyncServed)
            streamed = request.stream
            recording = self._start(request)
            if recording is None:
                with unrecorded():
                    return await original(client, request)
            try:
                with while_sending():
                    response = await original(client, request)
            except BaseException as error:
                recording.finish(Completion.NONE, error)
                raise
            finally:
                request.stream = streamed  # which the next hop of a redirect sends again
            with guard(f"{self._name}.response"):
                self._head(response, recording)
                if not hasattr(response, "_content"):
                    response.stream = self._streams.AsyncTee(response.stream, recording)
                else:
                    async for chunk in response.stream:
                        recording.chunk(chunk)
                    recording.finish(Completion.COMPLETE)
            return response

        return send

    # -- record ---------------------------------------------------------------------------------------------------------

    def _start(self, request: Any) -> Recording | None:
        recorder = _port.recorder()
        if recorder is None:
            return None
        with guard(f"{self._name}.request"):
            written = self._write(request)
            known = self._known_body(request)
            subject = http.subject_of(written, known)
            if not http.is_recorded(subject, written.url, recorder):
                return None
            body = Body(recorder.settings.max_body_bytes, known)
            if known is None:
                request.stream = self._streams.tee_of_request(request.stream, body)
            return http.start(recorder, self._name, subject, written, body)
        return None

    def _write(self, request: Any) -> Request:
        return Request(
            method=request.method, url=http.clean_url(str(request.url)), headers=http.clean_headers(request.headers.raw)
        )

    def _known_body(self, request: Any) -> bytes | None:
        """Return the body, None for one that is streamed. The later hops of a redirect stream the bytes of the first."""
        if isinstance(request.stream, self._module.ByteStream):
            return b"".join(request.stream)
        try:
            return request.content
        except self._module.RequestNotRead:
            return None

    def _head(self, response: Any, recording: Recording) -> None:
        reason = response.extensions.get("reason_phrase")  # HTTP/2 has none
        recording.answered(
            response.status_code,
            http.clean_headers(response.headers.raw),
            None if reason is None else reason.decode("latin-1"),
            {"HTTP/1.0": "1.0", "HTTP/2": "2", "HTTP/3": "3"}.get(response.http_version),
        )

    # -- serve ----------------------------------------------------------------------------------------------------------

    def _edited(self, request: Any) -> Any:
        """Return the request that a replay asks for: this one, or one like it with another body."""
        body = _port.edited(replace(self._write(request), body=_content(request)))
        if body is None:
            return request
        headers = [pair for pair in request.headers.raw if pair[0].lower() not in (b"content-length", b"transfer-encoding")]
        return self._module.Request(request.method, request.url, headers=headers, content=body, extensions=request.extensions)

    def _ask(self, responder: _port.Responder, request: Any, known: bytes | None) -> Exchange | None:
        written = replace(self._write(request), body=_content(request))
        return http.ask(responder, seam=self._name, subject=http.subject_of(written, known), request=written)

    def _response(self, client: Any, request: Any, answer: Exchange, stream: Any) -> Any:
        if answer.response.completion is Completion.NONE:
            raise self._with_request(http.recorded_error(answer), request)
        end = http.end_of_stream(answer)
        response = self._module.Response(
            answer.response.status or 200,
            headers=http.served_headers(answer),
            stream=stream(http.Schedule(answer), end and self._with_request(end, request)),
            request=request,
            extensions={"http_version": f"HTTP/{answer.response.version or '1.1'}".encode(), **_reason(answer)},
        )
        response.elapsed = dt.timedelta(microseconds=(answer.end_time_unix_nano - answer.start_time_unix_nano) // 1000)
        if isinstance(client, self._module.Client | self._module.AsyncClient):
            client.cookies.extract_cookies(response)
            response.default_encoding = client._default_encoding
        return response

    def _with_request(self, error: BaseException | None, request: Any) -> BaseException:
        """Return the rebuilt error as this library raises it: with the request that met it."""
        if error is None:
            return self._module.ConnectError("recorded without a response and without its error", request=request)
        rebuilt: Any = error
        if isinstance(error, self._module.RequestError):
            rebuilt.request = request
        return rebuilt


def _content(request: Any) -> bytes:
    """Return the body, none of one that was sent before and cannot be sent again."""
    return getattr(request, "_content", b"")


def _reason(answer: Exchange) -> dict[str, bytes]:
    reason = answer.response.reason
    return {} if reason is None else {"reason_phrase": reason.encode("latin-1", "replace")}


class _Streams:
    """The stream classes that are made for one module."""

    __slots__ = ("AsyncServed", "AsyncTee", "Served", "Tee", "tee_of_request")

    def __init__(self, *, Tee: Any, AsyncTee: Any, Served: Any, AsyncServed: Any, tee_of_request: Any) -> None:  # noqa: N803 - they are classes
        self.Tee = Tee
        self.AsyncTee = AsyncTee
        self.Served = Served
        self.AsyncServed = AsyncServed
        self.tee_of_request = tee_of_request


def _make_streams(module: Any) -> _Streams:
    """Return the four stream classes as subclasses of the module's own: it checks by ``isinstance``."""
    sync_base: type[Any] = module.SyncByteStream
    async_base: type[Any] = module.AsyncByteStream

    class Tee(sync_base):
        def __init__(self, inner: Any, recording: Recording) -> None:
            self._inner = inner
            self._recording = recording

        @property
        def elapsed(self) -> Any:
            """httpx2 reads the time from the stream."""
            return getattr(self._inner, "elapsed", None)

        def __iter__(self) -> Iterator[bytes]:
            try:
                for chunk in self._inner:
                    self._recording.chunk(chunk)
                    yield chunk
            except GeneratorExit:
                self._recording.finish(Completion.CLOSED_EARLY)
                raise
            except BaseException as error:
                self._recording.finish(Completion.BROKEN, error)
                raise
            self._recording.finish(Completion.COMPLETE)

        def close(self) -> None:
            try:
                self._inner.close()
            finally:
                self._recording.finish(Completion.CLOSED_EARLY)

        def __del__(self) -> None:
            self._recording.finish(Completion.CLOSED_EARLY)

    class AsyncTee(async_base):
        def __init__(self, inner: Any, recording: Recording) -> None:
            self._inner = inner
            self._recording = recording

        @property
        def elapsed(self) -> Any:
            """httpx2 reads the time from the stream."""
            return getattr(self._inner, "elapsed", None)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for chunk in self._inner:
                    self._recording.chunk(chunk)
                    yield chunk
            except GeneratorExit:
                self._recording.finish(Completion.CLOSED_EARLY)
                raise
            except BaseException as error:
                self._recording.finish(Completion.BROKEN, error)
                raise
            self._recording.finish(Completion.COMPLETE)

        async def aclose(self) -> None:
            try:
                await self._inner.aclose()
            finally:
                self._recording.finish(Completion.CLOSED_EARLY)

        def __del__(self) -> None:
            self._recording.finish(Completion.CLOSED_EARLY)

    class Served(sync_base):
        def __init__(self, schedule: http.Schedule, end: BaseException | None) -> None:
            self._schedule = schedule
            self._end = end

        def __iter__(self) -> Iterator[bytes]:
            yield from self._schedule
            if self._end is not None:
                raise self._end

    class AsyncServed(async_base):
        def __init__(self, schedule: http.Schedule, end: BaseException | None) -> None:
            self._schedule = schedule
            self._end = end

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._schedule:
                yield chunk
            if isinstance(self._end, asyncio.CancelledError):
                await self._schedule.stay_open()
            if self._end is not None:
                raise self._end

    class RequestTee(sync_base):
        def __init__(self, inner: Any, body: Body) -> None:
            self._inner = inner
            self._body = body

        def __iter__(self) -> Iterator[bytes]:
            for chunk in self._inner:
                self._body.add(chunk)
                yield chunk

    class AsyncRequestTee(async_base):
        def __init__(self, inner: Any, body: Body) -> None:
            self._inner = inner
            self._body = body

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._inner:
                self._body.add(chunk)
                yield chunk

    class BothRequestTee(RequestTee, AsyncRequestTee):
        """Multipart bodies are streams of both kinds."""

    def tee_of_request(inner: Any, body: Body) -> Any:
        if isinstance(inner, sync_base):
            return (BothRequestTee if isinstance(inner, async_base) else RequestTee)(inner, body)
        return AsyncRequestTee(inner, body)

    return _Streams(Tee=Tee, AsyncTee=AsyncTee, Served=Served, AsyncServed=AsyncServed, tee_of_request=tee_of_request)
